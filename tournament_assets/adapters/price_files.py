"""Reads the dated price lists that ship with the package."""

from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

import yaml

from tournament_assets.judging.pricing import ModelPrice, PriceList
from tournament_assets.tournament.config import ConfiguredPrice
from tournament_assets.tournament.fingerprints import fingerprint


def load_newest_prices(configured: Mapping[str, ConfiguredPrice] | None = None) -> PriceList:
    """Read the price list with the latest date.

    Args:
        configured: Prices that a config gives; they come before those of the list.
    """
    newest = _newest_file()
    content = yaml.safe_load(newest.read_text(encoding="utf-8"))
    own = {
        model: ModelPrice(
            input=price.input,
            output=price.output,
            cache_write_1h=price.write_price,
            cache_read=price.read_price,
            min_cacheable_tokens=price.min_cacheable_tokens,
        )
        for model, price in (configured or {}).items()
    }
    listed = {model: ModelPrice(**prices) for model, prices in content["models"].items()}
    return PriceList(
        date=newest.name.removesuffix(".yaml"),
        batch_discount=content["batch_discount"],
        models={**listed, **own},
        source=content.get("source", ""),
        configured=tuple(own),
    )


def newest_prices_hash() -> str:
    """Return the SHA-256 of the price list with the latest date, which counts as well."""
    newest = _newest_file()
    return fingerprint([newest.name, newest.read_text(encoding="utf-8")])


def _newest_file() -> Traversable:
    folder = resources.files("tournament_assets") / "data" / "prices"
    return max(
        (entry for entry in folder.iterdir() if entry.name.endswith(".yaml")),
        key=lambda entry: entry.name,
    )
