"""The process that is killed: it settles a scenario's requests with the real ledger and adapter."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.judging.builders import SCOPE, SETTINGS, Progress
from tests.torture.boundaries import Life, MortalLedger, MortalService
from tests.torture.scenarios import BATCH_REQUESTS, CHUNK_ROWS, SCENARIOS, Scenario
from tournament_assets.judging.batch_service import AsksDirectly, TakesBatches
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.settlement import harvest as harvesting
from tournament_assets.judging.settlement import recovery, submission
from tournament_assets.judging.settlement.records import JudgingLedger, JudgingScope
from tournament_assets.judging.settlement.recovery import (
    PlannedRequest,
    RecoveryLedger,
    recover_batches,
)
from tournament_assets.judging.settlement.sessions import (
    Clock,
    JudgingSession,
    Piece,
    Sleep,
    Tally,
    run_together,
)
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.openers import open_service
from tournament_assets.tournament.errors import TournamentError
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.judges import Waiting

REFUSED = 3
"""The exit code of a process that ended with one of the project's own errors."""
_POLL_SECONDS = 0.02


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
    chosen = SCENARIOS[scenario]

    def work(ledger: MortalLedger, service: MortalService, progress: Progress) -> dict[str, Any]:
        def settle_part(part: tuple[JudgingScope, Sequence[JudgeRequest]], sleep: Sleep) -> Tally:
            scope, requests = part
            session = JudgingSession(
                scope=scope,
                ledger=cast("JudgingLedger", ledger),
                service=cast("AsksDirectly", service),
                progress=progress,
                waiting=_waiting(chosen),
                grace_seconds=chosen.grace_seconds,
                prewarms=True,
                clock=Clock(sleep=sleep),
            )
            return settle_requests(session, requests)

        parts = chosen.parts.items()
        pieces = [Piece(part[0].title, partial(settle_part, part)) for part in parts]
        tallies = run_together(pieces, log=progress.note)
        return {
            "adopted": sum(tally.adopted for tally in tallies),
            "direct": sum(tally.direct for tally in tallies),
        }

    return _live(work, chosen, ledger_url, judge_url, number, Life(dies_at, Path(note)))


def recover(
    *, scenario: str, ledger_url: str, judge_url: str, number: int, dies_at: int, note: str
) -> int:
    """Take back what a ledger has forgotten, as `tournament ledger recover` does; see `settle`."""
    chosen = SCENARIOS[scenario]
    model = SETTINGS.judge_model
    planned = {
        request.request_key: PlannedRequest(SCOPE, model, "line") for request in chosen.requests
    }

    def work(ledger: MortalLedger, service: MortalService, progress: Progress) -> dict[str, Any]:
        while True:
            report = recover_batches(
                planned,
                ledger=cast("RecoveryLedger", ledger),
                service=cast("TakesBatches", service),
                waiting=_waiting(chosen),
                progress=progress,
            )
            if not report.in_progress and not report.incomplete:
                return {"adopted": 0, "taken": len(report.taken)}
            time.sleep(_POLL_SECONDS)

    return _live(work, chosen, ledger_url, judge_url, number, Life(dies_at, Path(note)))


def _waiting(scenario: Scenario) -> Waiting:
    return Waiting(
        poll_initial_seconds=_POLL_SECONDS,
        poll_max_seconds=0.2,
        deadline_seconds=60.0,
        prewarm_wait_seconds=scenario.prewarm_wait_seconds,
        max_rounds=scenario.max_rounds,
    )


def _live(
    work: Callable[[MortalLedger, MortalService, Progress], dict[str, Any]],
    scenario: Scenario,
    ledger_url: str,
    judge_url: str,
    number: int,
    life: Life,
) -> int:
    # A few requests are several batches, and a few rows several parts.
    submission.MAX_BATCH_REQUESTS = BATCH_REQUESTS
    harvesting._CHUNK = recovery._CHUNK = CHUNK_ROWS
    # The order of the results, and so that of the boundaries, follows from the nonces.
    secrets.token_hex = _NumberedNames(number).token_hex
    progress = Progress()
    try:
        with (
            closing(life),
            closing(life.write("opening", Ledger, ledger_url)) as ledger,
            connect(scenario.service, judge_url) as service,
        ):
            mortal = MortalLedger(ledger, life, pause_seconds=scenario.pause_seconds)
            done = work(mortal, MortalService(service, life), progress)
    except TournamentError as error:
        life.leave_note("refused", error=str(error), notes=progress.notes)
        return REFUSED
    life.leave_note("the end", notes=progress.notes, **done)
    return 0


@contextmanager
def connect(service: str, judge_url: str) -> Iterator[AsksDirectly]:
    """Connect to the judge in the protocol of a service."""
    url = judge_url if service == "anthropic" else f"{judge_url}/v1"
    with open_service(service, ServiceConnection("any", url, Path())) as opened:
        yield opened


class _NumberedNames:
    """Names that are the same in every first process, in every second one, and so on."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)

    def token_hex(self, nbytes: int | None = None) -> str:
        return self._random.randbytes(nbytes or 32).hex()
