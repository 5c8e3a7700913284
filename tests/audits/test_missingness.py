import re
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from tests.reports.builders import audit_row
from tournament_assets.audits.missingness import (
    CHANCE,
    MissingCount,
    PairReading,
    ReplyReading,
    check_missingness,
    copy_sentences,
    find_outages,
    measure_coverage,
    measure_evenness,
    tail_probability,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.tournament.asset_rows import CoverageRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.prompts import GeneratedResponse
from tournament_assets.tournament.verdicts import Outcome, Verdict

from .readings import missing, pair, said


def response(text: str, finish_reason: str = "stop", prompt_id: str = "p1") -> GeneratedResponse:
    return GeneratedResponse(prompt_id, text, finish_reason)


def measure(
    *pairs: PairReading, prompts_unanswered: int = 0, **responses: list[GeneratedResponse]
) -> list[CoverageRow]:
    return measure_coverage(
        "factuality",
        entrants=("cyd", "ada", "bob"),
        prompts_selected=3,
        responses=responses,
        pairs=pairs,
        prompts_unanswered=prompts_unanswered,
    )


def missing_replies(row: CoverageRow) -> tuple[int, int, int, int]:
    refused, unreadable = row.replies_refused, row.replies_unreadable
    return refused, unreadable, row.replies_permanent, row.replies_pending


def test_entrants_keep_the_order_of_the_tables_even_with_nothing_to_count() -> None:
    coverage = measure()
    assert [row.entrant_id for row in coverage] == ["cyd", "ada", "bob"]
    assert (coverage[0].prompts_selected, coverage[0].pairs_planned) == (3, 0)
    assert coverage[0].coverage is None
    assert coverage[0].score_present is coverage[0].score_normalised is None


def test_a_pair_counts_for_both_its_entrants_and_for_nobody_else() -> None:
    cyd, ada, bob = measure(
        pair("ada", "bob", Outcome.A_WINS),
        pair("ada", "cyd", Outcome.TIE),
        pair("ada", "cyd", Outcome.INCONSISTENT),
    )
    assert [row.pairs_planned for row in (ada, bob, cyd)] == [3, 1, 2]
    assert [row.pairs_judged for row in (ada, bob, cyd)] == [3, 1, 2]
    assert [row.pairs_inconsistent for row in (ada, bob, cyd)] == [1, 0, 1]


def test_an_unjudged_pair_stays_planned_and_its_missing_replies_have_reasons() -> None:
    _, ada, bob = measure(
        pair("ada", "bob", replies=(said(Verdict.A), missing(FailureClass.REFUSED))),
        pair("bob", "ada", replies=(missing(None), missing(None))),
        pair("ada", "bob", Outcome.B_WINS),
    )
    for row in (ada, bob):
        assert (row.pairs_planned, row.pairs_judged, row.pairs_inconsistent) == (3, 1, 0)
        assert missing_replies(row) == (1, 0, 0, 2)


@pytest.mark.parametrize("outcome", [Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE])
def test_a_readable_reply_is_not_missing(outcome: Outcome) -> None:
    _, ada, _ = measure(pair("ada", "bob", outcome))
    assert missing_replies(ada) == (0, 0, 0, 0)
    assert ada.infra_remaining == 0


def test_empty_and_truncated_responses_are_answers_that_are_counted() -> None:
    _, ada, bob = measure(
        ada=[response(""), response(" \n"), response("Yes, becau", "length")],
        bob=[response("", "length"), response("No.")],
    )
    assert (ada.responses, ada.empty_responses, ada.truncated_responses) == (3, 2, 1)
    assert (bob.responses, bob.empty_responses, bob.truncated_responses) == (2, 1, 1)
    assert (ada.thoughts_cut, bob.thoughts_cut) == (0, 1)
    assert ada.prompts_selected == bob.prompts_selected == 3


def test_the_three_scores_differ_by_what_they_divide_by() -> None:
    # ada: a win, a tie, an inconsistent pair, one unjudged pair, and a prompt nobody was asked of.
    _, ada, _ = measure(
        pair("ada", "bob", Outcome.A_WINS, "p1"),
        pair("ada", "bob", Outcome.TIE, "p2"),
        pair("ada", "bob", Outcome.INCONSISTENT, "p3"),
        pair("ada", "cyd", prompt_id="p3", replies=(missing(None), said(Verdict.A))),
        prompts_unanswered=1,
    )
    assert (ada.pairs_planned, ada.pairs_unanswered) == (6, 2)
    assert (ada.pairs_judged, ada.pairs_clean) == (3, 2)
    assert ada.score_present == (1 + 0.5 + 0.5) / 3
    assert ada.score_clean == (1 + 0.5) / 2
    assert ada.score_normalised == (1 + 0.5 + 0.5) / 6
    assert ada.coverage == 3 / 6


def test_a_score_counts_a_pair_as_often_as_it_stands_for_others() -> None:
    # Of the rest of a stopped pair a fifth was judged, so that each of these stands for five.
    _, ada, _ = measure(
        pair("ada", "bob", Outcome.A_WINS, "p1"),
        pair("ada", "bob", Outcome.B_WINS, "p2", weight=5.0),
        pair("ada", "cyd", Outcome.INCONSISTENT, "p1", weight=2.0),
        prompts_unanswered=1,
    )
    assert ada.score_present == (1 + 0 + 2 * 0.5) / 8
    assert ada.score_clean == 1 / 6
    assert ada.score_normalised == (1 + 0 + 2 * 0.5) / (8 + 2)
    assert (ada.pairs_judged, ada.pairs_planned) == (3, 5)


def test_a_pair_with_an_empty_or_cut_off_response_is_not_clean() -> None:
    cyd, ada, bob = measure(
        pair("ada", "bob", Outcome.A_WINS, "p1"),
        pair("ada", "cyd", Outcome.A_WINS, "p1"),
        pair("bob", "cyd", Outcome.A_WINS, "p2"),
        bob=[response("", prompt_id="p1"), response("Yes.", prompt_id="p2")],
        cyd=[response("Yes, bec", "length", prompt_id="p2")],
    )
    assert [row.pairs_judged for row in (ada, bob, cyd)] == [2, 2, 2]
    assert [row.pairs_clean for row in (ada, bob, cyd)] == [1, 0, 1]
    assert (ada.score_clean, bob.score_clean, cyd.score_clean) == (1.0, None, 0.0)


def test_failures_of_infrastructure_are_told_from_the_judges_own() -> None:
    own = (FailureClass.REFUSED, FailureClass.UNREADABLE, FailureClass.CUT_OFF)
    _, ada, _ = measure(
        *(pair("ada", "bob", replies=(missing(failure), said(Verdict.A))) for failure in own),
        *(
            pair("ada", "bob", replies=(missing(failure), said(Verdict.A)))
            for failure in FailureClass
            if failure not in own
        ),
        pair("ada", "bob", replies=(ReplyReading(Verdict.A, was_rejudged=True), said(Verdict.B))),
    )
    assert ada.pairs_judged == 1
    assert ada.infra_remaining == len(FailureClass) - 3
    assert ada.infra_rejudged == 1


def of_pairs(missing_pairs: list[tuple[str, str]], *, prompts: int, entrants: str) -> list[float]:
    """Measure tournaments in which everybody meets everybody on every prompt."""
    planned = prompts * (len(entrants) - 1)
    found = measure_evenness(
        [
            MissingCount(name, sum(name in pair for pair in missing_pairs), planned)
            for name in entrants
        ],
        entrants_per_unit=2,
        max_spread=0.02,
    )
    return [found.spread, found.p_value, found.is_even]


@pytest.mark.parametrize("total", [1, 7, 12])
def test_the_tail_is_the_share_of_all_draws_that_reach_it(total: int) -> None:
    for marked in range(total + 1):
        for drawn in range(total + 1):
            draws = [
                sum(unit < marked for unit in draw) for draw in combinations(range(total), drawn)
            ]
            for count in range(-1, total + 2):
                exact = Fraction(sum(held >= count for held in draws), comb(total, drawn))
                found = tail_probability(count, total=total, marked=marked, drawn=drawn)
                assert found == pytest.approx(float(exact), abs=1e-9)


def test_more_than_there_is_cannot_be_marked_or_drawn() -> None:
    with pytest.raises(InputError, match=r"5 marked.* 4"):
        tail_probability(1, total=4, marked=5, drawn=1)


def test_one_missing_of_858_is_even() -> None:
    _, _, is_even = of_pairs([("a", "b")], prompts=143, entrants="abcd")
    assert is_even


def test_one_missing_pair_of_a_tiny_tournament_may_be_chance_however_large_its_share() -> None:
    spread, p_value, is_even = of_pairs([("a", "b")], prompts=4, entrants="abc")
    assert spread == 1 / 8
    assert p_value == 1
    assert is_even


@pytest.mark.parametrize("prompts", [4, 50, 143])
def test_a_judge_that_is_dead_for_one_entrant_is_uneven(prompts: int) -> None:
    dead = [("a", other) for other in "bc" for _ in range(prompts)]
    spread, p_value, is_even = of_pairs(dead, prompts=prompts, entrants="abc")
    assert spread == 1 / 2
    # Of all ways to lose 2/3 of the pairs one takes all of a's; seen from both sides, for three.
    assert p_value == pytest.approx(6 / comb(3 * prompts, prompts))
    assert not is_even


def test_an_entrant_that_alone_is_spared_is_uneven_too() -> None:
    spared = [("b", "c")] * 40
    _, _, is_even = of_pairs(spared, prompts=40, entrants="abc")
    assert not is_even


def test_a_judge_that_is_dead_for_everybody_is_even() -> None:
    everything = [pair for pair in combinations("abc", 2) for _ in range(20)]
    assert of_pairs(everything, prompts=20, entrants="abc") == [0, 1, True]


def test_a_spread_within_bounds_is_even_even_where_chance_does_not_explain_it() -> None:
    counts = [MissingCount("a", 190, 10_000), *(MissingCount(n, 0, 10_000) for n in "bc")]
    found = measure_evenness(counts, entrants_per_unit=1, max_spread=0.02)
    assert found.p_value < 1e-6
    assert found.is_even
    assert not measure_evenness(counts, entrants_per_unit=1, max_spread=0.01).is_even


def test_without_anything_planned_nothing_is_uneven() -> None:
    counts = [MissingCount("a", 0, 0), MissingCount("b", 0, 0)]
    assert measure_evenness(counts, entrants_per_unit=2, max_spread=0).is_even
    assert measure_evenness([], entrants_per_unit=2, max_spread=0).is_even


def test_pairs_lost_at_random_are_called_uneven_at_most_as_often_as_promised() -> None:
    generator = np.random.default_rng(5)
    pairs = [pair for pair in combinations("abcd", 2) for _ in range(30)]
    false_alarms = 0
    for _ in range(400):
        lost = generator.choice(len(pairs), size=25, replace=False)
        _, _, is_even = of_pairs([pairs[i] for i in lost], prompts=30, entrants="abcd")
        false_alarms += not is_even
    # Three standard errors above the promise.
    assert false_alarms / 400 <= CHANCE + 3 * (CHANCE * (1 - CHANCE) / 400) ** 0.5
    assert false_alarms > 0


def test_the_worst_comes_first_and_equals_by_name() -> None:
    counts = [MissingCount("b", 1, 10), MissingCount("a", 1, 10), MissingCount("c", 9, 10)]
    found = measure_evenness(counts, entrants_per_unit=1, max_spread=0.02)
    assert [each.entrant_id for each in found.counts] == ["c", "a", "b"]


COUNTED = r"\w+ \d+ of \d+"


def sentences(rows: list[CoverageRow]) -> list[str]:
    found = find_outages(rows, CheckThresholds())
    return [outage.sentence for outage in found]


def whole(dimension: str = "factuality", pairs: int = 100) -> list[CoverageRow]:
    return [audit_row(name, dimension=dimension, pairs=pairs) for name in ("ada", "bob", "cyd")]


def dead_for_bob(dimension: str = "factuality") -> list[CoverageRow]:
    return [
        audit_row("ada", dimension=dimension, pairs_judged=50, replies_refused=100),
        audit_row("bob", dimension=dimension, pairs_judged=0, replies_refused=200),
        audit_row("cyd", dimension=dimension, pairs_judged=50, replies_refused=100),
    ]


def test_where_nothing_is_missing_nothing_is_said() -> None:
    assert sentences(whole() + whole("calibration")) == []
    assert check_missingness(whole(), max_spread=0.02).passed


def test_a_dead_dimension_is_said_with_its_numbers_and_the_other_is_not() -> None:
    dead = [
        audit_row(
            name,
            dimension="calibration",
            pairs_judged=0,
            replies_unreadable=150,
            replies_pending=50,
            infra_remaining=150,
        )
        for name in ("ada", "bob", "cyd")
    ]
    assert sentences(whole() + dead) == [
        "Judge outage on calibration: 150 of 150 pairs (100.0 %; limit 2.0 %) are unjudged "
        "(replies: 225 unreadable, 75 pending, 225 of them failures of infrastructure); "
        "the ratings on calibration rest on the other 0."
    ]
    assert check_missingness(whole() + dead, max_spread=0.02).passed


def test_a_judge_that_is_dead_for_one_entrant_is_an_outage_and_uneven() -> None:
    outages = find_outages(whole("calibration") + dead_for_bob(), CheckThresholds())
    assert [(each.kind, each.dimension, each.entrants) for each in outages] == [
        ("judge", "factuality", ()),
        ("verdicts", "factuality", ("bob",)),
    ]
    assert re.findall(COUNTED, outages[1].sentence)[:2] == ["bob 100 of 100", "ada 50 of 100"]


def test_unevenness_is_said_even_where_the_dimension_as_a_whole_is_within_bounds() -> None:
    rows = [
        audit_row(name, pairs=1000, pairs_judged=judged)
        for name, judged in (("ada", 970), ("bob", 985), ("cyd", 985))
    ]
    outages = find_outages(rows, CheckThresholds(max_unjudged_rate=0.05, max_missing_spread=0.01))
    assert [(each.kind, each.entrants) for each in outages] == [("verdicts", ("ada",))]


def test_answers_count_once_whatever_the_number_of_dimensions() -> None:
    rows = [
        replace(row, empty_responses=30 if row.entrant_id == "cyd" else 0)
        for row in whole() + whole("calibration")
    ]
    (outage,) = find_outages(rows, CheckThresholds())
    assert (outage.kind, outage.dimension, outage.entrants) == ("answers", None, ("cyd",))
    assert re.findall(COUNTED, outage.sentence)[1:3] == ["cyd 30 of 50", "ada 0 of 50"]


def test_entrants_that_answer_nothing_are_named_first_even_where_all_do() -> None:
    silent = [replace(row, empty_responses=50) for row in whole() + whole("calibration")]
    (outage,) = find_outages(silent, CheckThresholds())
    assert outage.short == "ada, bob and cyd each left 50 of 50 answers empty"
    assert "Unevenly" not in outage.sentence

    half = [
        replace(row, empty_responses=24 if row.entrant_id == "bob" else 0) for row in dead_for_bob()
    ]
    first, *others = find_outages(half, CheckThresholds())
    assert (first.kind, first.entrants) == ("answers", ("bob",))
    assert first.short == "bob left 24 of 50 answers empty"
    assert [each.kind for each in others] == ["judge", "verdicts"]


def test_one_answer_more_or_less_is_no_broken_entrant() -> None:
    rows = [replace(row, empty_responses=int(row.entrant_id == "bob")) for row in whole()]
    assert find_outages(rows, CheckThresholds()) == ()


def test_pairs_that_nobody_was_asked_about_are_no_failure_of_the_judge() -> None:
    rows = [
        audit_row(name, pairs_unanswered=60, pairs_judged=40, responses=responses)
        for name, responses in (("ada", 50), ("bob", 20), ("cyd", 50))
    ]
    outages = find_outages(rows, CheckThresholds())
    assert [(each.kind, each.entrants) for each in outages] == [("answers", ("bob",))]


def test_pairs_that_nobody_was_asked_about_do_not_dilute_what_is_missing() -> None:
    rows = [
        audit_row(name, pairs=1000, pairs_unanswered=900, pairs_judged=judged)
        for name, judged in (("ada", 80), ("bob", 90), ("cyd", 90))
    ]
    check = check_missingness(rows, max_spread=0.02)
    assert not check.passed
    assert check.largest_spread == pytest.approx(0.1)


def test_a_dimension_without_any_pair_to_ask_about_says_why() -> None:
    unanswered = [audit_row(n, pairs_unanswered=100, pairs_judged=0) for n in ("ada", "bob")]
    empty = [audit_row(name, pairs=0) for name in ("ada", "bob")]
    for rows, reason in ((unanswered, "no prompt"), (empty, "no pair")):
        (said,) = sentences(rows)
        assert re.search(rf"on factuality: .*{reason}", said)


def test_the_check_names_everything_that_is_uneven_and_the_bound() -> None:
    check = check_missingness(dead_for_bob(), max_spread=0.02)
    assert not check.passed
    assert check.largest_spread == 0.5
    assert re.search(r"unevenly missing, .*factuality.* 2\.0 %", check.sentence)


def test_the_check_says_that_nothing_is_missing_or_that_it_is_missing_evenly() -> None:
    whole = [audit_row(name) for name in ("ada", "bob")]
    assert check_missingness(whole, max_spread=0.02).sentence == "nothing is missing"
    even = [audit_row(name, pairs_judged=30) for name in ("ada", "bob")]
    assert check_missingness(even, max_spread=0.02).sentence.startswith("missing evenly: ")


def test_copies_in_several_dimensions_are_one_warning() -> None:
    def copied(dimension: str, same_text: int) -> list[CoverageRow]:
        return [
            audit_row(name, dimension=dimension, pairs_same_text=same_text, pairs_judged=30)
            for name in ("ada", "bob")
        ]

    counts = r"factuality|calibration|\d+ of \d+|other \d+"
    assert copy_sentences(whole()) == []
    (one,) = copy_sentences(whole() + copied("calibration", 70))
    assert re.findall(counts, one) == ["calibration", "70 of 100", "other 30"]
    (both,) = copy_sentences(copied("factuality", 70) + copied("calibration", 70))
    of_each = ["factuality", "70 of 100", "calibration", "70 of 100"]
    assert re.findall(counts, both) == [*of_each, "other 60"]
