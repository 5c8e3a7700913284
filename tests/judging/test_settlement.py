import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tournament_assets.foundation.errors import (
    BudgetError,
    JudgeError,
    JudgeFailure,
    JudgeWaitingError,
)
from tournament_assets.judging.batch_service import Channel, ReplyRow, SubmittedRequest
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.account import Account, RequestState, read_account
from tournament_assets.judging.settlement.sessions import Tally
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.tournament.judges import Waiting

from .bench import Bench
from .builders import (
    SCOPE,
    SETTINGS,
    START,
    Approving,
    failure,
    keys_of,
    patience,
    reply_row,
    requests_for,
)
from .fake_judge import FakeJudge, failing, refused
from .searches import begin


def test_every_request_is_answered_and_counted(bench: Bench) -> None:
    tally = bench.settle(requests_for(3))
    assert tally == Tally(total=6, answered=6, submitted=6, harvested=6, batches=1)
    assert bench.ledger.answered() == set(keys_of(3))
    assert bench.ledger.states == ["harvested"]
    assert bench.judge.checked_models == ["judge-1"]
    assert not bench.ledger.leases


def test_the_ledger_hears_of_a_batch_before_the_judge_and_of_its_end_last(bench: Bench) -> None:
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


def test_what_is_sent_is_what_the_ledger_was_told(bench: Bench) -> None:
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


def test_answered_requests_are_not_asked_again(bench: Bench) -> None:
    bench.settle(requests_for(2))
    tally = bench.settle(requests_for(3))
    assert bench.judge.asked == [4, 2]
    assert (tally.total, tally.answered, tally.submitted) == (6, 6, 2)
    assert bench.progress.steps[-2:] == [(4, 6), (6, 6)]


def test_when_everything_is_answered_the_judge_is_left_alone(bench: Bench) -> None:
    bench.settle(requests_for(2))
    events = list(bench.events)
    assert bench.settle(requests_for(2)) == Tally(total=4, answered=4)
    assert bench.events == events


def test_a_request_that_two_pairs_share_is_sent_once(bench: Bench) -> None:
    requests = list(requests_for(2))
    tally = bench.settle([*requests, *requests])
    assert tally.total == tally.submitted == 4
    assert bench.judge.asked == [4]


def test_nothing_is_asked_for_no_requests(bench: Bench) -> None:
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
        bench.settle(requests_for(1), scope=other)
    assert bench.settle(requests_for(1)).resumed == 0
    assert bench.ledger.states == ["created", "harvested"]


