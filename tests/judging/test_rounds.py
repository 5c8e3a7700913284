from collections.abc import Sequence

import pytest

from tournament_assets.judging.batch_service import Channel
from tournament_assets.judging.requests.requests import ModelRequest
from tournament_assets.tournament.errors import BudgetError

from .bench import Bench
from .builders import keys_of, requests_for
from .fake_judge import failing


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


def test_as_many_as_may_be_are_asked_one_by_one() -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    assert bench.settle(requests_for(2), max_rounds=1, max_direct=4).direct == 4


def test_prewarming_sends_one_request_first_and_keeps_its_verdict() -> None:
    bench = Bench(durations=[10.0])
    tally = bench.settle(requests_for(3), prewarm_wait_seconds=30.0)
    assert bench.judge.asked == [1, 5]
    assert (tally.batches, tally.submitted, tally.harvested) == (2, 6, 6)
    assert bench.ledger.answered() == set(keys_of(3))
    # The bulk goes out only once the pre-warm batch has ended and is read.
    assert bench.events.index("ledger: harvested") < len(bench.events) / 2
    assert bench.ledger.states == ["harvested", "harvested"]


def test_a_slow_prewarm_batch_does_not_hold_up_the_bulk() -> None:
    bench = Bench(durations=[60.0])
    tally = bench.settle(requests_for(3), prewarm_wait_seconds=30.0)
    assert [(batch.created_at, batch.ends_at) for batch in bench.judge.ours] == [(0, 60), (30, 30)]
    assert bench.judge.asked == [1, 5]
    assert tally.harvested == 6
    assert bench.ledger.states == ["harvested", "harvested"]


def test_a_single_request_is_not_prewarmed() -> None:
    bench = Bench()
    assert bench.settle(requests_for(1)[:1], prewarm_wait_seconds=30.0).batches == 1
    assert not bench.progress.heard("pre-warming")


def test_only_the_first_round_is_prewarmed() -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    bench.settle(requests_for(2), prewarm_wait_seconds=30.0)
    assert bench.judge.asked == [1, 3, 4]


def test_the_bulk_is_approved_once_more_after_prewarming_and_what_was_sent_ahead_is_kept() -> None:
    asked: list[int] = []

    def refuse_the_bulk(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        asked.append(len(requests))
        if len(requests) == 5:
            raise BudgetError("somebody else has spent it")

    bench = Bench(durations=[1000.0])
    with pytest.raises(BudgetError):
        bench.settle(requests_for(3), prewarm_wait_seconds=30.0, approve=refuse_the_bulk)
    assert asked == [6, 5]
    assert bench.judge.asked == [1]
    assert bench.ledger.states == ["created"]
    bench.clock.seconds = 1000.0
    tally = bench.settle(requests_for(3))
    assert (tally.resumed, tally.submitted, tally.answered) == (1, 5, 6)
