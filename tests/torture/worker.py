"""The process that is killed: it settles a scenario's requests with the real ledger and adapter."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.judging.builders import SCOPE, SETTINGS, Progress
from tests.torture.boundaries import Life, MortalLedger, MortalService
from tests.torture.scenarios import BATCH_REQUESTS, CHUNK_ROWS, SCENARIOS, Scenario
from tournament_assets.foundation.errors import JudgeWaitingError, TournamentError
from tournament_assets.judging.batch_service import AsksDirectly, TakesBatches
from tournament_assets.judging.settlement import harvest as harvesting
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.records import JudgingLedger
from tournament_assets.judging.settlement.recovery import (
    PlannedRequest,
    RecoveryLedger,
    recover_batches,
)
from tournament_assets.judging.settlement.sessions import (
    Clock,
    JudgingSession,
    Piece,
    SettlementTerms,
    Sleep,
    Tally,
    run_together,
)
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.openers import open_service
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.verdicts.judge_requests import JudgeWork, share_places

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

    def work(
        ledger: MortalLedger, services: Mapping[str, MortalService], progress: Progress
    ) -> dict[str, Any]:
        places, budget = share_places(chosen.judges), chosen.budget

        def settle_part(part: JudgeWork, sleep: Sleep) -> Tally:
            while True:
                try:
                    return settle_once(part, sleep)
                except JudgeWaitingError as error:
                    progress.note(f"{error}; this is the next launch")

        def settle_once(part: JudgeWork, sleep: Sleep) -> Tally:
            session = JudgingSession(
                scope=part.scope,
                ledger=cast("JudgingLedger", ledger),
                service=cast("AsksDirectly", services[part.judge.service]),
                progress=progress,
                clock=Clock(sleep=sleep),
                terms=SettlementTerms(
                    waiting=part.judge.waiting,
                    grace_seconds=chosen.grace_seconds,
                    prewarms=True,
                    max_in_flight=part.judge.max_in_flight,
                    budget=budget,
                ),
                places=places[part.judge.door],
            )
            return settle_requests(session, part.requests)

        pieces = [Piece(part.scope.title, partial(settle_part, part)) for part in chosen.work]
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

    def work(
        ledger: MortalLedger, services: Mapping[str, MortalService], progress: Progress
    ) -> dict[str, Any]:
        (service,) = services.values()
        while True:
            report = recover_batches(
                planned,
                ledger=cast("RecoveryLedger", ledger),
                service=cast("TakesBatches", service),
                waiting=chosen.judges[0].waiting,
                progress=progress,
            )
            if not report.in_progress and not report.incomplete:
                return {"adopted": 0, "taken": len(report.taken)}
            time.sleep(_POLL_SECONDS)

    return _live(work, chosen, ledger_url, judge_url, number, Life(dies_at, Path(note)))


def _live(
    work: Callable[[MortalLedger, Mapping[str, MortalService], Progress], dict[str, Any]],
    scenario: Scenario,
    ledger_url: str,
    judge_url: str,
    number: int,
    life: Life,
) -> int:
    # A few requests are several batches, and a few rows several parts.
    submission.MAX_BATCH_REQUESTS = BATCH_REQUESTS
    harvesting.RESULTS_AT_ONCE = CHUNK_ROWS
    # The order of the results, and so that of the boundaries, follows from the nonces.
    secrets.token_hex = _NumberedNames(number).token_hex
    progress = Progress()
    try:
        with ExitStack() as stack:
            stack.enter_context(closing(life))
            ledger = stack.enter_context(closing(life.write("opening", Ledger, ledger_url)))
            services = {
                name: MortalService(stack.enter_context(connect(name, judge_url)), life)
                for name in scenario.services
            }
            mortal = MortalLedger(ledger, life, pause_seconds=scenario.pause_seconds)
            done = work(mortal, services, progress)
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
