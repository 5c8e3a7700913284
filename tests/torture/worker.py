"""The process that is killed: it settles a scenario's requests with the real ledger and adapter."""

import secrets
from contextlib import closing
from pathlib import Path
from random import Random
from typing import cast

from tests.judging.builders import SCOPE, Progress
from tests.torture.boundaries import Life, MortalLedger, MortalService
from tests.torture.scenarios import BATCH_REQUESTS, CHUNK_ROWS, SCENARIOS
from tournament_assets.judging.batch_service import BatchService
from tournament_assets.judging.settlement import harvest as harvesting
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.records import JudgingLedger
from tournament_assets.judging.settlement.sessions import JudgingOptions, WaitingPolicy
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.tournament.errors import TournamentError

REFUSED = 3
"""The exit code of a process that ended with one of the project's own errors."""


def settle(
    *, scenario: str, ledger_url: str, judge_url: str, number: int, dies_at: int, note: str
) -> int:
    """Settle the requests of a scenario, until the process is killed or there is nothing left.

    Args:
        scenario: Which one.
        ledger_url: The ledger.
        judge_url: Where the judge listens.
        number: Which process it is that works on them, from 1 up.
        dies_at: The boundary at which it is killed; 0 is none.
        note: Where it writes down how far it came.

    Returns:
        The exit code.
    """
    # A few requests are several batches, and a few rows several parts.
    submission.MAX_BATCH_REQUESTS = BATCH_REQUESTS
    harvesting._CHUNK = CHUNK_ROWS
    # The order of the results, and so that of the boundaries, follows from the nonces.
    secrets.token_hex = _NumberedNames(number).token_hex
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
            closing(life),
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


class _NumberedNames:
    """Names that are the same in every first process, in every second one, and so on."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)

    def token_hex(self, nbytes: int | None = None) -> str:
        return self._random.randbytes(nbytes or 32).hex()
