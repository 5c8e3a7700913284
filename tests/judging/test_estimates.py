from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tournament_assets.judging.costs.estimates import (
    Workload,
    assume_reply_tokens,
    mean_request_usd,
    measure_workload,
    observe_replies,
)
from tournament_assets.judging.costs.prices import ModelPrice, Spending, load_newest_prices
from tournament_assets.judging.requests.columns import KeyPositions, ModelRequest, count_requests
from tournament_assets.judging.requests.requests import JudgeRequest, JudgeRequests

from .builders import PAIR, RUBRIC, SETTINGS, keys_of, most_each, requests_for
from .prices import OPUS, PRICES, SONNET, spending

rates = st.one_of(st.none(), st.floats(0, 1))


def workload(
    requests: int, *, prefix: int = 2200, message: int = 700, reply: float = 450.0
) -> Workload:
    return Workload(
        presentations=requests,
        identical=0,
        distinct=requests,
        answered=0,
        under_way=0,
        prefix_tokens=prefix,
        message_tokens=requests * message,
        distinct_message_tokens=requests * message,
        tokens_per_reply=reply,
    )


def measure(
    requests: Sequence[ModelRequest],
    *,
    has_reply: NDArray[np.bool_] | None = None,
    under_way: NDArray[np.bool_] | None = None,
    identical: int = 0,
    **terms: Any,
) -> Workload:
    """Measure requests of which some have a reply, beside some presentations that need none."""
    first, counted = KeyPositions(requests).first, count_requests(requests)
    counted = replace(
        counted,
        answered=counted.answered if has_reply is None else has_reply[first],
        presentations=counted.presentations + identical,
        identical=identical,
    )
    if under_way is not None:
        counted = replace(counted, under_way=under_way[first] & ~counted.answered)
    return measure_workload([counted], **terms)


def marked(requests: Sequence[ModelRequest], *keys: str) -> NDArray[np.bool_]:
    """Whether each request has one of some keys."""
    return np.array([each.request_key in keys for each in requests], dtype=bool)


@pytest.mark.parametrize(
    ("price", "requests", "hit_rate", "dollars"),
    [
        (OPUS, 4548, None, 46.84),
        (OPUS, 4548, 1.0, 27.89),
        (OPUS, 4548, 0.7, 39.59),
        (SONNET, 1584, None, 8.16),
        (SONNET, 1584, 1.0, 5.05),
        (SONNET, 1584, 0.7, 7.03),
    ],
)
def test_the_worked_examples_of_a_headline_and_a_pilot_come_out(
    price: ModelPrice, requests: int, hit_rate: float | None, dollars: float
) -> None:
    cost = workload(requests).cost_usd(price, discount=0.5, hit_rate=hit_rate)
    assert cost == pytest.approx(dollars, rel=0.005)


def test_a_cache_that_is_never_hit_costs_more_than_none() -> None:
    # 4,548 requests that write 2,200 tokens at $8 instead of reading them at $4, in a batch.
    headline = workload(4548)
    dearest = headline.cost_usd(OPUS, discount=0.5, hit_rate=0.0)
    assert dearest == pytest.approx(46.8444 + 4548 * 2200 * (8 - 4) * 0.5 / 1e6)
    assert headline.dearest_usd(OPUS, discount=0.5) == dearest


def test_a_cache_that_costs_as_much_as_none_pays_from_the_first_hit() -> None:
    assert replace(OPUS, cache_write_1h=5.0, cache_read=5.0, input=5.0).break_even_hit_rate == 0


def test_at_the_break_even_rate_caching_costs_what_no_caching_costs() -> None:
    assert pytest.approx(0.513, abs=0.001) == OPUS.break_even_hit_rate
    many = workload(1_000_000)
    cached = many.cost_usd(OPUS, discount=0.5, hit_rate=OPUS.break_even_hit_rate)
    assert cached == pytest.approx(many.cost_usd(OPUS, discount=0.5, hit_rate=None))