def test_what_has_ended_is_read_although_another_batch_cannot_be_told_yet() -> None:
    bench = Bench(durations=[200.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(2))
    begin(bench).end()
    bench.judge.add_foreign(2, duration=10_000.0)
    bench.clock.seconds = 200.0
    with pytest.raises(JudgeWaitingError, match="not known"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["harvested", "intent"]
    assert bench.ledger.answered() == set(keys_of(2))


def test_a_model_the_service_does_not_know_is_found_before_anything_is_begun() -> None:
    class Choosy(FakeJudge):
        def check_model(self, model: str) -> None:
            raise JudgeError(f"there is no model {model!r}")

    bench = Bench()
    bench.judge = Choosy(bench.clock)
    with pytest.raises(JudgeError, match="model 'judge-1'"):
        bench.settle(requests_for(1))
    assert bench.events == []
    assert not bench.ledger.leases


def test_approval_is_asked_before_anything_is_sent_and_for_exactly_what_is_sent() -> None:
    bench = Bench(answer=failing(*["expired"] * 2))
    bench.settle(requests_for(1), max_rounds=1)
    bench.events.clear()
    approved: list[tuple[list[str], Channel]] = []

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        bench.events.append("approve")
        approved.append(([request.request_key for request in requests], channel))

    bench.judge.answer = failing("expired", "expired")
    bench.settle(requests_for(3), approval=Approving(approve), max_rounds=1)
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
        bench.settle(requests_for(2), approval=Approving(refuse))
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
        bench.settle(requests_for(2), approval=Approving(refuse))
    assert bench.ledger.answered() == set(keys_of(1))


def test_a_lease_that_went_to_somebody_else_stops_the_next_intent_and_nothing_is_sent() -> None:
    bench = Bench()

    def steal(_requests: Sequence[ModelRequest], _channel: Channel) -> None:
        bench.ledger.leases[SCOPE] = "somebody else's"

    with pytest.raises(JudgeError, match="taken over"):
        bench.settle(requests_for(1), approval=Approving(steal))
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
    with pytest.raises(JudgeError, match="fatal"):
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
    assert patience(bench.clock)["waiting"].deadline_seconds == 100.0


def left_on(bench: Bench, n_pairs: int, reply_format: ReplyFormat = "line") -> Account:
    requests = requests_for(n_pairs)
    return read_account(requests, scope=SCOPE, ledger=bench.ledger, reply_format=reply_format)


def saying(*replies: dict[str, Any]) -> Bench:
    """Settle two requests whose first questions are answered in some ways, asking none twice."""
    waiting = list(replies)

    def answer(request: SubmittedRequest) -> ReplyRow:
        return reply_row(request.custom_id, **(waiting.pop(0) if waiting else {}))

    bench = Bench(answer=answer)
    session = bench.session()
    ask_directly(session, requests_for(1)[:1], attempt=1)
    ask_directly(session, requests_for(1)[1:], attempt=1)
    bench.ledger.release_lease(session.lease)
    return bench


def test_of_nothing_nothing_is_left() -> None:
    account = left_on(Bench(), 0)
    assert (account.total, account.answered) == (0, 0)
    assert account.is_done


def test_what_was_never_asked_is_left_in_its_order() -> None:
    account = left_on(Bench(), 2)
    assert list(account.first) == list(requests_for(2))
    assert (account.total, len(account.second), account.open_batches) == (4, 0, ())
    assert not account.is_done


def test_a_request_that_comes_twice_counts_once() -> None:
    requests = list(requests_for(1))
    account = read_account(
        [*requests, *requests], scope=SCOPE, ledger=Bench().ledger, reply_format="line"
    )
    assert (account.total, list(account.first)) == (2, requests)


def test_when_everything_has_a_verdict_nothing_is_left(bench: Bench) -> None:
    bench.settle(requests_for(2))
    assert left_on(bench, 2).is_done


@pytest.mark.parametrize(
    "reply",
    [
        {"text": "VERDICT: ABSTAIN"},
        {"text": ""},
        {"text": None},
        {"stop_reason": "max_tokens"},
        {"stop_reason": "pause_turn"},
    ],
)
def test_an_unreadable_reply_leaves_a_second_question(reply: dict[str, Any]) -> None:
    account = left_on(saying(reply), 1)
    assert not account.first
    (request,) = account.second
    assert request.request_key == keys_of(1)[0]
    was_cut_off = reply.get("stop_reason") == "max_tokens"
    assert request.params["max_tokens"] == (1 + was_cut_off) * SETTINGS.max_tokens
    assert not account.is_done


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"stop_reason": "refusal"},
        {"stop_reason": "model_context_window_exceeded"},
        {"result_type": "errored", "error_type": "invalid_request_error"},
    ],
)
def test_what_asking_again_cannot_mend_leaves_nothing(reply: dict[str, Any]) -> None:
    assert left_on(saying(reply), 1).is_done


@pytest.mark.parametrize("second", ["VERDICT: A", "nothing of use"])
def test_after_the_second_question_nothing_is_left_whatever_it_brought(second: str) -> None:
    bench = saying({"text": "Hm."})
    bench.judge.answer = lambda request: reply_row(request.custom_id, text=second)
    bench.settle(requests_for(1))
    assert left_on(bench, 1).is_done
    assert len(bench.judge.ours) == 1


def test_a_reply_is_read_in_the_format_that_was_asked_for() -> None:
    bench = saying({"text": '{"reasoning": "", "verdict": "A"}'}, {"text": "VERDICT: A"})
    assert len(left_on(bench, 1, "line").second) == 1
    assert left_on(bench, 1, "json_schema").is_done


def test_a_batch_that_was_not_closed_is_left() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    account = left_on(bench, 1)
    assert [batch.batch_id for batch in account.open_batches] == ["batch-0"]
    # What is under way is not to be asked: one state for each request.
    assert not account.asks
    assert account.count(RequestState.UNDER_WAY) == account.total == 2
    assert not account.is_done


