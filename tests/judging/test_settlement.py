import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tournament_assets.judging.batch_service import Channel, SubmittedRequest
from tournament_assets.judging.requests.requests import ModelRequest, custom_id
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.sessions import Tally
from tournament_assets.tournament.errors import (
    BudgetError,
    JudgeError,
    JudgeFailure,
    JudgeWaitingError,
)

from .bench import Bench
from .builders import SCOPE, keys_of, patience, reply_row, requests_for
from .fake_judge import FakeJudge, failing, refused
from .searches import begin


def test_every_request_is_answered_and_counted() -> None:
    bench = Bench()
    tally = bench.settle(requests_for(3))
    assert tally == Tally(total=6, answered=6, submitted=6, harvested=6, batches=1)
    assert bench.ledger.answered() == set(keys_of(3))
    assert bench.ledger.states == ["harvested"]
    assert bench.judge.checked_models == ["judge-1"]
    assert not bench.ledger.leases


def test_the_ledger_hears_of_a_batch_before_the_judge_and_of_its_end_last() -> None:
    bench = Bench()
    bench.settle(requests_for(1))
    assert bench.events == [
        "judge: check",
        "ledger: intent",
        "judge: create",
        "ledger: created",
        "judge: results",
        "ledger: rows",
        "ledger: harvested",
    ]


def test_what_is_sent_is_what_the_ledger_was_told() -> None:
    bench = Bench()
    requests = requests_for(2)
    bench.settle(requests)
    ((nonce, batch),) = bench.ledger.batches.items()
    assert re.fullmatch("[0-9a-f]{12}", nonce)
    assert batch.scope == SCOPE
    assert (batch.intent.judge_model, batch.intent.attempt) == ("judge-1", 1)
    assert (batch.intent.channel, batch.batch_id) == ("batch", "batch-0")
    assert batch.keys == keys_of(2)
    assert bench.judge.ours[0].requests == [
        SubmittedRequest(custom_id(nonce, request.request_key), request.params)
        for request in requests
    ]


def test_answered_requests_are_not_asked_again() -> None:
    bench = Bench()
    bench.settle(requests_for(2))
    tally = bench.settle(requests_for(3))
    assert bench.judge.asked == [4, 2]
    assert (tally.total, tally.answered, tally.submitted) == (6, 6, 2)
    assert bench.progress.steps[-2:] == [(4, 6), (6, 6)]


def test_when_everything_is_answered_the_judge_is_left_alone() -> None:
    bench = Bench()
    bench.settle(requests_for(2))
    events = list(bench.events)
    assert bench.settle(requests_for(2)) == Tally(total=4, answered=4)
    assert bench.events == events


def test_a_request_that_two_pairs_share_is_sent_once() -> None:
    bench = Bench()
    requests = list(requests_for(2))
    tally = bench.settle([*requests, *requests])
    assert tally.total == tally.submitted == 4
    assert bench.judge.asked == [4]


def test_nothing_is_asked_for_no_requests() -> None:
    bench = Bench()
    assert bench.settle([]) == Tally()
    assert bench.events == []


def test_an_open_batch_is_taken_up_and_nothing_new_is_submitted() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(2))
    bench.clock.seconds = 1000.0
    tally = bench.settle(requests_for(2))
    assert tally == Tally(total=4, answered=4, harvested=4, resumed=1)
    assert bench.judge.asked == [4]
    assert bench.ledger.states == ["harvested"]
    assert bench.judge.checked_models == ["judge-1"]


def test_what_an_open_batch_does_not_hold_is_asked_besides() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(2))
    bench.clock.seconds = 1000.0
    tally = bench.settle(requests_for(3))
    assert bench.judge.asked == [4, 2]
    assert (tally.harvested, tally.submitted, tally.resumed) == (6, 2, 1)


@pytest.mark.parametrize(
    "other",
    [
        replace(SCOPE, dimension="calibration"),
        replace(SCOPE, mode="headline"),
        replace(SCOPE, tournament_id="large"),
        replace(SCOPE, purpose="retest"),
    ],
)
def test_a_batch_of_another_scope_is_left_alone(other: object) -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1), scope=other)  # type: ignore[arg-type]
    assert bench.settle(requests_for(1)).resumed == 0
    assert bench.ledger.states == ["created", "harvested"]


