"""Which presentations the judge was asked about in vain."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tournament_assets.assets.holdings import existing_requests
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.infrastructure import FailureClass
from tournament_assets.judging.records import JudgingScope
from tournament_assets.judging.rejudging import find_failed_requests
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


@dataclass(frozen=True, slots=True)
class FailedPresentation:
    """A presentation that was asked about and has no verdict.

    Attributes:
        dimension: The quality being judged.
        prompt_id: The prompt both entrants answered.
        entrant_a: The pair's first entrant.
        entrant_b: The pair's second entrant.
        presentation: `ab` or `ba`.
        failure: Why there is no verdict.
    """

    dimension: str
    prompt_id: str
    entrant_a: str
    entrant_b: str
    presentation: str
    failure: FailureClass


def find_failed_presentations(
    plan: TournamentPlan, mode: Mode, *, ledger: "Ledger", judge_model: str | None = None
) -> list[FailedPresentation]:
    """Return what could be judged again, in the order of the dimensions and pairs; ask nothing.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
    """
    found: list[FailedPresentation] = []
    requests = existing_requests(plan, mode, ledger=ledger, judge_model=judge_model)
    for dimension, of_dimension in requests.items():
        failed = find_failed_requests(
            (request.request_key for request in of_dimension),
            scope=JudgingScope(plan.tournament_id, mode, dimension),
            ledger=ledger,
            reply_format=plan.config.judge.reply_format,
        )
        found.extend(
            FailedPresentation(
                dimension=dimension,
                prompt_id=request.prompt_id,
                entrant_a=request.entrant_a,
                entrant_b=request.entrant_b,
                presentation=request.presentation.value,
                failure=failed[request.request_key].failure,
            )
            for request in of_dimension
            if request.request_key in failed
        )
    return found
