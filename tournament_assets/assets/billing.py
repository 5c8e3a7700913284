"""What the judge's replies were billed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.judging.service import Channel, TokenUsage
from tournament_assets.tournament.config import TournamentConfig

Rows = Sequence[Mapping[str, Any]]


def total_usage(replies: Rows) -> TokenUsage:
    """Add up what the replies of the table `judge_replies` were billed, shared requests once."""
    return _add_up(_billed(replies))


def judging_cost_usd(replies: Rows, config: TournamentConfig) -> float | None:
    """Return what the replies cost, whenever they were paid; None where a price is not known.

    The loopback judge costs nothing.
    """
    if config.judge.service == "loopback":
        return 0.0
    prices = load_newest_prices(config.judge.prices)
    by_price: dict[tuple[str, Channel], list[Mapping[str, Any]]] = {}
    for row in _billed(replies):
        by_price.setdefault((row["judge_model"], row["channel"]), []).append(row)
    total = 0.0
    for (model, channel), rows in by_price.items():
        dollars = prices.cost_usd(model, _add_up(rows), channel=channel)
        if dollars is None:
            return None
        total += dollars
    return total


def cost_metadata(replies: Rows, config: TournamentConfig) -> dict[str, Any]:
    """Return what a person would ask about the bill."""
    usage = total_usage(replies)
    read = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    billed = list(_billed(replies))
    hits = sum(row["cache_read_input_tokens"] > 0 for row in billed)
    writes = sum(row["cache_creation_input_tokens"] > 0 for row in billed)
    cost = judging_cost_usd(replies, config)
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
        "cache_read_tokens": usage.cache_read_input_tokens,
        "cache_read_share": usage.cache_read_input_tokens / read if read else 0.0,
        "cache_hit_rate": hits / (hits + writes) if hits + writes else 0.0,
        **({"cost_usd": round(cost, 4)} if cost is not None else {}),
    }


def _billed(replies: Rows) -> Iterator[Mapping[str, Any]]:
    """Yield the replies that were billed, one for each request and asking."""
    by_request = {
        (row["request_key"], row["asking"]): row
        for row in replies
        if row.get("input_tokens") is not None
    }
    yield from by_request.values()


def _add_up(rows: Iterable[Mapping[str, Any]]) -> TokenUsage:
    total = TokenUsage()
    for row in rows:
        total += TokenUsage(
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cache_creation_input_tokens=row["cache_creation_input_tokens"],
            cache_read_input_tokens=row["cache_read_input_tokens"],
        )
    return total