def test_looking_writes_nothing_and_asks_nobody() -> None:
    bench = saying({"text": "Hm."})
    bench.events.clear()
    left_on(bench, 3)
    assert bench.events == []


def test_what_has_had_its_rounds_in_a_run_is_not_asked_again_in_it() -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    bench.settle(requests_for(1), max_rounds=2, direct_fallback=False)
    assert bench.judge.asked == [2, 2]
    # Two of the four that are wanted now have failed in this run, and two are new.
    again = bench.settle(requests_for(2), failed_since=START)
    assert bench.judge.asked == [2, 2, 2]
    assert (again.total, again.submitted, again.answered) == (4, 2, 2)
    next_run = START + timedelta(seconds=1)
    assert bench.settle(requests_for(2), failed_since=next_run).answered == 4
    assert bench.judge.asked == [2, 2, 2, 2]


@pytest.mark.parametrize(("may", "n_direct"), [(True, 4), (False, 0)])
def test_what_failed_in_every_batch_is_asked_one_by_one_only_where_it_may_be(
    may: bool, n_direct: int
) -> None:
    bench = Bench(answer=failing(*["expired"] * 4))
    tally = bench.settle(requests_for(2), max_rounds=1, direct_fallback=may)
    assert (tally.direct, tally.answered) == (n_direct, n_direct)
    assert not Waiting().direct_fallback


def test_prewarming_asks_one_request_directly_and_keeps_its_verdict() -> None:
    bench = Bench(durations=[60.0])
    tally = bench.settle(requests_for(3), prewarms=True)
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


@pytest.mark.parametrize("failure_kind", list(JudgeFailure))
def test_judging_goes_on_without_a_warm_cache_where_the_direct_channel_refuses(
    failure_kind: JudgeFailure, bench: Bench
) -> None:
    bench.judge.direct = [failure(failure_kind)]
    tally = bench.settle(requests_for(3), prewarms=True)
    # A refusal that others may share is looked into: two others are asked before the bulk.
    is_refused = failure_kind in (JudgeFailure.INVALID, JudgeFailure.TOO_LARGE)
    assert bench.judge.asked == [4 if is_refused else 6]
    assert tally.answered == 6
    assert bench.progress.heard("without a warm cache") is not is_refused
    # What got lost on its way may have been paid for; nobody pays for what was refused.
    is_lost = failure_kind in (JudgeFailure.AMBIGUOUS, JudgeFailure.OVERLOADED)
    kinds = [row.result_type for _, row in bench.ledger.failures]
    assert kinds == (["lost"] if is_lost else kinds)
    assert "lost" not in kinds or is_lost
    assert bench.ledger.states[0] in ("harvested", "refused")
    assert set(bench.ledger.states[1:]) == {"harvested"}


def test_a_single_request_is_not_prewarmed(bench: Bench) -> None:
    assert bench.settle(requests_for(1)[:1], prewarms=True).batches == 1
    assert not bench.progress.heard("warm the cache")


def test_only_the_first_round_is_prewarmed() -> None:
    rows = failing(*["expired"] * 3)

    def answer(request: SubmittedRequest) -> ReplyRow:
        return rows(request) if bench.judge.direct_rows else reply_row(request.custom_id)

    bench = Bench(answer=answer)
    bench.settle(requests_for(2), prewarms=True)
    assert bench.judge.asked == [3, 3]
    assert len(bench.judge.direct_requests) == 1


def test_the_bulk_is_approved_after_prewarming_and_what_was_sent_ahead_is_kept() -> None:
    asked: list[int] = []

    def refuse_the_bulk(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        asked.append(len(requests))
        raise BudgetError("somebody else has spent it")

    bench = Bench()
    with pytest.raises(BudgetError):
        bench.settle(requests_for(3), prewarms=True, approval=Approving(refuse_the_bulk))
    assert asked == [5]
    assert bench.judge.asked == []
    assert bench.ledger.states == ["harvested"]
    tally = bench.settle(requests_for(3))
    assert (tally.submitted, tally.answered) == (5, 6)
