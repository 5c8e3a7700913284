"""A judge is tried on a few requests before the others are paid for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.judging.costs.prices import BudgetTerms
from tournament_assets.judging.settlement.records import verdicts_of
from tournament_assets.judging.settlement.trial import FIRST_SLICE, Trial

from .bench import Bench
from .builders import (
    SCOPE,
    SETTINGS,
    START,
    Approving,
    failed_row,
    failures,
    reply_row,
    requests_for,
)
from .fake_judge import FakeJudge
from .prices import PRICES
from .test_direct_requests import WithoutBatches

AHEAD: dict[str, Any] = {"prewarms": True}
SILENT = "Final answer - A\u202e"


def silent_where(is_silent: Callable[[int], bool]) -> Callable[[SubmittedRequest], ReplyRow]:
    """Answer without a verdict where a function of the number of the reply, from 1, says so."""
    numbers = iter(range(1, 10_000))

    def answer(request: SubmittedRequest) -> ReplyRow:
        text = {"text": SILENT} if is_silent(next(numbers)) else {}
        return reply_row(request.custom_id, **text)

    return answer


def services(bench: Bench) -> dict[str, Any]:
    return {"batches": bench.judge, "direct": WithoutBatches(bench.judge)}


@pytest.mark.parametrize("channel", ["batches", "direct", "direct, and warms nothing"])
def test_a_judge_that_never_says_a_verdict_costs_a_dozen_replies_and_the_next_run_nothing(
    channel: str,
) -> None:
    bench = Bench(answer=silent_where(lambda _: True))
    service, _, is_cold = channel.partition(",")
    for _ in range(2):
        with pytest.raises(JudgeError) as caught:
            bench.settle(
                requests_for(120),
                service=services(bench)[service],
                **({} if is_cold else AHEAD),
            )
        told = str(caught.value)
        assert told.count("Final answer - A\\u202e") == 3  # escaped
        assert "tournament rejudge" in told
        assert "factuality (pilot)" in told
    assert bench.judge.asked == []
    # The eleventh shows it; no more than those in flight at that moment are paid besides.
    assert 11 <= bench.judge.paid.total() <= 20
    assert set(bench.judge.paid.values()) == {1}
    with pytest.raises(JudgeError, match="hold no verdict"):
        bench.settle(requests_for(120))


@pytest.mark.parametrize("n_pairs", [18, 30])
@pytest.mark.parametrize("options", [AHEAD, {}], ids=["warmed", "cold"])
def test_a_failed_trial_that_left_few_unasked_is_over_and_the_next_run_finishes(
    n_pairs: int, options: dict[str, Any]
) -> None:
    bench = Bench(answer=silent_where(lambda _: True))
    with pytest.raises(JudgeError, match="hold no verdict"):
        bench.settle(requests_for(n_pairs), **AHEAD)
    n_paid = bench.judge.paid.total()
    tally = bench.settle(requests_for(n_pairs), **options)
    assert (tally.submitted, tally.second_questions) == (2 * n_pairs - n_paid, 0)
    assert bench.progress.heard("would not help")
    assert set(bench.judge.paid.values()) == {1}
    assert bench.settle(requests_for(n_pairs), **options).submitted == 0


def test_what_a_silent_bulk_left_unasked_is_asked_by_the_next_run() -> None:
    silent = silent_where(lambda number: number > 10)
    expires = iter(range(1, 1000))

    def answer(request: SubmittedRequest) -> ReplyRow:
        if 100 < next(expires) <= 180:
            return failed_row(request.custom_id, "expired")
        return silent(request)

    bench = Bench(answer=answer)
    options: dict[str, Any] = {"max_rounds": 1, "direct_fallback": False, **AHEAD}
    assert bench.settle(requests_for(120), **options).answered == 160
    assert bench.settle(requests_for(120), **options).answered == 240


@pytest.mark.parametrize(("one_in", "is_stopped"), [(4, True), (6, False)])
def test_a_judge_may_be_silent_once_in_five_times(*, one_in: int, is_stopped: bool) -> None:
    bench = Bench(answer=silent_where(lambda number: number % one_in == 1))
    if is_stopped:
        with pytest.raises(JudgeError):
            bench.settle(requests_for(120), **AHEAD)
        assert bench.judge.paid.total() <= FIRST_SLICE
    else:
        assert bench.settle(requests_for(120), **AHEAD).answered == 240
        assert len(bench.judge.direct_requests) == FIRST_SLICE


def test_a_judge_that_is_always_readable_is_tried_on_one_request_in_ten_and_ten_at_most() -> None:
    for n_pairs, n_ahead in [(1, 1), (5, 1), (24, 5), (120, 10)]:
        bench = Bench()
        assert bench.settle(requests_for(n_pairs), **AHEAD).answered == 2 * n_pairs
        assert len(bench.judge.direct_requests) == n_ahead
        asked = [each.params["messages"][0]["content"] for each in bench.judge.direct_requests]
        # Spread over the bank: no two of them show one pair.
        shown = {int(text.split("Question ")[1].split("?")[0]) for text in asked}
        assert len(shown) == n_ahead
        assert n_ahead < 5 or max(shown) >= 0.75 * n_pairs
        assert set(bench.judge.paid.values()) == {1}


def test_second_questions_stop_where_the_bulk_is_silent_after_a_good_trial() -> None:
    bench = Bench(answer=silent_where(lambda number: number > 10))
    tally = bench.settle(requests_for(120), **AHEAD)
    assert (tally.submitted, tally.second_questions) == (240, 0)
    assert bench.settle(requests_for(120), **AHEAD).submitted == 0


def test_replies_that_a_lower_cap_cut_off_are_all_asked_for_again() -> None:
    cut: dict[str, Any] = {"text": "", "stop_reason": "max_tokens"}

    def answer(request: SubmittedRequest) -> ReplyRow:
        is_whole = request.params["max_tokens"] >= SETTINGS.max_tokens
        return reply_row(request.custom_id, **({} if is_whole else cut))

    bench = Bench(answer=answer)
    terms = BudgetTerms(PRICES, None, "month", START)
    is_tight = Approving(lambda _requests, _channel: True)
    tally = bench.settle(requests_for(120), budget=terms, approval=is_tight, **AHEAD)
    assert (tally.submitted, tally.second_questions) == (240 + 230, 230)
    assert bench.settle(requests_for(120)).submitted == 0


@pytest.mark.parametrize("channel", ["batches", "direct"])
def test_a_service_that_refuses_the_schema_is_asked_three_times_and_nothing_is_final(
    channel: str, bench: Bench
) -> None:
    bench.judge.direct = [*failures(JudgeFailure.INVALID, 100)]
    options: dict[str, Any] = {"reply_format": "json_schema", **AHEAD}
    with pytest.raises(JudgeError, match=r"refused the first 3.*reply_format: line"):
        bench.settle(requests_for(120), service=services(bench)[channel], **options)
    assert bench.judge.asked == []
    assert len(bench.judge.direct_requests) == 3
    assert not bench.ledger.replies
    bench.judge.direct = []
    verdict = '{"reasoning": "A is truer.", "verdict": "A"}'
    bench.judge.answer = lambda request: reply_row(request.custom_id, text=verdict)
    assert bench.settle(requests_for(120), **options).answered == 240


def test_one_prompt_that_is_refused_stops_nobody() -> None:
    class Narrow(FakeJudge):
        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            if "Question 0?" in request.params["messages"][0]["content"]:
                raise failures(JudgeFailure.INVALID, 1)[0]
            return super().ask_directly(request)

    bench = Bench()
    bench.judge = Narrow(bench.clock)
    assert bench.settle(requests_for(120), **AHEAD).answered == 240


def test_what_is_no_verdict_is_never_tried() -> None:
    trial = Trial(100, None)
    for _ in range(60):
        assert trial.add(reply_row("", text="Anything.")) is None
    assert not trial.is_open
    assert not trial.has_failed


def test_a_server_that_dies_is_named_with_the_judge_of_the_jury_and_the_way_on() -> None:
    bench = Bench()
    scope = replace(SCOPE, purpose=verdicts_of("judge-1"))
    bench.judge.direct = [None, *failures(JudgeFailure.NOT_ACCEPTED, 1000)]
    dead = r"factuality \(pilot\) by judge-1: .* base_url .* run again"
    with pytest.raises(JudgeError, match=dead):
        bench.settle(requests_for(50), service=WithoutBatches(bench.judge), scope=scope)
