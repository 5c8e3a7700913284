"""What was sent and is not billed yet."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.judging.prices import PRICES
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import BudgetTerms, UnbilledBatch
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import BudgetError

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


def test_what_is_under_way_holds_its_most_until_it_is_known_what_it_cost(ledger: Ledger) -> None:
    terms = BudgetTerms(PRICES, 10.0, "month", BEGUN_AT)
    begin_batch(ledger, "n1", KEYS[:3], judge_model="opus", most_usd=[1.0, 2.0, 4.0])
    (batch,) = ledger.unbilled_batches()
    assert (batch.most_usd, batch.holder) == (7.0, "factuality (pilot) of tiny")
    ledger.record_rows("n1", [(KEYS[1], success("VERDICT: A", usage=TokenUsage()))])
    ledger.record_failures("n1", [(KEYS[2], failure("overloaded_error"))])
    budget = ledger.draw_up_budget(terms)
    assert budget is not None
    assert (budget.committed_usd, budget.waiting_for) == (1.0, (batch.holder,))
    # A result that nobody can read may have been billed; an error never is.
    ledger.record_failures("n1", [(KEYS[0], failure(None, result_type="missing"))])
    ledger.record_closed("n1", state="harvested")
    budget = ledger.draw_up_budget(terms)
    assert budget is not None
    assert (budget.committed_usd, budget.waiting_for) == (1.0, ())


def test_a_reply_that_does_not_say_what_it_cost_counts_at_its_most(ledger: Ledger) -> None:
    terms = BudgetTerms(PRICES, 10.0, "month", BEGUN_AT)
    begin_batch(ledger, "n1", KEYS[:3], judge_model="opus", most_usd=[1.0, 2.0, 4.0])
    ledger.record_rows(
        "n1",
        [
            (KEYS[0], success("VERDICT: A", usage=None)),
            (KEYS[1], success("VERDICT: A", usage=TokenUsage())),
            (KEYS[2], failure("invalid_request_error")),  # never billed
        ],
    )
    ledger.record_closed("n1", state="harvested")
    begin_batch(ledger, "n2", KEYS[1:2], judge_model="opus", most_usd=[0.5])
    ledger.record_rows("n2", [(KEYS[1], success("VERDICT: B", usage=None))])  # paid twice
    ledger.record_closed("n2", state="harvested")
    budget = ledger.draw_up_budget(terms)
    assert budget is not None
    assert (budget.spent_usd, budget.committed_usd, budget.waiting_for) == (0.0, 1.5, ())


def test_of_an_intent_as_much_is_written_down_as_the_budget_has_room_for(ledger: Ledger) -> None:
    terms = BudgetTerms(PRICES, 7.5, "month", BEGUN_AT)
    lease = acquire(ledger)
    most = [2.0, 2.0, 2.0, 2.0, 0.5]
    wanted = intent("n1", KEYS, judge_model="opus", most_usd=most)
    assert ledger.record_intent(lease, wanted, terms) == 3
    assert ledger.batch_keys("n1") == set(KEYS[:3])
    (batch,) = ledger.open_batches(lease.scope)
    assert batch.n_requests == 3
    again = intent("n2", KEYS[3:], judge_model="opus", most_usd=most[3:])
    assert ledger.record_intent(lease, again, terms) == 0
    assert ledger.batch_keys("n2") == set()
    small = intent("n3", KEYS[4:], judge_model="opus", most_usd=most[4:])
    assert ledger.record_intent(lease, small, terms) == 1
    unpriced = intent("n4", KEYS[:1], judge_model="gone", most_usd=None)
    with pytest.raises(BudgetError, match="no price for asking gone is known"):
        ledger.record_intent(lease, unpriced, terms)


def test_of_what_a_dead_process_asked_one_by_one_four_may_have_been_billed(ledger: Ledger) -> None:
    most = [1.0, 2.0, 3.0, 4.0, 5.0]
    begin_batch(ledger, "n1", KEYS, judge_model="opus", channel="direct", most_usd=most)
    ledger.record_rows("n1", [(KEYS[4], success("VERDICT: A", usage=TokenUsage()))])
    ledger.record_closed("n1", state="abandoned")
    (batch,) = ledger.unbilled_batches()
    assert (batch.n_requests, batch.most_usd, batch.is_lost) == (4, 16.0, True)


def test_an_open_batch_of_an_earlier_version_holds_a_part_of_the_budget(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", KEYS, judge_model="opus")
    budget = ledger.draw_up_budget(BudgetTerms(PRICES, 100.0, "month", BEGUN_AT))
    assert budget is not None
    assert budget.unpriced == ()
    assert 0 < budget.committed_usd < 100


def test_more_open_batches_than_one_query_can_name_are_counted(ledger: Ledger) -> None:
    lease = acquire(ledger)
    keys = numbered_keys(520)
    assert ledger.unbilled_batches() == []
    for key in keys:
        ledger.record_intent(lease, intent(key[-12:], [key]))
    ledger.record_rows(keys[510][-12:], [(keys[510], success("VERDICT: A"))])
    assert sum(batch.n_requests for batch in ledger.unbilled_batches()) == 519
