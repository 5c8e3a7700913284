"""One run of the real thing; importable, so that a new process can find it."""

from contextlib import closing
from threading import Barrier
from typing import Any

from tests.judging.builders import SCOPE, Progress, requests_for
from tournament_assets.judging.settlement.sessions import JudgingOptions, Tally, WaitingPolicy
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches


def run_judging(
    ledger_url: str,
    judge_url: str,
    n_pairs: int,
    start: Barrier | Any = None,
    poll_seconds: float = 0.02,
) -> Tally:
    """Settle some requests with a ledger, an adapter and connections of its own."""
    with (
        closing(Ledger(ledger_url)) as ledger,
        closing(AnthropicBatches(base_url=judge_url, api_key="any")) as service,
    ):
        if start is not None:
            start.wait(60)
        return settle_requests(
            requests_for(n_pairs),
            scope=SCOPE,
            ledger=ledger,
            service=service,
            progress=Progress(),
            options=JudgingOptions(
                policy=WaitingPolicy(
                    poll_seconds, max(poll_seconds, 0.1), 60, adopt_grace_seconds=0.3
                )
            ),
        )
