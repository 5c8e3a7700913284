from datetime import UTC, datetime, timedelta

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import Spending
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.ledger import Ledger

from .builders import (
    begin_batch,
    billed,
    change,
    failure,
    stored,
)


def test_nothing_was_spent_on_a_new_ledger(ledger: Ledger) -> None:
    assert ledger.spending_since() == []


def test_what_was_billed_is_added_up_by_model_and_channel(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", judge_model="judge-2")
    begin_batch(ledger, "n2", judge_model="judge-1")
    begin_batch(ledger, "n3", judge_model="judge-1", channel="direct")
    begin_batch(ledger, "n4", judge_model="judge-1", attempt=2)
    ledger.record_rows("n1", [("k1", billed(1000, 200, 0, 0))])
    ledger.record_rows("n2", [("k2", billed(1, 20, 300, 0)), ("k3", billed(2, 30, 0, 400))])
    ledger.record_rows("n3", [("k4", billed(5, 6, 7, 8))])
    ledger.record_rows("n4", [("k2", billed(4, 50, 0, 600)), ("k5", failure("bad"))])
    assert ledger.spending_since() == [
        Spending("judge-1", "batch", 3, 2, 1, TokenUsage(7, 100, 300, 1000), is_waste=False),
        Spending("judge-1", "direct", 1, 1, 1, TokenUsage(5, 6, 7, 8), is_waste=False),
        Spending("judge-2", "batch", 1, 0, 0, TokenUsage(1000, 200, 0, 0), is_waste=False),
    ]


def test_what_was_paid_for_twice_is_told_apart(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4))])
    for _ in range(2):
        ledger.record_rows("n2", [("k1", billed(10, 20, 0, 40)), ("k2", billed(5, 6, 7, 8))])
    assert ledger.spending_since() == [
        Spending("judge-1", "batch", 2, 2, 2, TokenUsage(6, 8, 10, 12), is_waste=False),
        Spending("judge-1", "batch", 1, 1, 0, TokenUsage(10, 20, 0, 40), is_waste=True),
    ]


def test_what_was_billed_before_a_moment_does_not_count(ledger: Ledger, ledger_url: str) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    ledger.record_rows("n1", [("k1", billed(1, 0, 0, 0)), ("k2", billed(10, 0, 0, 0))])
    ledger.record_rows("n2", [("k1", billed(100, 0, 0, 0)), ("k2", billed(1000, 0, 0, 0))])
    moment = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    change(
        ledger_url,
        "UPDATE judge_replies SET received_at = '2026-03-01T12:00:00.499999+00:00'"
        " WHERE request_key = 'k1'",
        "UPDATE judge_replies SET received_at = '2026-03-01T12:00:00.500000+00:00'"
        " WHERE request_key = 'k2'",
        "UPDATE judge_paid_twice SET received_at = '2026-03-01T12:00:00.500001+00:00'"
        " WHERE request_key = 'k1'",
        "UPDATE judge_paid_twice SET received_at = '2026-02-28T23:59:59.000000+00:00'"
        " WHERE request_key = 'k2'",
    )
    found = [
        (spending.n_replies, spending.usage.input_tokens, spending.is_waste)
        for spending in ledger.spending_since(moment)
    ]
    assert found == [(1, 10, False), (1, 100, True)]
    assert ledger.spending_since(moment + timedelta(seconds=1)) == []


def test_a_run_is_not_billed_for_what_was_written_before_it(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    ledger.record_rows("n1", [("k1", billed(1, 1, 1, 1))])
    run_began = datetime.now(UTC)
    ledger.record_rows("n1", [("k2", billed(2, 2, 2, 2))])
    (spending,) = ledger.spending_since(run_began)
    assert spending.usage == TokenUsage(2, 2, 2, 2)


def test_imported_replies_were_billed_elsewhere(ledger: Ledger) -> None:
    ledger.import_replies([stored("k1"), stored("k2", usage=None)])
    assert ledger.spending_since() == []


def test_replies_that_took_more_tokens_than_a_small_number_holds_are_added_up(
    ledger: Ledger,
) -> None:
    begin_batch(ledger, "n1")
    most = 2**31 - 1
    ledger.record_rows("n1", [(f"k{number}", billed(most, 0, 0, most)) for number in range(5)])
    (spending,) = ledger.spending_since()
    assert spending.usage == TokenUsage(5 * most, 0, 0, 5 * most)


def test_responses_are_not_judging(ledger: Ledger) -> None:
    own = JudgingScope("*", "*", "fingerprint", "responses")
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2", scope=own)
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4))])
    for _ in range(2):
        ledger.record_rows("n2", [("k1", billed(10, 20, 0, 40)), ("k2", billed(5, 6, 7, 8))])
    assert ledger.spending_since() == [
        Spending("judge-1", "batch", 1, 1, 1, TokenUsage(1, 2, 3, 4), is_waste=False)
    ]
    assert ledger.spending_since(on_responses=True) == [
        Spending("judge-1", "batch", 1, 1, 1, TokenUsage(5, 6, 7, 8), is_waste=False),
        Spending("judge-1", "batch", 1, 1, 0, TokenUsage(10, 20, 0, 40), is_waste=True),
    ]
    assert ledger.unbilled_batches() == []
