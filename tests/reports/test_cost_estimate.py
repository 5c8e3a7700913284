import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tests.judging.prices import OPUS
from tournament_assets.judging.costs.estimates import JudgingEstimate, Observation, Workload
from tournament_assets.judging.costs.prices import Budget, Cost
from tournament_assets.reports.cost_estimate import (
    cost_sentences,
    estimate_document,
    estimate_json,
    estimate_rows,
    estimate_totals,
    estimate_warnings,
)
from tournament_assets.reports.terminal import print_document

FACTUALITY = Workload(
    presentations=1000,
    identical=0,
    distinct=1000,
    answered=100,
    under_way=0,
    prefix_tokens=2200,
    message_tokens=900 * 700,
    distinct_message_tokens=1000 * 700,
    tokens_per_reply=450.0,
)
CALIBRATION = replace(FACTUALITY, answered=0, message_tokens=1000 * 700)
FREE = {"judge_model": "loopback-lexical", "price": None, "is_free": True}
UNKNOWN = {"judge_model": "claude-unheard-of", "price": None}


def estimate(**changed: Any) -> JudgingEstimate:
    made = JudgingEstimate(
        mode="headline",
        judge_model="claude-opus-5-5",
        prices_of="2026-09",
        price=OPUS,
        batch_discount=0.5,
        workloads={"factuality": FACTUALITY, "calibration": CALIBRATION},
        assumed_responses=0,
        is_free=False,
        observation=None,
        month=Cost(1.5),
        budget=None,
    )
    return replace(made, **changed)


def observed(hit_rate: float | None) -> Observation:
    return Observation(n_replies=1234, output_tokens_per_reply=450.0, cache_hit_rate=hit_rate)


def budget(limit: float = 50.0) -> Budget:
    return Budget(limit_usd=limit, period="month", spent_usd=1.5, committed_usd=0.25)


def printed(made: JudgingEstimate) -> str:
    buffer = io.StringIO()
    print_document(estimate_document(made), Console(file=buffer, width=100))
    return buffer.getvalue()


def test_every_dimension_is_priced_and_the_total_is_their_sum() -> None:
    rows = estimate_rows(estimate(observation=observed(0.7)))
    assert [row.dimension for row in rows] == ["factuality", "calibration"]
    assert [row.to_ask for row in rows] == [900, 1000]
    # A request of 2,200 + 700 input tokens at $4 and 450 output tokens at $20, in a batch.
    each = (2900 * 4 + 450 * 20) * 0.5 / 1e6
    assert rows[1].usd_uncached == pytest.approx(1000 * each)
    totals = estimate_totals(estimate(observation=observed(0.7)))
    for name in ("usd_uncached", "usd_no_hits", "usd_observed", "usd_all_hits"):
        assert totals[name] == pytest.approx(sum(getattr(row, name) for row in rows))
    assert totals["usd_uncached"] == pytest.approx(1900 * each)


def test_the_printed_prices_are_those_of_no_cache_no_hits_the_observed_rate_and_all_hits() -> None:
    words = printed(estimate(observation=observed(0.7)))
    assert re.search(r"factuality +1,000 +100 +900", words)
    assert re.search(r"all +2,000 +100 +1,900", words)
    prices = [
        float(amount) for amount in re.findall(r"(?:caching|prefix|far|it) +\$(\d+\.\d\d)", words)
    ]
    uncached, no_hits, at_70, all_hits = prices
    assert all_hits < at_70 < uncached < no_hits
    assert "70 % hits" in words
    assert "1,234 replies" in words


def test_columns_that_hold_only_zeros_are_not_shown() -> None:
    assert "identical" not in printed(estimate())
    assert "under way" not in printed(estimate())
    assert "distinct" not in printed(estimate())
    some = replace(FACTUALITY, identical=10, under_way=40, distinct=900)
    words = printed(estimate(workloads={"factuality": some}))
    assert re.search(r"factuality +1,000 +10 +900 +100 +40 +760 ", words)
    assert "all " not in words.split("Prices of")[0]