def test_what_has_ended_is_read_although_another_batch_cannot_be_told_yet() -> None:
    bench = Bench(durations=[200.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(2))
    begin(bench).end()
    bench.judge.add_foreign(2, duration=10_000.0)
    bench.clock.seconds = 200.0
    with pytest.raises(JudgeWaitingError, match="it is not known yet"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["harvested", "intent"]
    assert bench.ledger.answered() == set(keys_of(2))


def test_a_model_the_service_does_not_know_is_found_before_anything_is_begun() -> None:
    class Choosy(FakeJudge):
        def check_model(self, model: str) -> None:
            raise JudgeError(f"there is no model {model!r}")

    bench = Bench()
    bench.judge = Choosy(bench.clock)
    with pytest.raises(JudgeError, match="no model 'judge-1'"):
        bench.settle(requests_for(1))
    assert bench.events == []
    assert not bench.ledger.leases


@pytest.mark.parametrize("error", ["invalid_request_error", "request_too_large"])
def test_a_request_that_can_never_succeed_is_final(error: str) -> None:
    bench = Bench(answer=failing(f"errored:{error}"))
    tally = bench.settle(requests_for(2))
    assert (tally.harvested, tally.failed, tally.answered) == (4, 0, 4)
    assert bench.settle(requests_for(2)).submitted == 0


def test_a_refusal_is_paid_for_and_therefore_final() -> None:
    bench = Bench(
        answer=lambda request: reply_row(request.custom_id, stop_reason="refusal", text="No.")
    )
    bench.settle(requests_for(1))
    assert bench.settle(requests_for(1)).submitted == 0
    assert bench.judge.asked == [2]


def test_approval_is_asked_before_anything_is_sent_and_for_exactly_what_is_sent() -> None:
    bench = Bench(answer=failing(*["expired"] * 2))
    bench.settle(requests_for(1), max_rounds=1)
    bench.events.clear()
    approved: list[tuple[list[str], Channel]] = []

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        bench.events.append("approve")
        approved.append(([request.request_key for request in requests], channel))

    bench.judge.answer = failing("expired", "expired")
    bench.settle(requests_for(3), approve=approve, max_rounds=1)
    (first, _), (second, _) = approved
    assert approved == [(keys_of(3)[2:], "batch"), (keys_of(3)[2:4], "direct")]
    assert bench.ledger.batches[list(bench.ledger.batches)[-2]].keys == first
    assert bench.ledger.batches[list(bench.ledger.batches)[-1]].keys == second
    assert bench.events[:3] == ["approve", "judge: check", "ledger: intent"]


def test_a_plan_that_costs_too_much_sends_nothing_and_leaves_no_intent() -> None:
    def refuse(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        raise BudgetError(f"{len(requests)} requests cost too much")

    bench = Bench()
    with pytest.raises(BudgetError, match="4 requests"):
        bench.settle(requests_for(2), approve=refuse)
    assert bench.events == []
    assert not bench.ledger.batches
    assert not bench.ledger.leases


def test_what_is_paid_already_is_read_although_no_more_may_be_spent() -> None:
    def refuse(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        raise BudgetError(f"{len(requests)} requests cost too much")

    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    bench.clock.seconds = 1000.0
    with pytest.raises(BudgetError, match="2 requests"):
        bench.settle(requests_for(2), approve=refuse)
    assert bench.ledger.answered() == set(keys_of(1))


def test_a_lease_that_went_to_somebody_else_stops_the_next_intent_and_nothing_is_sent() -> None:
    bench = Bench()

    def steal(_requests: Sequence[ModelRequest], _channel: Channel) -> None:
        bench.ledger.leases[SCOPE] = "somebody else's"

    with pytest.raises(JudgeError, match="was taken over"):
        bench.settle(requests_for(1), approve=steal)
    assert bench.events == ["judge: check"]
    assert bench.ledger.leases == {SCOPE: "somebody else's"}


def test_all_batches_of_a_large_run_are_submitted_before_any_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 4)
    bench = Bench(durations=[10.0, 10.0, 10.0])
    tally = bench.settle(requests_for(5))
    assert {batch.ends_at for batch in bench.judge.ours} == {10.0}
    assert (tally.batches, tally.harvested) == (3, 10)


def test_a_batch_that_was_accepted_is_read_by_the_next_run_when_a_later_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 2)
    bench = Bench()
    bench.judge.creations = [replace(refused(JudgeFailure.FATAL), error=None, is_accepted=True)]
    bench.judge.creations.append(refused(JudgeFailure.FATAL))
    with pytest.raises(JudgeError, match="failed as fatal"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["created", "refused"]
    tally = bench.settle(requests_for(2))
    assert (tally.resumed, tally.submitted, tally.answered) == (1, 2, 4)
    assert set(bench.judge.paid.values()) == {1}


def test_the_policy_of_a_run_is_the_one_of_its_options() -> None:
    bench = Bench(durations=[float("inf")])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1), deadline_seconds=12.0)
    assert bench.clock.seconds == 12.0
    assert patience(bench.clock).deadline_seconds == 100.0
