import re
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from anthropic.types import Model
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import BudgetError
from tournament_assets.judging.batch_service import Channel, MessageParams, TokenUsage
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetPeriod,
    BudgetTerms,
    ModelPrice,
    UnbilledBatch,
    load_newest_prices,
    month_start,
    most_usd,
)
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.judges import ConfiguredPrice

from .prices import PRICES, spending


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (TokenUsage(input_tokens=1_000_000), 2.0),
        (TokenUsage(output_tokens=1_000_000), 10.0),
        (TokenUsage(cache_creation_input_tokens=1_000_000), 4.0),
        (TokenUsage(cache_read_input_tokens=1_000_000), 0.1),
        (TokenUsage(), 0.0),
        (TokenUsage(1_000_000, 1_000_000, 1_000_000, 1_000_000), 16.1),
    ],
)
def test_a_batch_costs_half_of_what_direct_messages_cost_for_each_kind_of_token(
    usage: TokenUsage, dollars: float
) -> None:
    assert PRICES.cost_usd("opus", usage, channel="batch") == pytest.approx(dollars)
    assert PRICES.cost_usd("opus", usage, channel="direct") == pytest.approx(2 * dollars)


def test_a_headline_without_cache_costs_47_dollars() -> None:
    # 4,548 requests of 2,900 input and 450 output tokens: 4,548 * 20,600 * 0.5 / 1e6.
    usage = TokenUsage(input_tokens=4548 * 2900, output_tokens=4548 * 450)
    assert PRICES.cost_usd("opus", usage, channel="batch") == pytest.approx(46.8444)


def test_a_model_without_a_price_does_not_cost_nothing() -> None:
    assert PRICES.cost_usd("unheard-of", TokenUsage(input_tokens=1), channel="batch") is None


def test_usages_add_up_kind_by_kind() -> None:
    assert TokenUsage(1, 2, 3, 4) + TokenUsage(10, 20, 30, 40) == TokenUsage(11, 22, 33, 44)


def test_a_bill_adds_up_both_channels_and_what_was_paid_twice() -> None:
    bill = PRICES.add_up([spending(), spending(channel="direct"), spending(output_tokens=100_000)])
    assert bill.usd == pytest.approx(10.0 + 20.0 + 1.0)
    assert bill.unpriced == ()


def test_the_loopback_judge_is_on_no_bill_and_a_model_without_a_price_is_named() -> None:
    bill = PRICES.add_up(
        [spending("loopback-lexical"), spending("gone"), spending(), spending("a")]
    )
    assert bill.usd == pytest.approx(10.0)
    assert bill.unpriced == ("a", "gone")
    assert is_free_model("loopback")
    assert not is_free_model("claude-opus-5-5")


def test_the_newest_list_is_dated_and_halves_batches() -> None:
    prices = load_newest_prices()
    assert re.fullmatch(r"20\d\d-\d\d", prices.date)
    assert prices.date >= "2026-09"
    assert prices.batch_discount == 0.5


def test_every_price_is_a_number_of_dollars() -> None:
    prices = load_newest_prices()
    assert prices.models
    for price in prices.models.values():
        assert isinstance(price, ModelPrice)
        assert 0 < price.cache_read <= price.input <= price.cache_write_1h <= price.output


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        # A million tokens of each kind: input, output, written to the cache and read from it.
        ("claude-fable-5-1", 10 + 50 + 20 + 0.25),
        ("claude-fable-5", 10 + 50 + 20 + 1),
        ("claude-opus-5-5", 4 + 20 + 8 + 0.2),
        ("claude-opus-5", 5 + 25 + 10 + 0.5),
        ("claude-opus-4-8", 5 + 25 + 10 + 0.5),
        ("claude-opus-4-7", 5 + 25 + 10 + 0.5),
        ("claude-opus-4-6", 5 + 25 + 10 + 0.5),
        ("claude-opus-4-5", 5 + 25 + 10 + 0.5),
        ("claude-sonnet-5-5", 2 + 10 + 4 + 0.1),
        ("claude-sonnet-5", 2 + 10 + 4 + 0.2),
        ("claude-sonnet-4-6", 3 + 15 + 6 + 0.3),
        ("claude-sonnet-4-5", 3 + 15 + 6 + 0.3),
        ("claude-haiku-5-5", 0.1 + 0.5 + 0.2 + 0.01),
        ("claude-haiku-4-5", 1 + 5 + 2 + 0.1),
        ("claude-fable-5-2", 8 + 40 + 16 + 0.2),
        ("gpt-6.2-sol", 2 + 10 + 2.5 + 0.1),
        ("gpt-5-mini", 0.25 + 2 + 0.25 + 0.025),
        ("gemini-4-hydrogen", 1.5 + 7.5 + 1.5 + 0.075),
    ],
)
def test_every_model_that_is_served_has_its_prices_and_half_of_them_in_batches(
    model: str, dollars: float
) -> None:
    prices, million = load_newest_prices(), 1_000_000
    usage = TokenUsage(million, million, million, million)
    assert prices.cost_usd(model, usage, channel="direct") == pytest.approx(dollars)
    assert prices.cost_usd(model, usage, channel="batch") == pytest.approx(dollars / 2)


