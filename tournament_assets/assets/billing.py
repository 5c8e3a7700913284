"""What the judge's replies were billed."""

from collections.abc import Iterable, Mapping
from typing import Any

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.judging.service import Channel, TokenUsage
from tournament_assets.tournament.config import TournamentConfig

BILLED_COLUMNS = (
    "request_key",
    "asking",
    "judge_model",
    "channel",
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
"""What a bill reads of the table `judge_replies`."""


class Bill:
    """What replies were billed, whenever they were paid; shared requests count once.

    Attributes:
        usage: The tokens of all of them.
    """

    def __init__(self) -> None:
        self.usage = TokenUsage()
        self._seen: set[tuple[str, int]] = set()
        self._by_price: dict[tuple[str, Channel], TokenUsage] = {}
        self._cache_hits = 0
        self._cache_writes = 0

    def add(self, reply: Mapping[str, Any]) -> None:
        """Add a row of the table `judge_replies`, if it was billed and is not a repetition."""
        if reply.get("input_tokens") is None:
            return
        name = (reply["request_key"], reply["asking"])
        if name in self._seen:
            return
        self._seen.add(name)
        usage = TokenUsage(
            input_tokens=reply["input_tokens"],
            output_tokens=reply["output_tokens"],
            cache_creation_input_tokens=reply["cache_creation_input_tokens"],
            cache_read_input_tokens=reply["cache_read_input_tokens"],
        )
        self.usage += usage
        price = (reply["judge_model"], reply["channel"])
        self._by_price[price] = self._by_price.get(price, TokenUsage()) + usage
        self._cache_hits += usage.cache_read_input_tokens > 0
        self._cache_writes += usage.cache_creation_input_tokens > 0

    @property
    def cache_hit_rate(self) -> float:
        """The share of requests that read the prompt cache among those that used it."""
        used = self._cache_hits + self._cache_writes
        return self._cache_hits / used if used else 0.0

    def cost_usd(self, config: TournamentConfig) -> float | None:
        """Return the dollars; None where a price is not known, 0 for the loopback judge."""
        if config.judge.service == "loopback":
            return 0.0
        prices = load_newest_prices(config.judge.prices)
        total = 0.0
        for (model, channel), usage in self._by_price.items():
            dollars = prices.cost_usd(model, usage, channel=channel)
            if dollars is None:
                return None
            total += dollars
        return total

    def metadata(self, config: TournamentConfig) -> dict[str, Any]:
        """Return what a person would ask about it."""
        usage, cost = self.usage, self.cost_usd(config)
        written, cached = usage.cache_creation_input_tokens, usage.cache_read_input_tokens
        read = usage.input_tokens + written + cached
        return {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_write_tokens": written,
            "cache_read_tokens": cached,
            "cache_read_share": cached / read if read else 0.0,
            "cache_hit_rate": self.cache_hit_rate,
            **({"cost_usd": round(cost, 4)} if cost is not None else {}),
        }


def bill_of(replies: Iterable[Mapping[str, Any]]) -> Bill:
    """Return the bill of rows of the table `judge_replies`."""
    bill = Bill()
    for reply in replies:
        bill.add(reply)
    return bill
