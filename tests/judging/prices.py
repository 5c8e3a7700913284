"""A list of prices, and bills to be priced with it."""

from tournament_assets.judging.batch_service import Channel, TokenUsage
from tournament_assets.judging.costs.prices import ModelPrice, PriceList, Spending

OPUS = ModelPrice(
    input=4.0, output=20.0, cache_write_1h=8.0, cache_read=0.2, min_cacheable_tokens=512
)
SONNET = ModelPrice(
    input=2.0, output=10.0, cache_write_1h=4.0, cache_read=0.2, min_cacheable_tokens=512
)
PRICES = PriceList(date="2026-09", batch_discount=0.5, models={"opus": OPUS})


def spending(
    model: str = "opus",
    *,
    n_replies: int = 1,
    channel: Channel = "batch",
    output_tokens: int = 1_000_000,
    hits: int = 0,
    writes: int = 0,
) -> Spending:
    """Build what some replies were billed; a million tokens of output by default."""
    return Spending(
        judge_model=model,
        channel=channel,
        n_replies=n_replies,
        n_cache_hits=hits,
        n_cache_writes=writes,
        usage=TokenUsage(output_tokens=output_tokens),
    )
