"""The process that is killed: it settles a scenario's requests with the real ledger and adapter."""

from contextlib import closing
from pathlib import Path
from typing import cast

from tests.judging.builders import SCOPE, Progress
from tests.torture.boundaries import Life, MortalLedger, MortalService
from tests.torture.scenarios import BATCH_REQUESTS, CHUNK_ROWS, SCENARIOS
from tournament_assets.adapters.anthropic import AnthropicBatches
from tournament_assets.adapters.ledger import Ledger
from tournament_assets.judging import harvesting, submission
from tournament_assets.judging.records import JudgingLedger
from tournament_assets.judging.service import BatchService
from tournament_assets.judging.sessions import WaitingPolicy
from tournament_assets.judging.settlement import JudgingOptions, settle_requests
from tournament_assets.tournament.errors import TournamentError

REFUSED = 3
"""The exit code of a process that ended with one of the project's own errors."""


def settle(*, scenario: str, ledger_url: str, judge_url: str, dies_at: int, note: str) -> int:
    """Settle the requests of a scenario, until the process is killed or there is nothing left.

    Returns:
        The exit code.
    """
    # A few requests are several batches, and a few rows several parts.
    submission.MAX_BATCH_REQUESTS = BATCH_REQUESTS
    harvesting._CHUNK = CHUNK_ROWS
    chosen = SCENARIOS[scenario]
    life, progress = Life(dies_at, Path(note)), Progress()
    policy = WaitingPolicy(
        poll_initial_seconds=0.02,
        poll_max_seconds=0.2,
        deadline_seconds=60.0,
        prewarm_wait_seconds=chosen.prewarm_wait_seconds,
        adopt_grace_seconds=chosen.grace_seconds,
        max_rounds=chosen.max_rounds,
    )
    try:
        with (
            closing(life.write("opening", Ledger, ledger_url)) as ledger,
            closing(AnthropicBatches(base_url=judge_url, api_key="any")) as service,
        ):
            mortal = MortalLedger(ledger, life, pause_seconds=chosen.pause_seconds)
            tally = settle_requests(
                chosen.requests,
                scope=SCOPE,
                ledger=cast("JudgingLedger", mortal),
                service=cast("BatchService", MortalService(service, life)),
                progress=progress,
                options=JudgingOptions(policy=policy),
            )
    except TournamentError as error:
        life.leave_note("refused", error=str(error), notes=progress.notes)
        return REFUSED
    life.leave_note("the end", adopted=tally.adopted, direct=tally.direct, notes=progress.notes)
    return 0
