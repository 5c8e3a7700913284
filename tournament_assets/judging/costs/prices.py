"""What judging costs, from the tokens that were billed and a dated list of prices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from tournament_assets.judging.batch_service import Channel, TokenUsage
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.judge_config import ConfiguredPrice
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.yaml_files import read_yaml

_TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Prices of one model, in US dollars per million tokens.

    Attributes:
        input: Input tokens that are neither written to nor read from the cache.
        output: Output tokens, thinking included.
        cache_write_1h: Input tokens written to the one-hour cache.
        cache_read: Input tokens read from the cache.
        min_cacheable_tokens: A prefix shorter than this is not cached.
        max_prompt_tokens: The longest prompt that these prices hold for; None for any.
    """

    input: float
    output: float
    cache_write_1h: float
    cache_read: float
    min_cacheable_tokens: int
    max_prompt_tokens: int | None = None

    @property
    def break_even_hit_rate(self) -> float:
        """The share of cache hits from which a one-hour breakpoint is cheaper than none."""
        return (self.cache_write_1h - self.input) / (self.cache_write_1h - self.cache_read)


@dataclass(frozen=True, slots=True)
class Spending:
    """What some replies of one model, sent one way, were billed.

    Attributes:
        judge_model: The model that was asked.
        channel: How it was asked.
        n_replies: How many replies; those that report no tokens are not among them.
        n_cache_hits: Those among them that read their prefix from the cache.
        n_cache_writes: Those that wrote it there.
        usage: Their tokens.
        is_waste: Whether they had been paid for before, in another batch.
    """

    judge_model: str
    channel: Channel
    n_replies: int
    n_cache_hits: int
    n_cache_writes: int
    usage: TokenUsage
    is_waste: bool


@dataclass(frozen=True, slots=True)
class Bill:
    """What some spending comes to.

    Attributes:
        usd: US dollars, without the models that have no price.
        unpriced: Models that were billed and have no price.
    """

    usd: float
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a day.

    Attributes:
        date: When they were published, such as `2026-09`.
        batch_discount: What a batch multiplies every price by.
        models: Prices by model id.
        source: Where they were published.
        configured: Models whose prices the config gives.
    """

    date: str
    batch_discount: float
    models: Mapping[str, ModelPrice]
    source: str = ""
    configured: tuple[str, ...] = ()

    def cost_usd(self, model: str, usage: TokenUsage, *, channel: Channel) -> float | None:
        """Return what some tokens cost, in US dollars; None for a model without a price."""
        price = self.models.get(model)
        if price is None:
            return None
        dollars = (
            usage.input_tokens * price.input
            + usage.output_tokens * price.output
            + usage.cache_creation_input_tokens * price.cache_write_1h
            + usage.cache_read_input_tokens * price.cache_read
        )
        return dollars * self.discount(channel) / _TOKENS_PER_PRICE

    def discount(self, channel: Channel) -> float:
        """Return what every price is multiplied by: a direct message pays it in full."""
        return self.batch_discount if channel == "batch" else 1.0

    def is_zero(self, model: str) -> bool:
        """Say whether a model's price is known and is nothing."""
        price = self.models.get(model)
        return price is not None and not (price.input or price.output or price.cache_read)

    def add_up(self, spendings: Iterable[Spending]) -> Bill:
        """Return what was spent, waste included; the loopback judge costs nothing."""
        total = 0.0
        unpriced: set[str] = set()
        for spending in spendings:
            if is_free_model(spending.judge_model):
                continue
            dollars = self.cost_usd(spending.judge_model, spending.usage, channel=spending.channel)
            if dollars is None:
                unpriced.add(spending.judge_model)
            else:
                total += dollars
        return Bill(total, tuple(sorted(unpriced)))


def format_usd(dollars: float) -> str:
    """Return an amount as people read it, with a hundredth of a cent where that matters."""
    return f"${dollars:,.4f}" if 0 < dollars < 0.1 else f"${dollars:,.2f}"


def load_newest_prices(configured: Mapping[str, ConfiguredPrice] | None = None) -> PriceList:
    """Read the price list with the latest date.

    Args:
        configured: Prices that a config gives; they come before those of the list.
    """
    newest = _newest_file()
    content = read_yaml(newest, what="the price list").values
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


def judge_prices(config: TournamentConfig, *models: str) -> PriceList:
    """Return the newest price list as it holds for a tournament's judges.

    Models of a service that costs nothing have zeros for prices. One that is written down comes
    first: what stands on a private address may pass requests on to somebody who bills them.

    Args:
        config: The tournament's.
        models: Other models of the same service that are asked.
    """
    judge, zero = config.judge, ConfiguredPrice(input=0, output=0)
    prices = load_newest_prices(judge.prices)
    asked = [*map(config.judge_model, config.mode_names), *models]
    free = [each.model for each in judge.panel if each.is_free]
    if not judge.panel and judge.is_free:
        free = asked
    unpriced = [model for model in free if model not in prices.models]
    if not unpriced:
        return prices
    return load_newest_prices({**dict.fromkeys(unpriced, zero), **judge.prices})


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
