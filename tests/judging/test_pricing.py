import pytest

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.tournament.judge_services import is_free_model

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
    bill = PRICES.add_up(
        [spending(), spending(channel="direct"), spending(output_tokens=100_000, is_waste=True)]
    )
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


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        (0.0, "$0.00"),
        (0.0123, "$0.0123"),
        (0.1, "$0.10"),
        (46.844, "$46.84"),
        (1234.5, "$1,234.50"),
    ],
)
def test_cents_are_divided_only_where_there_are_few_of_them(dollars: float, words: str) -> None:
    assert format_usd(dollars) == words