def test_a_prefix_too_short_to_be_cached_is_paid_in_full_at_any_hit_rate() -> None:
    short = workload(100, prefix=511)
    uncached = short.cost_usd(OPUS, discount=0.5, hit_rate=None)
    assert short.cost_usd(OPUS, discount=0.5, hit_rate=1.0) == uncached
    assert short.dearest_usd(OPUS, discount=0.5) == uncached


@pytest.mark.parametrize(
    ("n_pairs", "n_answered", "ahead"), [(0, 0, 0), (5, 0, 1), (24, 0, 5), (60, 0, 10), (60, 12, 1)]
)
def test_the_most_that_some_may_cost_counts_those_asked_ahead_at_the_full_price(
    n_pairs: int, n_answered: int, ahead: int
) -> None:
    requests = requests_for(n_pairs, settings=replace(SETTINGS, judge_model="opus"))
    answered = marked(requests, *[each.request_key for each in requests[:n_answered]])
    options: dict[str, Any] = {"has_reply": answered, "prices": PRICES, "model": "opus"}
    with_trial = measure(requests, has_trial=True, **options)
    assert with_trial.ahead == ahead
    each = most_each(requests[n_answered:], PRICES)
    dearest = sum(sorted(each)[len(each) - ahead :])
    assert with_trial.most_usd == pytest.approx(sum(each) + dearest)


def test_asking_directly_costs_twice_as_much() -> None:
    batch = workload(100).dearest_usd(OPUS, discount=0.5)
    assert workload(100).dearest_usd(OPUS, discount=1.0) == pytest.approx(2 * batch)


@given(st.integers(0, 5000), st.floats(0, 1), st.floats(0, 1))
def test_more_hits_never_cost_more(requests: int, first: float, second: float) -> None:
    low, high = sorted((first, second))
    work = workload(requests)
    dearer = work.cost_usd(OPUS, discount=0.5, hit_rate=low)
    assert work.cost_usd(OPUS, discount=0.5, hit_rate=high) <= dearer + 1e-9


@given(st.integers(0, 5000), st.integers(1, 500), rates)
def test_more_requests_cost_more(requests: int, more: int, hit_rate: float | None) -> None:
    fewer = workload(requests).cost_usd(OPUS, discount=0.5, hit_rate=hit_rate)
    assert workload(requests + more).cost_usd(OPUS, discount=0.5, hit_rate=hit_rate) > fewer


@given(st.integers(0, 5000), st.integers(0, 3000), rates)
def test_nothing_is_dearer_than_what_a_budget_is_asked_for(
    requests: int, prefix: int, hit_rate: float | None
) -> None:
    work = workload(requests, prefix=prefix)
    assert work.cost_usd(OPUS, discount=0.5, hit_rate=hit_rate) <= (
        work.dearest_usd(OPUS, discount=0.5) + 1e-9
    )


def test_what_the_ledger_holds_and_what_two_pairs_share_is_not_counted_again() -> None:
    twin = replace(PAIR, prompt_id="p0", prompt_text="Question 0?", entrant_a="eve")
    pairs = [
        *(
            replace(PAIR, prompt_id=f"p{number}", prompt_text=f"Question {number}?")
            for number in range(3)
        ),
        twin,
    ]
    requests = JudgeRequests(pairs, RUBRIC, SETTINGS)
    measured = measure(
        requests, has_reply=marked(requests, requests[0].request_key), tokens_per_reply=100
    )
    assert (measured.presentations, measured.distinct, measured.answered) == (8, 6, 1)
    assert measured.to_ask == 5
    assert measured.output_tokens == 500


def test_what_is_under_way_is_not_asked_again_and_counts_once_if_it_came_back() -> None:
    first, second, *_ = keys_of(2)
    requests = requests_for(2)
    measured = measure(
        requests, has_reply=marked(requests, first), under_way=marked(requests, first, second)
    )
    assert (measured.distinct, measured.answered, measured.under_way) == (4, 1, 1)
    assert measured.to_ask == 2


def test_identical_pairs_are_presentations_that_nobody_is_asked_about() -> None:
    measured = measure(requests_for(2), identical=6)
    assert (measured.presentations, measured.identical, measured.distinct) == (10, 6, 4)
    assert measured.to_ask == 4


