"""A service without batches: everything is asked directly, so many at a time."""

import threading
from typing import Any

import pytest

from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.judging.settlement.sessions import JudgingOptions, Tally
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

from .bench import Bench
from .builders import SCOPE, failures, keys_of, patience, reply_row, requests_for
from .fake_judge import FakeJudge


def settle(bench: Bench, n_pairs: int, **options: Any) -> Tally:
    return settle_requests(
        requests_for(n_pairs),
        scope=SCOPE,
        ledger=bench.ledger,
        service=bench.judge,
        progress=bench.progress,
        options=JudgingOptions(patience(bench.clock), has_batches=False, **options),
    )


def test_more_requests_than_leftovers_of_batches_are_asked_without_a_batch() -> None:
    bench = Bench()
    tally = settle(bench, 150)
    assert (tally.batches, tally.direct, tally.answered) == (0, 300, 300)
    assert "judge: create" not in bench.events
    assert bench.ledger.states == ["harvested"]
    assert settle(bench, 150).submitted == 0


def test_an_unreadable_reply_is_asked_for_once_more_directly() -> None:
    bench = Bench(answer=lambda request: reply_row(request.custom_id, text="Well."))
    tally = settle(bench, 1)
    assert (tally.second_questions, tally.direct, tally.batches) == (2, 4, 0)
    assert bench.ledger.answered(attempt=2) == set(keys_of(1))


def test_as_many_are_under_way_as_may_be_and_no_more() -> None:
    class Counting(FakeJudge):
        under_way = most = 0
        gate = threading.Barrier(6, timeout=60)

        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            with self._lock:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
            self.gate.wait()
            with self._lock:
                self.under_way -= 1
            return reply_row(request.custom_id)

    bench = Bench()
    bench.judge = Counting(bench.clock)
    settle(bench, 6, max_in_flight=6)
    assert bench.judge.most == 6


def test_a_server_that_is_gone_stops_the_run_and_keeps_what_it_said() -> None:
    bench = Bench()
    bench.judge.direct = [*[None] * 10, *failures(JudgeFailure.NOT_ACCEPTED, 1000)]
    with pytest.raises(JudgeError, match="the last 8 requests failed one after another"):
        settle(bench, 100)
    assert len(bench.ledger.answered()) == 10
    assert len(bench.ledger.failures) < 20
    bench.judge.direct = []
    assert settle(bench, 100).answered == 200


def test_what_the_budget_has_no_room_for_is_approved_at_the_direct_price() -> None:
    bench = Bench()
    channels: list[str] = []
    settle(bench, 1, approve=lambda _requests, channel: channels.append(channel))
    assert channels == ["direct"]