def test_without_an_observation_the_assumed_reply_and_the_break_even_rate_are_told() -> None:
    words = " ".join(printed(estimate()).split())
    assert re.findall(r"at (\d+), \w+ is assumed", words) == ["450"]
    assert re.findall(r"warning: .*?(\d+) %", words) == ["51"]
    assert "observed" not in words


def test_every_prefix_is_told_and_a_line_break_in_a_name_ends_no_sentence() -> None:
    (note,) = cost_sentences(
        "notes", estimate(workloads={"fact\nuality": FACTUALITY, "b": CALIBRATION})
    )
    assert note.endswith("Prefix, in tokens: fact uality 2,200, b 2,200.")


def test_hits_below_the_break_even_rate_are_a_problem_and_others_are_not() -> None:
    (problem,) = cost_sentences("caching_problems", estimate(observation=observed(0.38)))
    assert re.findall(r"\d+ %", problem) == ["38 %", "51 %"]
    assert cost_sentences("caching_problems", estimate(observation=observed(0.52))) == []
    assert estimate_warnings(estimate(observation=observed(0.52))) == []
    (said,) = cost_sentences("caching", estimate(observation=observed(0.52)))
    assert re.findall(r"\d+ %", said) == ["51 %", "52 %"]


def test_a_prefix_too_short_to_be_cached_is_named() -> None:
    short = replace(FACTUALITY, prefix_tokens=511)
    (problem,) = cost_sentences(
        "caching_problems", estimate(workloads={"factuality": short, "b": CALIBRATION})
    )
    assert "factuality" in problem
    assert re.findall(r"\d{3}", problem) == ["511", "512"]


def test_a_dimension_without_a_pair_has_no_prefix_to_be_cached() -> None:
    none = replace(CALIBRATION, presentations=0, distinct=0, message_tokens=0, prefix_tokens=0)
    assert (
        cost_sentences("caching_problems", estimate(workloads={"a": FACTUALITY, "b": none})) == []
    )


def test_the_budget_line_says_what_was_spent_what_is_under_way_and_what_is_left() -> None:
    assert cost_sentences("budget", estimate(budget=budget())) == [
        "Spent this month (UTC): $1.50. Budget: $50.00 a month, of which $1.50 is spent, $0.25 "
        "under way and $48.25 left."
    ]
    (without,) = cost_sentences("budget", estimate())
    assert re.findall(r"\$[\d.]+\d", without) == ["$1.50"]
    assert "judging.budget.usd" in without
    assert "claude-old" in cost_sentences("budget", estimate(month=Cost(1.5, ("claude-old",))))[0]


def test_a_plan_above_the_budget_is_the_first_warning() -> None:
    assert estimate(budget=budget()).budget_problem is None
    warnings = estimate_warnings(estimate(budget=budget(20.0)))
    assert re.match(r".*headline.* \$27\.93; .*budget", warnings[0])
    first, *_ = printed(estimate(budget=budget(20.0))).split("warning: ")[1:]
    assert "headline" in first


def test_the_plan_is_held_against_the_budget_at_no_hits_at_all() -> None:
    dearest = estimate().total_usd(0.0)
    assert estimate().planned_usd == dearest
    assert dearest is not None
    assert estimate(budget=budget(dearest + 1.75 + 0.001)).budget_problem is None
    assert estimate(budget=budget(dearest + 1.75 - 0.001)).budget_problem is not None


@pytest.mark.parametrize(
    ("ahead", "left", "waits"),
    [(10, 150.0, 1), (10, 41.9, 2), (10, 30.0, 3), (0, 41.9, 2), (0, 30.0, 4), (10, 0.0, None)],
)
def test_the_number_of_waits_follows_from_what_is_set_aside_and_what_is_billed(
    ahead: int, left: float, waits: int | None
) -> None:
    # Of each request 1.47 cents are billed; 2.34 are set aside once some replies are known, and
    # 5.26 before.
    works = [replace(each, most_usd=50.0, ahead=ahead) for each in (FACTUALITY, CALIBRATION)]
    made = estimate(workloads=dict(zip("ab", works, strict=True)), budget=budget(left + 1.75))
    assert made.waits == waits
    assert replace(made, batch_discount=1.0).waits is None
    assert replace(made, budget=None).waits is None