class Counted(JudgeRequests):
    """Requests that count how often one of them is built."""

    built = 0

    def _build(self, position: int) -> JudgeRequest:
        self.built += 1
        return super()._build(position)


def test_no_request_is_built_to_measure_it() -> None:
    pairs = [replace(PAIR, prompt_id=f"p{number}") for number in range(5)]
    requests = Counted(pairs, RUBRIC, SETTINGS)
    measure(requests)
    assert requests.built == 0


def test_messages_are_measured_in_characters_and_the_prefix_once() -> None:
    requests = requests_for(2)
    lengths = [len(request.params["messages"][0]["content"]) for request in requests]
    measured = measure(requests, has_reply=marked(requests, requests[0].request_key))
    system: Any = requests[0].params["system"]
    assert measured.prefix_tokens == round(len(system[0]["text"]) / 4)
    assert measured.message_tokens == sum(round(length / 4) for length in lengths[1:])
    assert measured.distinct_message_tokens == sum(round(length / 4) for length in lengths)


def test_nothing_to_ask_costs_nothing() -> None:
    measured = measure(requests_for(0))
    assert measured.cost_usd(OPUS, discount=0.5, hit_rate=0.0) == 0.0
    assert mean_request_usd([measured], OPUS, discount=0.5) == 0.0


def test_the_mean_request_is_priced_over_all_dimensions_asked_or_not() -> None:
    done = replace(workload(100), answered=100, message_tokens=0)
    longer = workload(100, message=1700)
    # (2,200 * 8 + 700 * 4 + 450 * 20) * 0.5 / 1e6 dollars each, and $0.002 more for the longer.
    assert mean_request_usd([done, longer], OPUS, discount=0.5) == pytest.approx(0.0147 + 0.001)


def replies(count: int, *, output: int = 300, **changed: Any) -> Spending:
    return spending(n_replies=count, output_tokens=count * output, **changed)


def test_thirty_replies_of_a_model_tell_what_one_takes() -> None:
    assert observe_replies([replies(29), replies(500, model="sonnet")], "opus") is None
    observed = observe_replies([replies(20), replies(10, output=600)], "opus")
    assert observed is not None
    assert observed.n_replies == 30
    assert observed.output_tokens_per_reply == pytest.approx(400.0)
    of_effort = [replies(40), replace(replies(40, output=900), effort="high")]
    for effort, tokens in ((None, 300.0), ("high", 900.0)):
        observed = observe_replies(of_effort, "opus", effort)
        assert observed is not None
        assert observed.output_tokens_per_reply == tokens
    assert observe_replies(of_effort, "opus", "low") is None


@pytest.mark.parametrize(
    ("model", "effort", "tokens"),
    [
        ("claude-opus-4-5", None, 450.0),
        ("claude-opus-4-5", "2048", 450.0 + 2048),
        ("claude-opus-4-6", "adaptive", 1500.0),
        ("claude-opus-5-5", "low adaptive", 1500.0),
        ("claude-sonnet-5-5", "high between_tools", 450.0),
        ("gpt-6.2-sol", None, 1500.0),
        ("gpt-6-sol", "none", 450.0),
        ("my-model", None, 450.0),
    ],
)
def test_the_first_estimate_counts_thoughts_where_a_model_thinks(
    model: str, effort: str | None, tokens: float
) -> None:
    assert assume_reply_tokens(effort, load_newest_prices().models.get(model)) == tokens


def test_the_hit_rate_is_that_of_batches_among_the_requests_that_could_be_cached() -> None:
    observed = observe_replies(
        [
            replies(100, hits=30, writes=10),
            replies(20, hits=0, writes=10),
            replies(50, channel="direct", hits=50),
        ],
        "opus",
    )
    assert observed is not None
    assert observed.cache_hit_rate == pytest.approx(30 / 50)


def test_where_nothing_was_cached_there_is_no_hit_rate() -> None:
    observed = observe_replies([replies(100)], "opus")
    assert observed is not None
    assert observed.cache_hit_rate is None
