import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest

from tournament_assets.judging.batch_service import (
    BatchStatus,
    Channel,
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.judging.requests.requests import ModelRequest
from tournament_assets.tournament.errors import BudgetError, JudgeFailure

from .bench import Bench
from .builders import START, failure, keys_of, reply_row, requests_for
from .fake_judge import FakeJudge, failing


@pytest.mark.parametrize(
    "kind",
    ["errored:overloaded_error", "errored:api_error", "errored", "expired", "canceled", "new"],
)
def test_a_request_that_failed_in_passing_is_asked_again_and_no_other(kind: str) -> None:
    bench = Bench(answer=failing(kind))
    tally = bench.settle(requests_for(2))
    assert bench.judge.asked == [4, 1]
    assert (tally.submitted, tally.harvested, tally.failed, tally.batches) == (5, 4, 1, 2)
    ((failed_key, _),) = bench.ledger.failures
    assert bench.ledger.batches[list(bench.ledger.batches)[1]].keys == [failed_key]
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.progress.heard("asking 1 requests that failed again")


def test_what_failed_in_every_round_is_asked_one_by_one() -> None:
    bench = Bench(answer=failing(*["expired"] * 12))
    tally = bench.settle(requests_for(2), max_rounds=3)
    assert bench.judge.asked == [4, 4, 4]
    assert len(bench.judge.direct_requests) == tally.direct == 4
    assert (tally.batches, tally.failed, tally.answered) == (3, 12, 4)
    assert [batch.intent.channel for batch in bench.ledger.batches.values()] == [
        "batch",
        "batch",
        "batch",
        "direct",
    ]
    assert set(bench.ledger.states) == {"harvested"}


def test_more_than_may_be_asked_one_by_one_stay_without_a_reply() -> None:
    bench = Bench(answer=failing(*["expired"] * 8))
    tally = bench.settle(requests_for(2), max_rounds=2, max_direct=3)
    assert bench.judge.asked == [4, 4]
    assert (tally.direct, tally.answered) == (0, 0)
    assert bench.progress.heard("4 requests failed 2 times; they stay without a reply")
    assert bench.settle(requests_for(2)).answered == 4


def test_what_has_had_its_rounds_in_a_run_is_not_asked_again_in_it() -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    bench.settle(requests_for(1), max_rounds=2, max_direct=0)
    assert bench.judge.asked == [2, 2]
    # Two of the four that are wanted now have failed in this run, and two are new.
    again = bench.settle(requests_for(2), failed_since=START)
    assert bench.judge.asked == [2, 2, 2]
    assert (again.total, again.submitted, again.answered) == (4, 2, 2)
    next_run = START + timedelta(seconds=1)
    assert bench.settle(requests_for(2), failed_since=next_run).answered == 4
    assert bench.judge.asked == [2, 2, 2, 2]


def test_as_many_as_may_be_are_asked_one_by_one() -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    assert bench.settle(requests_for(2), max_rounds=1, max_direct=4).direct == 4


def test_prewarming_asks_one_request_directly_and_keeps_its_verdict() -> None:
    bench = Bench(durations=[60.0])
    tally = bench.settle(requests_for(3), prewarm_wait_seconds=30.0)
    assert bench.judge.asked == [5]
    assert (tally.batches, tally.direct, tally.submitted, tally.harvested) == (1, 1, 6, 6)
    assert bench.ledger.answered() == set(keys_of(3))
    # It is written down before it is asked, and the bulk goes out only once its reply is kept.
    places = [
        bench.events.index(event)
        for event in ("ledger: intent", "judge: ask", "ledger: harvested", "judge: create")
    ]
    assert places == sorted(places)
    assert bench.ledger.states == ["harvested", "harvested"]


def test_a_slow_prewarming_request_does_not_hold_up_the_others_and_is_asked_once() -> None:
    others_are_out = threading.Event()

    class SlowJudge(FakeJudge):
        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            assert others_are_out.wait(30)
            return super().ask_directly(request)

        def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
            status = super().create_batch(requests)
            others_are_out.set()
            return status

    bench = Bench()
    bench.judge = SlowJudge(bench.clock, bench.events)
    tally = bench.settle(requests_for(3), prewarm_wait_seconds=0.02)
    assert bench.judge.asked == [5]
    assert (tally.answered, tally.direct) == (6, 1)
    assert set(bench.judge.paid.values()) == {1}
    assert bench.ledger.states == ["harvested", "harvested"]


@pytest.mark.parametrize("failure_kind", list(JudgeFailure))
def test_judging_goes_on_without_a_warm_cache_where_the_direct_channel_refuses(
    failure_kind: JudgeFailure,
) -> None:
    bench = Bench()
    bench.judge.direct = [failure(failure_kind)]
    tally = bench.settle(requests_for(3), prewarm_wait_seconds=30.0)
    assert bench.judge.asked == [6]
    assert tally.answered == 6
    assert bench.progress.heard("judging goes on without a warm cache")
    # What got lost on its way may have been paid for.
    is_lost = failure_kind is JudgeFailure.AMBIGUOUS
    assert bench.ledger.states == ["harvested" if is_lost else "refused", "harvested"]
    assert [row.result_type for _, row in bench.ledger.failures] == [
        "lost" if is_lost else "errored"
    ]


def test_a_single_request_is_not_prewarmed() -> None:
    bench = Bench()
    assert bench.settle(requests_for(1)[:1], prewarm_wait_seconds=30.0).batches == 1
    assert not bench.progress.heard("pre-warming")


def test_only_the_first_round_is_prewarmed() -> None:
    rows = failing(*["expired"] * 3)

    def answer(request: SubmittedRequest) -> ReplyRow:
        return rows(request) if bench.judge.direct_rows else reply_row(request.custom_id)

    bench = Bench(answer=answer)
    bench.settle(requests_for(2), prewarm_wait_seconds=30.0)
    assert bench.judge.asked == [3, 3]
    assert len(bench.judge.direct_requests) == 1


def test_the_bulk_is_approved_once_more_after_prewarming_and_what_was_sent_ahead_is_kept() -> None:
    asked: list[int] = []

    def refuse_the_bulk(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        asked.append(len(requests))
        if len(requests) == 5:
            raise BudgetError("somebody else has spent it")

    bench = Bench()
    with pytest.raises(BudgetError):
        bench.settle(requests_for(3), prewarm_wait_seconds=30.0, approve=refuse_the_bulk)
    assert asked == [6, 5]
    assert bench.judge.asked == []
    assert bench.ledger.states == ["harvested"]
    tally = bench.settle(requests_for(3))
    assert (tally.submitted, tally.answered) == (5, 6)
