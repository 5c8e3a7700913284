"""What was sent and is not billed yet."""

from datetime import UTC, datetime, timedelta

from tournament_assets.adapters.ledger import Ledger
from tournament_assets.judging.budgets import UnbilledBatch
from tournament_assets.judging.records import JudgingScope

from .builders import (
    BEGUN_AT,
    acquire,
    begin_batch,
    failure,
    intent,
    numbered_keys,
    success,
)

KEYS = numbered_keys(5)


def test_open_batches_of_every_scope_are_unbilled_in_the_order_they_were_begun(
    ledger: Ledger,
) -> None:
    begin_batch(ledger, "n2", KEYS[:2], begun_at=BEGUN_AT + timedelta(hours=1), channel="direct")
    begin_batch(
        ledger,
        "n1",
        KEYS,
        scope=JudgingScope("other", "headline", "calibration", "retest"),
        judge_model="judge-2",
    )
    ledger.record_created("n1", "batch-1")
    assert ledger.unbilled_batches() == [
        UnbilledBatch("judge-2", "batch", BEGUN_AT, 5),
        UnbilledBatch("judge-1", "direct", BEGUN_AT + timedelta(hours=1), 2),
    ]


def test_what_came_back_from_an_open_batch_is_billed_or_never_will_be(ledger: Ledger) -> None:
    begin_batch(ledger, "first", KEYS[:1])
    ledger.record_rows("first", [(KEYS[0], success("VERDICT: A"))])
    ledger.record_closed("first", state="harvested")
    begin_batch(ledger, "second", KEYS)
    ledger.record_rows("second", [(key, success("VERDICT: B")) for key in KEYS[:2]])
    ledger.record_failures("second", [(KEYS[2], failure("overloaded_error"))])
    ledger.record_failures("second", [(KEYS[2], failure("overloaded_error"))])
    # KEYS[0] was paid twice, KEYS[1] is new, and KEYS[2] was read twice and failed.
    (batch,) = ledger.unbilled_batches()
    assert batch.n_requests == 2


def test_a_lost_batch_stays_unbilled_and_other_closed_ones_do_not(ledger: Ledger) -> None:
    for state in ("harvested", "refused", "abandoned", "lost"):
        begin_batch(ledger, state, KEYS)
        ledger.record_closed(state, state=state)
    (batch,) = ledger.unbilled_batches()
    assert batch == UnbilledBatch("judge-1", "batch", BEGUN_AT, 5, is_lost=True)


def test_replies_without_tokens_are_not_among_those_that_were_billed(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", KEYS)
    ledger.record_rows(
        "n1",
        [(KEYS[0], success("VERDICT: A")), (KEYS[1], failure("invalid_request_error"))],
    )
    (spending,) = ledger.spending_since()
    assert (spending.n_replies, spending.usage.output_tokens) == (1, 40)
    assert ledger.spending_since(datetime.now(UTC) + timedelta(minutes=1)) == []


def test_more_open_batches_than_one_query_can_name_are_counted(ledger: Ledger) -> None:
    lease = acquire(ledger)
    keys = numbered_keys(520)
    assert ledger.unbilled_batches() == []
    for key in keys:
        ledger.record_intent(lease, intent(key[-12:], [key]))
    ledger.record_rows(keys[510][-12:], [(keys[510], success("VERDICT: A"))])
    assert sum(batch.n_requests for batch in ledger.unbilled_batches()) == 519
