"""A service without batches: everything is asked directly, so many at a time."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeFailure, LedgerError
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.judging.settlement.sessions import Tally
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.judging.settlement.submission import write_intent

from .bench import Bench
from .builders import Approving, failure, failures, keys_of, reply_row, requests_for
from .fake_judge import FakeJudge, failing, key_in
from .fake_ledger import FakeLedger


def test_every_request_is_asked_by_itself_and_its_reply_is_written_down(bench: Bench) -> None:
    session = bench.session()
    ask_directly(session, requests_for(3), attempt=1)
    assert bench.ledger.answered() == set(keys_of(3))
    assert {key_in(request.custom_id) for request in bench.judge.direct_requests} == set(keys_of(3))
    assert (session.tally.direct, session.tally.submitted, session.tally.harvested) == (6, 6, 6)
    assert bench.ledger.states == ["harvested"]


def test_what_is_about_to_be_asked_is_written_down_first(bench: Bench) -> None:
    ask_directly(bench.session(), requests_for(1), attempt=2)
    assert bench.events[0] == "ledger: intent"
    assert bench.events[-1] == "ledger: harvested"
    ((nonce, batch),) = bench.ledger.batches.items()
    assert (batch.intent.channel, batch.intent.attempt, batch.batch_id) == ("direct", 2, None)
    assert batch.keys == keys_of(1)
    assert all(each.custom_id.startswith(nonce) for each in bench.judge.direct_requests)
    assert bench.ledger.answered(attempt=2) == set(keys_of(1))


@pytest.mark.parametrize(
    "kind", [JudgeFailure.NOT_ACCEPTED, JudgeFailure.TRANSIENT, JudgeFailure.AMBIGUOUS]
)
def test_a_request_that_got_no_answer_is_asked_again_a_few_times(kind: JudgeFailure) -> None:
    bench = Bench()
    bench.judge.direct = [*failures(kind, 3)]
    ask_directly(bench.session(), requests_for(1)[:1], attempt=1)
    assert bench.ledger.answered() == {keys_of(1)[0]}
    assert bench.clock.naps == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("kind", [JudgeFailure.INVALID, JudgeFailure.TOO_LARGE])
def test_a_request_that_is_refused_as_it_stands_is_final(kind: JudgeFailure, bench: Bench) -> None:
    bench.judge.direct = [failure(kind)]
    ask_directly(bench.session(), requests_for(1)[:1], attempt=1)
    _, row = bench.ledger.replies[keys_of(1)[0], 1]
    assert (row.result_type, row.error_type) == ("errored", "invalid_request_error")
    assert kind in str(row.error_message)
    assert bench.clock.naps == []


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.UNKNOWN])
def test_a_refusal_that_the_others_share_stops_the_run_and_closes_the_intent(
    kind: JudgeFailure, bench: Bench
) -> None:
    bench.judge.direct = [*failures(kind, 100)]
    with pytest.raises(JudgeError, match=kind):
        ask_directly(bench.session(), requests_for(20), attempt=1)
    assert bench.ledger.states == ["refused"]
    assert len(bench.judge.direct_requests) < 40


def test_replies_that_are_under_way_are_kept_when_another_request_is_refused() -> None:
    refused = threading.Event()

    class Refusing(FakeJudge):
        """Refuses the fourth request and lets three others end only after that."""

        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            number = keys.index(key_in(request.custom_id))
            with self._lock:
                self.direct_requests.append(request)
            if number == 3:
                refused.set()
                raise failure(JudgeFailure.FATAL)
            assert refused.wait(60)
            return reply_row(request.custom_id)

    bench = Bench()
    keys = keys_of(50)
    bench.judge = Refusing(bench.clock)
    with pytest.raises(JudgeError, match="fatal"):
        ask_directly(bench.session(), requests_for(50), attempt=1)
    asked = {key_in(request.custom_id) for request in bench.judge.direct_requests}
    assert bench.ledger.answered() == asked - {keys[3]}
    assert set(keys[:3]) <= asked
    assert len(asked) < 50


def test_a_reply_that_cannot_be_written_down_is_not_followed_by_many_others() -> None:
    class Full(FakeLedger):
        def record_rows(self, nonce: str, final: Sequence[tuple[str, ReplyRow]]) -> int:
            raise LedgerError(f"the disk is full: {nonce}, {len(final)}")

    bench = Bench()
    bench.ledger = Full()
    session = bench.session()
    with pytest.raises(LedgerError, match="full"):
        ask_directly(session, requests_for(50), attempt=1)
    assert len(bench.judge.direct_requests) <= session.terms.max_in_flight
    assert bench.ledger.states == ["intent"]


def test_a_direct_intent_of_a_killed_run_is_closed_and_what_it_lacks_is_asked_again() -> None:
    class Killed(BaseException):
        pass

    def die_at_the_fourth(request: SubmittedRequest) -> ReplyRow:
        if len(bench.judge.direct_requests) < 4:
            return reply_row(request.custom_id)
        deadline = time.monotonic() + 60
        while len(bench.ledger.replies) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        raise Killed

    bench = Bench(answer=die_at_the_fourth)
    session = bench.session()
    with pytest.raises(Killed):
        ask_directly(session, requests_for(8), attempt=1)
    assert bench.ledger.states == ["intent"]
    assert len(bench.ledger.replies) == 3
    bench.ledger.release_lease(session.lease)
    bench.judge.answer = lambda request: reply_row(request.custom_id)
    tally = settle(bench, 8)
    assert bench.clock.naps == []  # there is nothing to look for
    assert bench.ledger.states == ["abandoned", "harvested"]
    assert (tally.submitted, tally.answered, tally.resumed) == (13, 16, 0)


def test_a_direct_reply_without_a_message_of_its_own_failed_in_passing() -> None:
    bench = Bench(answer=failing("expired"))
    session = bench.session()
    ask_directly(session, requests_for(1)[:1], attempt=1)
    assert (session.tally.failed, session.tally.harvested) == (1, 0)
    assert not bench.ledger.replies


@dataclass
class WithoutBatches:
    """The part of a fake judge that is asked directly."""

    judge: FakeJudge

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        return self.judge.ask_directly(request)

    def check_model(self, model: str) -> str | None:
        return self.judge.check_model(model)


def settle(bench: Bench, n_pairs: int, **options: Any) -> Tally:
    return bench.settle(requests_for(n_pairs), service=WithoutBatches(bench.judge), **options)


def test_more_requests_than_leftovers_of_batches_are_asked_without_a_batch(bench: Bench) -> None:
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


def test_as_many_are_under_way_as_may_be_and_the_first_is_alone() -> None:
    class Counting(FakeJudge):
        n_asked = under_way = most = 0
        gate = threading.Barrier(6, timeout=60)

        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            with self._lock:
                self.n_asked += 1
                is_first = self.n_asked == 1
                self.under_way += 1
                self.most = max(self.most, self.under_way)
            if is_first:
                time.sleep(0.05)
                assert self.n_asked == 1
            elif self.n_asked <= 7:
                self.gate.wait()
            with self._lock:
                self.under_way -= 1
            return reply_row(request.custom_id)

    bench = Bench()
    bench.judge = Counting(bench.clock)
    settle(bench, 6, max_in_flight=6)
    assert bench.judge.most == 6


def test_a_key_or_a_model_that_is_refused_costs_one_request(bench: Bench) -> None:
    bench.judge.direct = [*failures(JudgeFailure.UNKNOWN, 100)]
    with pytest.raises(JudgeError, match="unknown"):
        settle(bench, 20, max_in_flight=16)
    assert len(bench.judge.direct_requests) == 1


def test_as_often_as_may_be_a_request_is_asked_again(bench: Bench) -> None:
    bench.judge.direct = [*failures(JudgeFailure.NOT_ACCEPTED, 100)]
    settle(bench, 1, max_in_flight=1, max_tries=2)
    assert len(bench.judge.direct_requests) == 4
    assert bench.clock.naps == [1.0, 1.0]


def test_the_wait_that_a_service_asks_for_counts_up_to_five_minutes(bench: Bench) -> None:
    bench.judge.direct = [failure(JudgeFailure.NOT_ACCEPTED, retry_after=9999.0)]
    settle(bench, 1)
    assert bench.clock.naps == [300.0]


def test_a_refusal_that_is_not_final_is_asked_again_by_the_next_run(bench: Bench) -> None:
    bench.judge.direct = [failure(JudgeFailure.INVALID)]
    settle(bench, 1, max_in_flight=1, refusals_are_final=False)
    assert [(key, row.error_type) for key, row in bench.ledger.failures] == [
        (keys_of(1)[0], "refused")
    ]
    assert settle(bench, 1, refusals_are_final=False).submitted == 1


@pytest.mark.parametrize("has_answered", [False, True])
def test_refusals_end_a_run_only_where_nothing_was_ever_answered(
    bench: Bench, *, has_answered: bool
) -> None:
    bench.judge.direct = [*failures(JudgeFailure.INVALID, 40)]
    # As entrants are asked, whose replies are no verdicts.
    asked: dict[str, Any] = {"refusals_are_final": False, "has_answered": has_answered}
    asked["reply_format"] = None
    if has_answered:
        assert settle(bench, 20, **asked).failed == 40
    else:
        with pytest.raises(JudgeError, match="the last 8 "):
            settle(bench, 20, **asked)
        assert len(bench.judge.direct_requests) < 20


def test_whoever_hears_of_a_row_may_end_the_run_and_what_is_under_way_is_kept() -> None:
    def refuse(_rows: Sequence[tuple[str, ReplyRow]]) -> None:
        raise JudgeError("that is enough")

    bench = Bench()
    with pytest.raises(JudgeError, match="enough"):
        settle(bench, 20, on_rows=refuse)
    assert len(bench.ledger.answered()) == len(bench.judge.direct_requests) == 1
    assert bench.ledger.states == ["refused"]


def test_a_server_that_is_gone_stops_the_run_and_keeps_what_it_said(bench: Bench) -> None:
    bench.judge.direct = [*[None] * 10, *failures(JudgeFailure.NOT_ACCEPTED, 1000)]
    with pytest.raises(JudgeError, match="the last 8 "):
        settle(bench, 100)
    assert len(bench.ledger.answered()) == 10
    assert len(bench.ledger.failures) < 20
    bench.judge.direct = []
    assert settle(bench, 100).answered == 200


def test_what_the_budget_has_no_room_for_is_approved_at_the_direct_price(bench: Bench) -> None:
    channels: list[str] = []
    settle(bench, 1, approval=Approving(lambda _requests, channel: channels.append(channel)))
    assert channels == ["direct"]


def test_batches_that_another_service_was_sent_are_not_given_up_where_there_are_none() -> None:
    bench = Bench()
    session = bench.session()
    intent = write_intent(session, requests_for(1), attempt=1, channel="batch")
    assert intent is not None
    bench.ledger.record_created(intent.nonce, "b1")
    bench.ledger.release_lease(session.lease)
    with pytest.raises(JudgeError, match=r"WithoutBatches.* takes none"):
        settle(bench, 1)
    assert bench.ledger.states == ["created"]
    assert not bench.judge.direct_requests