# No published page had a price for it in November 2026.
UNPRICED = {"claude-mythos-preview"}
SNAPSHOT = re.compile(r"(?P<model>.+)-20\d{6}")


def test_every_model_that_the_sdk_names_has_a_price_or_is_known_to_have_none() -> None:
    priced = set(load_newest_prices().models)
    names = {name for part in get_args(Model) for name in get_args(part)}
    assert len(names) > 15
    snapshots = {name: found["model"] for name in names if (found := SNAPSHOT.fullmatch(name))}
    assert set(snapshots.values()) <= priced
    assert names - set(snapshots) - priced == UNPRICED


def test_the_list_says_where_every_price_was_published() -> None:
    prices = load_newest_prices({"claude-opus-5-5": ConfiguredPrice(input=1, output=2)})
    places = {model: prices.source_of(model) for model in prices.models}
    assert all(places.values())
    assert {place.split("/")[2] for place in places.values() if "/" in place} == {
        "platform.claude.com",
        "developers.openai.com",
        "ai.google.dev",
    }
    assert places["claude-opus-5-5"] == "judging.prices"
    assert prices.source_of("my-model") == ""


def test_prices_of_a_config_come_before_those_of_the_list_and_are_dear_where_they_are_silent() -> (
    None
):
    own = {
        "claude-own": ConfiguredPrice(input=3, output=15),
        "claude-opus-5-5": ConfiguredPrice(input=1, output=2, cache_write_1h=3, cache_read=0.5),
    }
    prices = load_newest_prices(own)
    assert prices.models["claude-own"] == ModelPrice(3, 15, 6, 3, 1024)
    assert prices.models["claude-opus-5-5"] == ModelPrice(1, 2, 3, 0.5, 1024, thinks=True)
    assert prices.configured == ("claude-own", "claude-opus-5-5")
    assert "claude-sonnet-5-5" in prices.models


def test_a_prompt_longer_than_its_price_holds_for_has_none() -> None:
    prices = load_newest_prices()

    def asking(n_characters: int) -> ModelRequest:
        message = {"role": "user", "content": "x" * n_characters}
        params: MessageParams = {
            "model": "claude-haiku-5-5",
            "max_tokens": 100,
            "messages": [message],
        }
        return ModelRequest("0" * 64, params)

    assert most_usd([asking(90_000)], prices, "batch") is not None
    assert most_usd([asking(100_000)], prices, "batch") is None


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
        "$6.00 is spent and $3.00 is under way; expected at most $1.00; raise judging.budget.usd "
        "to $10.50, or judge fewer pairs (--limit-pairs), or wait for the next month"
    )


@pytest.mark.parametrize(
    ("planned", "enough"), [(1.5, "$10.50"), (1.5001, "$10.51"), (0.00001, "$9.01")]
)
def test_the_sum_that_a_refusal_names_is_enough(planned: float, enough: str) -> None:
    limit = 9 if planned < 1 else 10
    problem = budget(limit, spent=6, committed=3).problem(planned, what="it")
    assert problem is not None
    assert f"to {enough}, or" in problem


def test_what_fits_is_not_refused_and_what_costs_nothing_never_is() -> None:
    budget(10, spent=6, committed=3).check(1.0, what="it")
    budget(10, spent=60).check(0.0, what="it")
    budget(0, unpriced="gone").check(0.0, what="it")


def test_a_budget_of_nothing_refuses_whatever_costs_something() -> None:
    with pytest.raises(BudgetError, match=r"\$0\.0001;.* at most \$0\.00;"):
        budget(0).check(0.0001, what="it")


def test_without_a_price_a_budget_cannot_be_kept() -> None:
    with pytest.raises(BudgetError, match=r"price.*gone"):
        budget().check(None, what="asking 2 requests of gone")
    with pytest.raises(BudgetError, match="gone, older"):
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
