import re
from typing import get_args

import pytest
from anthropic.types import Model

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import ModelPrice, load_newest_prices, most_usd
from tournament_assets.judging.requests.requests import ModelRequest
from tournament_assets.tournament.judges import ConfiguredPrice


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
    ],
)
def test_every_model_that_is_served_has_its_prices_and_half_of_them_in_batches(
    model: str, dollars: float
) -> None:
    prices, million = load_newest_prices(), 1_000_000
    usage = TokenUsage(million, million, million, million)
    assert prices.cost_usd(model, usage, channel="direct") == pytest.approx(dollars)
    assert prices.cost_usd(model, usage, channel="batch") == pytest.approx(dollars / 2)


# The published page had no price for them in October 2026.
UNPRICED = {"claude-fable-5-2", "claude-mythos-5-2", "claude-mythos-preview"}
SNAPSHOT = re.compile(r"(?P<model>.+)-20\d{6}")


def test_every_model_that_the_sdk_names_has_a_price_or_is_known_to_have_none() -> None:
    priced = set(load_newest_prices().models)
    names = {name for part in get_args(Model) for name in get_args(part)}
    assert len(names) > 15
    snapshots = {name: found["model"] for name in names if (found := SNAPSHOT.fullmatch(name))}
    assert set(snapshots.values()) <= priced
    assert names - set(snapshots) - priced == UNPRICED


def test_the_list_says_where_its_prices_were_published() -> None:
    assert load_newest_prices().source.startswith("https://platform.claude.com/docs/")


def test_prices_of_a_config_come_before_those_of_the_list_and_are_dear_where_they_are_silent() -> (
    None
):
    own = {
        "claude-own": ConfiguredPrice(input=3, output=15),
        "claude-opus-5-5": ConfiguredPrice(input=1, output=2, cache_write_1h=3, cache_read=0.5),
    }
    prices = load_newest_prices(own)
    assert prices.models["claude-own"] == ModelPrice(3, 15, 6, 3, 1024)
    assert prices.models["claude-opus-5-5"] == ModelPrice(1, 2, 3, 0.5, 1024)
    assert prices.configured == ("claude-own", "claude-opus-5-5")
    assert "claude-sonnet-5-5" in prices.models


def test_a_prompt_longer_than_its_price_holds_for_has_none() -> None:
    prices = load_newest_prices()

    def asking(n_characters: int) -> ModelRequest:
        message = {"role": "user", "content": "x" * n_characters}
        params = {"model": "claude-haiku-5-5", "max_tokens": 100, "messages": [message]}
        return ModelRequest("key", params)

    assert most_usd(asking(90_000), prices, "batch") is not None
    assert most_usd(asking(100_000), prices, "batch") is None
