from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tournament_assets.foundation.errors import JudgeError, LedgerError
from tournament_assets.judging.batch_service import Channel
from tournament_assets.judging.settlement.records import JudgingScope, OpenBatch
from tournament_assets.ledger import Ledger

from .builders import (
    BEGUN_AT,
    OTHER_SCOPES,
    SCOPE,
    acquire,
    begin_batch,
    change,
    intent,
    select,
    success,
)


def nonces(batches: list[OpenBatch]) -> list[str]:
    return [batch.nonce for batch in batches]


def test_a_batch_is_open_from_its_intent_to_its_close(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1", "k2"])
    begun = OpenBatch("n1", None, 2, BEGUN_AT, "batch", "judge-1")
    assert ledger.open_batches(SCOPE) == [begun]
    ledger.record_created("n1", "batch-1")
    assert ledger.open_batches(SCOPE) == [replace(begun, batch_id="batch-1")]
    ledger.record_closed("n1", state="harvested")
    assert ledger.open_batches(SCOPE) == []


@pytest.mark.parametrize("state", ["harvested", "refused", "abandoned", "lost"])
@pytest.mark.parametrize("is_created", [False, True])
def test_a_batch_that_nothing_more_will_come_of_is_closed(
    ledger: Ledger, ledger_url: str, state: str, is_created: bool
) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    if is_created:
        ledger.record_created("n1", "batch-1")
    before = datetime.now(UTC)
    ledger.record_closed("n1", state=state)
    assert nonces(ledger.open_batches(SCOPE)) == ["n2"]
    rows = select(ledger_url, "SELECT nonce, state, closed_at FROM judge_batches ORDER BY nonce")
    ((name, kept_state, closed_at), other) = rows
    assert (name, kept_state) == ("n1", state)
    assert before <= datetime.fromisoformat(closed_at) <= datetime.now(UTC)
    assert other == ("n2", "intent", None)


@pytest.mark.parametrize("other", OTHER_SCOPES)
def test_open_batches_are_those_of_the_scope(ledger: Ledger, other: JudgingScope) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2", scope=other)
    ledger.record_created("n2", "batch-2")
    assert nonces(ledger.open_batches(SCOPE)) == ["n1"]
    assert nonces(ledger.open_batches(other)) == ["n2"]


def test_a_scope_is_for_verdicts_unless_it_says_otherwise(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", scope=JudgingScope("tiny", "pilot", "factuality"))
    verdicts = JudgingScope("tiny", "pilot", "factuality", "verdicts")
    assert nonces(ledger.open_batches(verdicts)) == ["n1"]


def test_the_open_batches_of_a_tournament_are_told_by_scope(ledger: Ledger) -> None:
    begin_batch(ledger, "n2", begun_at=BEGUN_AT + timedelta(seconds=1))
    begin_batch(ledger, "n1")
    for number, scope in enumerate(OTHER_SCOPES, start=3):
        begin_batch(ledger, f"n{number}", scope=scope)
    ledger.record_closed("n5", state="harvested")
    assert {scope: nonces(batches) for scope, batches in ledger.open_scopes("tiny").items()} == {
        SCOPE: ["n1", "n2"],
        OTHER_SCOPES[1]: ["n4"],
        OTHER_SCOPES[3]: ["n6"],
    }
    assert ledger.open_scopes("nobody's") == {}


def test_open_batches_come_in_the_order_in_which_they_were_begun(ledger: Ledger) -> None:
    times = {
        "a": BEGUN_AT + timedelta(seconds=2),
        "b": BEGUN_AT + timedelta(microseconds=1),
        "d": BEGUN_AT,
        "c": BEGUN_AT,
        # As an aware time may be given: one o'clock here is noon there.
        "e": BEGUN_AT.astimezone(timezone(timedelta(hours=1))) + timedelta(seconds=1),
    }
    for nonce, begun_at in times.items():
        begin_batch(ledger, nonce, begun_at=begun_at)
    batches = ledger.open_batches(SCOPE)
    assert nonces(batches) == ["c", "d", "b", "e", "a"]
    assert {batch.nonce: batch.begun_at for batch in batches} == times


@pytest.mark.parametrize("channel", ["batch", "direct"])
def test_a_batch_keeps_how_and_what_was_asked(
    ledger: Ledger, ledger_url: str, channel: Channel
) -> None:
    begin_batch(ledger, "n1", channel=channel, attempt=2, judge_model="judge-2")
    assert ledger.open_batches(SCOPE) == [
        OpenBatch("n1", None, 1, BEGUN_AT, channel, "judge-2"),
    ]
    rows = select(ledger_url, "SELECT attempt, purpose FROM judge_batches")
    assert rows == [(2, "verdicts")]


def test_what_a_batch_was_to_hold_is_written_down_with_its_intent(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1", "k2"])
    begin_batch(ledger, "n2", ["k2", "k3"])
    assert ledger.batch_keys("n1") == {"k1", "k2"}
    assert ledger.batch_keys("n2") == {"k2", "k3"}
    assert ledger.batch_keys("n3") == set()


def test_a_provider_s_name_is_known_once_it_is_written_down(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    ledger.record_created("n1", "batch-1")
    names = {f"batch-{number}" for number in range(1200)}
    assert ledger.known_batch_ids(names) == {"batch-1"}
    ledger.record_closed("n1", state="harvested")
    assert ledger.known_batch_ids(names) == {"batch-1"}
    assert ledger.known_batch_ids(set()) == set()


def test_one_name_for_two_batches_contradicts_the_ledger(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1"])
    lease = acquire(ledger)
    with pytest.raises(LedgerError, match=r"(?i)unique constraint"):
        ledger.record_intent(lease, intent("n1", ["k2"]))
    assert nonces(ledger.open_batches(SCOPE)) == ["n1"]
    assert ledger.batch_keys("n1") == {"k1"}


def test_an_intent_that_fails_leaves_nothing_of_itself(ledger: Ledger) -> None:
    lease = acquire(ledger)
    with pytest.raises(LedgerError):
        ledger.record_intent(lease, intent("n1", ["k1", "k1"]))
    assert ledger.open_batches(SCOPE) == []
    assert ledger.batch_keys("n1") == set()
    ledger.record_intent(lease, intent("n1", ["k1"]))
    assert nonces(ledger.open_batches(SCOPE)) == ["n1"]


def test_no_intent_is_written_under_a_lease_that_went_to_somebody_else(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    lost = acquire(ledger)
    change(ledger_url, "UPDATE judge_leases SET expires_at = '2026-01-01T00:00:00.000000+00:00'")
    taken = acquire(other_ledger)
    with pytest.raises(JudgeError, match="taken over"):
        ledger.record_intent(lost, intent("n1"))
    assert ledger.open_batches(SCOPE) == []
    assert ledger.batch_keys("n1") == set()
    other_ledger.record_intent(taken, intent("n1"))
    assert nonces(ledger.open_batches(SCOPE)) == ["n1"]


def test_no_intent_is_written_under_a_lease_that_was_given_back(ledger: Ledger) -> None:
    lease = acquire(ledger)
    ledger.release_lease(lease)
    with pytest.raises(JudgeError, match="taken over"):
        ledger.record_intent(lease, intent("n1"))
    assert ledger.open_batches(SCOPE) == []


def test_no_intent_is_written_under_the_lease_of_another_scope(ledger: Ledger) -> None:
    lease = acquire(ledger)
    with pytest.raises(JudgeError, match="taken over"):
        ledger.record_intent(replace(lease, scope=OTHER_SCOPES[3]), intent("n1"))
    assert ledger.open_batches(OTHER_SCOPES[3]) == []


def test_what_a_dimension_was_asked_for_is_told_in_the_order_it_was_first_begun(
    ledger: Ledger,
) -> None:
    late = replace(SCOPE, purpose="drift a")
    early = replace(SCOPE, purpose="drift b")
    begin_batch(ledger, "n1", scope=late, begun_at=BEGUN_AT + timedelta(seconds=1))
    begin_batch(ledger, "n2", scope=early)
    begin_batch(ledger, "n3", scope=early, begun_at=BEGUN_AT + timedelta(seconds=2))
    ledger.record_closed("n2", state="harvested")
    for number, scope in enumerate(OTHER_SCOPES[:3], start=4):
        begin_batch(ledger, f"n{number}", scope=replace(scope, purpose="drift c"))
    found = ledger.purposes_begun(SCOPE.tournament_id, SCOPE.mode, SCOPE.dimension)
    assert found == ["drift b", "drift a"]


def test_a_model_was_asked_once_a_batch_was_begun_or_replies_came_from_elsewhere(
    ledger: Ledger,
) -> None:
    assert not ledger.has_asked("judge-1")
    begin_batch(ledger, "n1", ["k1"])
    assert ledger.has_asked("judge-1")
    assert not ledger.has_asked("judge-2")
    ledger.record_rows("n1", [("k1", success("VERDICT: A"))])
    ledger.record_closed("n1", state="harvested")
    assert ledger.has_asked("judge-1")
    assert not ledger.has_asked("judge-2")
    (reply,) = ledger.iterate_replies(["k1"])
    assert ledger.import_replies([replace(reply, request_key="k2")]) == 1
    assert ledger.has_asked("judge-2")
