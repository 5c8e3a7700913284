import re

import pytest

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.judging.pricing import ModelPrice
from tournament_assets.judging.service import TokenUsage


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
        assert 0 < price.cache_read < price.input < price.cache_write_1h < price.output


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5"])
def test_the_judges_of_the_bundled_tournament_have_a_price(model: str) -> None:
    usage = TokenUsage(input_tokens=1)
    assert load_newest_prices().cost_usd(model, usage, channel="batch") is not None
