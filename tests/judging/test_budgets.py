from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.judging.batch_service import Channel
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetPeriod,
    BudgetTerms,
    UnbilledBatch,
    month_start,
)
from tournament_assets.tournament.errors import BudgetError

from .prices import PRICES, spending

BEGAN = datetime(2026, 9, 1, tzinfo=UTC)
cents = st.integers(0, 10_000)


def budget(
    limit: float = 10.0, *, spent: float = 0.0, committed: float = 0.0, unpriced: str = ""
) -> Budget:
    return Budget(
        limit_usd=limit,
        period="month",
        spent_usd=spent,
        committed_usd=committed,
        unpriced=tuple(unpriced.split()),
    )


def unbilled(
    n_requests: int = 10,
    *,
    model: str = "opus",
    channel: Channel = "batch",
    days: float = 1.0,
    is_lost: bool = False,
) -> UnbilledBatch:
    return UnbilledBatch(
        judge_model=model,
        channel=channel,
        begun_at=BEGAN + timedelta(days=days),
        n_requests=n_requests,
        is_lost=is_lost,
    )


def a_cent_in_a_batch(model: str, channel: Channel) -> float | None:
    if model not in PRICES.models:
        return None
    return 0.01 if channel == "batch" else 0.02


def committed_to(batch: UnbilledBatch, *, period: BudgetPeriod = "month") -> float:
    terms = BudgetTerms(PRICES, 10.0, period, BEGAN)
    drawn = terms.draw_up(BEGAN, [], [batch], request_usd=a_cent_in_a_batch)
    assert drawn is not None
    assert drawn.unpriced == ()
    return drawn.committed_usd


@given(cents, cents, cents, cents)
def test_a_plan_is_refused_exactly_above_the_limit(
    limit: int, spent: int, committed: int, planned: int
) -> None:
    # In whole dollars, which add up exactly.
    problem = budget(limit, spent=spent, committed=committed).problem(planned, what="it")
    assert (problem is not None) == (planned > 0 and spent + committed + planned > limit)


def test_a_refusal_says_what_was_planned_what_is_left_and_what_to_do() -> None:
    with pytest.raises(BudgetError) as caught:
        budget(10, spent=6, committed=3).check(1.5, what="asking 12 requests of opus")
    assert str(caught.value) == (
        "asking 12 requests of opus may cost up to $1.50; of the budget of $10.00 a month, "
        "$6.00 is spent and $3.00 is under way; expected at most $1.00; raise judge.budget_usd, "
        "or judge fewer pairs (--limit-pairs), or wait for the next month"
    )


def test_what_fits_is_not_refused_and_what_costs_nothing_never_is() -> None:
    budget(10, spent=6, committed=3).check(1.0, what="it")
    budget(10, spent=60).check(0.0, what="it")
    budget(0, unpriced="gone").check(0.0, what="it")


def test_a_budget_of_nothing_refuses_whatever_costs_something() -> None:
    with pytest.raises(BudgetError, match="expected at most"):
        budget(0).check(0.0001, what="it")


def test_without_a_price_a_budget_cannot_be_kept() -> None:
    with pytest.raises(BudgetError, match="no price for asking 2 requests of gone is known"):
        budget().check(None, what="asking 2 requests of gone")
    with pytest.raises(BudgetError, match="no price of gone, older is known"):
        budget(unpriced="gone older").check(0.01, what="it")


def test_what_is_left_is_never_less_than_nothing() -> None:
    assert budget(10, spent=6, committed=3).left_usd == pytest.approx(1.0)
    assert budget(10, spent=60).left_usd == 0.0


@pytest.mark.parametrize(
    ("batch", "dollars"),
    [
        (unbilled(10), 0.10),
        (unbilled(10, channel="direct"), 0.20),
        (unbilled(10, days=-1), 0.10),
        (unbilled(10, is_lost=True), 0.10),
        (unbilled(10, days=-1, is_lost=True), 0.0),
        (unbilled(10, model="loopback-lexical"), 0.0),
        (unbilled(0, model="gone"), 0.0),
    ],
    ids=["open", "direct", "begun last month", "lost", "lost last month", "free", "all came back"],
)
def test_a_month_pays_for_all_that_is_under_way_and_for_what_was_lost_in_it(
    batch: UnbilledBatch, dollars: float
) -> None:
    assert committed_to(batch) == pytest.approx(dollars)


def test_a_run_pays_only_for_what_it_began() -> None:
    assert committed_to(unbilled(10), period="run") == pytest.approx(0.10)
    assert committed_to(unbilled(10, days=-0.001), period="run") == 0.0


def test_what_was_spent_counts_and_models_without_a_price_are_named_once() -> None:
    drawn = BudgetTerms(PRICES, 10.0, "month", BEGAN).draw_up(
        BEGAN,
        [spending(), spending("gone")],
        [unbilled(model="gone"), unbilled(model="also gone"), unbilled(5)],
        request_usd=a_cent_in_a_batch,
    )
    assert drawn is not None
    assert drawn.spent_usd == pytest.approx(10.0)
    assert drawn.committed_usd == pytest.approx(0.05)
    assert drawn.unpriced == ("also gone", "gone")


def test_a_month_begins_on_its_first_day_in_utc() -> None:
    eastern = timezone(timedelta(hours=-5))
    assert month_start(datetime(2026, 9, 30, 23, 30, tzinfo=UTC)) == BEGAN
    assert month_start(datetime(2026, 8, 31, 20, 0, tzinfo=eastern)) == BEGAN