@pytest.mark.parametrize("share", [0.01, 0.3, 0.999, 1.0, 1.0001])
def test_a_budget_that_does_not_hold_the_plan_is_said_to_be_refused_and_counts_no_batches(
    share: float,
) -> None:
    works = {"a": replace(FACTUALITY, most_usd=500.0)}
    planned = estimate(workloads=works).planned_usd or 0.0
    made = estimate(workloads=works, budget=budget(1.75 + share * planned))
    words = " ".join(printed(made).split())
    assert "99 batches" not in words
    problem = made.budget_problem
    assert ("a run is refused" in words) == (problem is not None) == (share < 1)
    assert made.waits is None or made.waits < 99
    assert problem is None or f"warning: {problem}" in words


def test_what_is_asked_ahead_of_the_batches_pays_the_full_price() -> None:
    ahead = replace(CALIBRATION, ahead=10)
    assert ahead.dearest_usd(OPUS, discount=0.5) == pytest.approx(
        CALIBRATION.dearest_usd(OPUS, discount=0.5) * 1010 / 1000
    )
    words = " ".join(printed(estimate(workloads={"a": ahead, "b": ahead})).split())
    assert re.findall(r"at the full price: (\d+) requests", words) == ["20"]
    assert "directly" not in printed(estimate(**FREE, workloads={"a": ahead}))


def test_a_judge_that_costs_nothing_has_no_prices_no_budget_and_no_warnings() -> None:
    free = estimate(**FREE)
    assert "costs nothing" in printed(free)
    assert "$" not in printed(free)
    assert estimate_warnings(free) == []
    assert free.planned_usd == 0.0
    assert estimate_totals(free)["usd_uncached"] == 0.0


def test_a_model_without_a_price_costs_nobody_knows_what() -> None:
    unknown = estimate(**UNKNOWN)
    assert unknown.planned_usd is None
    assert estimate_totals(unknown)["usd_uncached"] is None
    assert estimate_rows(unknown)[0].usd_all_hits is None
    assert "'claude-unheard-of'; the requests" in " ".join(printed(unknown).split())
    assert unknown.budget_problem is None
    assert "no price" in str(estimate(**UNKNOWN, budget=budget()).budget_problem)


def test_where_nothing_is_left_to_ask_no_budget_is_too_small() -> None:
    done = replace(FACTUALITY, answered=1000, message_tokens=0)
    finished = estimate(workloads={"factuality": done}, budget=budget(0.0))
    assert finished.planned_usd == 0.0
    assert finished.budget_problem is None
    assert replace(finished, judge_model="claude-unheard-of", price=None).budget_problem is None


def test_scripts_get_everything_as_json() -> None:
    made = json.loads(json.dumps(estimate_json(estimate(budget=budget(20.0)))))
    assert made["is_within_budget"] is False
    assert made["total"]["to_ask"] == 1900
    assert made["total"]["usd_observed"] is None
    assert made["total"]["usd_budget_left"] == pytest.approx(18.25)
    assert [row["dimension"] for row in made["dimensions"]] == ["factuality", "calibration"]
    assert made["warnings"]


def test_a_budget_that_short_replies_could_hold_is_left_to_the_first_replies_to_decide() -> None:
    works = {"a": replace(FACTUALITY, most_usd=500.0)}
    planned = estimate(workloads=works).planned_usd or 0.0

    def priced(share: float) -> JudgingEstimate:
        limit = budget(1.75 + share * planned)
        return estimate(workloads=works, has_trial=True, budget=limit)

    assert priced(0.8).is_decided_by_trial
    assert "the first replies, asked directly, decide" in " ".join(printed(priced(0.8)).split())
    assert not priced(1.1).is_decided_by_trial
    # Not even the shortest replies would make this enough, and the sum that is named is the plan's.
    problem = priced(0.01).budget_problem or ""
    named = float(problem.split("usd to $")[1].split(",")[0])
    assert 1.75 + planned < named < 1.75 + planned + 2 * 500.0
