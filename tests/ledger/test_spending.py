from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.judging.prices import PRICES
from tournament_assets.foundation.errors import BudgetError
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import BudgetTerms, Spending, UnbilledBatch
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.spending import Waste

from .builders import (
    BEGUN_AT,
    SCOPE,
    acquire,
    begin_batch,
    billed,
    change,
    failure,
    intent,
    numbered_keys,
    stored,
    success,
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
        Spending("judge-1", "batch", 3, 2, 1, TokenUsage(7, 100, 300, 1000)),
        Spending("judge-1", "direct", 1, 1, 1, TokenUsage(5, 6, 7, 8)),
        Spending("judge-2", "batch", 1, 0, 0, TokenUsage(1000, 200, 0, 0)),
    ]


def test_what_was_billed_at_one_effort_is_told_apart_from_another(ledger: Ledger) -> None:
    for nonce, effort in (("n1", None), ("n2", "low"), ("n3", "low")):
        begin_batch(ledger, nonce, effort=effort)
        ledger.record_rows(nonce, [(f"key of {nonce}", billed(1, 2, 0, 0))])
    assert {each.effort: each.n_replies for each in ledger.spending_since()} == {None: 1, "low": 2}


def test_what_was_paid_for_twice_is_told_apart(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4))])
    for _ in range(2):
        ledger.record_rows("n2", [("k1", billed(10, 20, 0, 40)), ("k2", billed(5, 6, 7, 8))])
    assert ledger.spending_since() == [
        Spending("judge-1", "batch", 2, 2, 2, TokenUsage(6, 8, 10, 12)),
        Spending("judge-1", "batch", 1, 1, 0, TokenUsage(10, 20, 0, 40)),
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
        (spending.n_replies, spending.usage.input_tokens)
        for spending in ledger.spending_since(moment)
    ]
    assert found == [(1, 10), (1, 100)]
    assert ledger.spending_since(moment + timedelta(seconds=1)) == []


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
        Spending("judge-1", "batch", 1, 1, 1, TokenUsage(1, 2, 3, 4))
    ]
    assert ledger.spending_since(on_responses=True) == [
        Spending("judge-1", "batch", 1, 1, 1, TokenUsage(5, 6, 7, 8)),
        Spending("judge-1", "batch", 1, 1, 0, TokenUsage(10, 20, 0, 40)),
    ]
    assert ledger.unbilled_batches() == []


NO_TOKENS = TokenUsage()


def test_a_new_ledger_has_wasted_nothing(ledger: Ledger) -> None:
    assert ledger.waste_of("tiny", "pilot") == Waste(0, NO_TOKENS, 0, 0, 0)


def test_what_came_back_from_a_batch_that_was_written_off_is_not_wasted(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1", "k2", "k3", "k4", "k5"])
    begin_batch(ledger, "n2", ["k1", "k3"])
    ledger.record_rows("n2", [("k1", billed(1, 2, 3, 4)), ("k3", billed(1, 2, 3, 4))])
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4)), ("k2", billed(1, 2, 3, 4))])
    ledger.record_failures("n1", [("k4", failure("overloaded_error"))] * 2)
    ledger.record_closed("n1", state="lost")
    waste = ledger.waste_of("tiny", "pilot")
    assert (waste.replies_paid_twice, waste.requests_lost) == (1, 2)


def test_waste_is_told_by_tournament_and_mode(ledger: Ledger) -> None:
    other_dimension = replace(SCOPE, dimension="calibration", purpose="agreement")
    begin_batch(ledger, "n1", ["k1", "k2"])
    begin_batch(ledger, "n2", ["k1", "k2"], scope=other_dimension)
    begin_batch(ledger, "n3", ["k3", "k4", "k5"])
    begin_batch(ledger, "n4", ["k6"], scope=other_dimension)
    begin_batch(ledger, "n5", ["k7"], scope=replace(SCOPE, mode="headline"))
    begin_batch(ledger, "n6", ["k7"], scope=replace(SCOPE, tournament_id="other"))
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4)), ("k2", billed(1, 2, 3, 4))])
    ledger.record_rows("n2", [("k1", billed(10, 20, 30, 40)), ("k2", billed(1, 1, 1, 1))])
    unparsable = failure(None, result_type="unparsable")
    ledger.record_failures("n1", [("k1", unparsable), ("k2", unparsable)])
    ledger.record_failures("n1", [("k1", failure("overloaded_error"))])
    ledger.record_closed("n3", state="abandoned")
    ledger.record_closed("n4", state="lost")
    ledger.record_closed("n5", state="lost")
    begin_batch(ledger, "n7", ["k8"], scope=replace(SCOPE, tournament_id="other"))
    ledger.record_failures("n7", [("k8", unparsable)])
    ledger.record_closed("n7", state="harvested")
    ledger.record_closed("n6", state="abandoned")
    assert ledger.waste_of("tiny", "pilot") == Waste(
        replies_paid_twice=2,
        usage=TokenUsage(11, 21, 31, 41),
        requests_never_confirmed=3,
        requests_lost=1,
        requests_unparsable=2,
    )
    assert ledger.waste_of("tiny", "headline") == Waste(0, NO_TOKENS, 0, 1, 0)
    assert ledger.waste_of("other", "pilot") == Waste(0, NO_TOKENS, 1, 0, 1)


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
    with pytest.raises(BudgetError, match=r"\bgone\b"):
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


def test_a_reply_keeps_the_price_at_which_it_was_bought_and_nothing_is_one(ledger: Ledger) -> None:
    rates = PRICES.rates("opus", channel="batch")
    nothing = dict.fromkeys(rates or {}, 0.0)
    million = success("VERDICT: A", usage=TokenUsage(output_tokens=1_000_000))
    begin_batch(ledger, "n1", KEYS[:1], judge_model="opus", rates=rates)
    begin_batch(ledger, "n2", KEYS[1:3], judge_model="local", rates=nothing, most_usd=[0.0, 0.0])
    begin_batch(ledger, "n3", KEYS[3:4], judge_model="gone")
    for nonce, key in zip(("n1", "n2", "n3"), (KEYS[0], KEYS[1], KEYS[3]), strict=True):
        ledger.record_rows(nonce, [(key, million)])
    assert [each.usd for each in ledger.spending_since()] == [None, 0.0, 10.0]
    dearer = replace(PRICES, models={"gone": PRICES.models["opus"]})
    bill = dearer.add_up(ledger.spending_since())
    assert (bill.usd, bill.unpriced) == (10.0 + 10.0, ())
    assert PRICES.add_up(ledger.spending_since()).unpriced == ("gone",)
    # What a model without a price today has under way holds what was written down then.
    terms = BudgetTerms(PRICES, 100.0, "month", BEGUN_AT)
    budget = terms.draw_up(
        BEGUN_AT, [], ledger.unbilled_batches()[1:2], request_usd=lambda _model, _channel: None
    )
    assert budget is not None
    assert (budget.unpriced, budget.committed_usd) == ((), 0.0)


def test_of_what_a_dead_process_asked_directly_as_many_count_as_were_under_way(
    ledger: Ledger,
) -> None:
    most = [1.0] * len(KEYS)
    begin_batch(ledger, "n1", KEYS, channel="direct", most_usd=most, at_once=2)
    ledger.record_closed("n1", state="abandoned")
    (batch,) = ledger.unbilled_batches()
    assert (batch.n_requests, batch.most_usd) == (2, 2.0)
