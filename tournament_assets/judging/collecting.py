"""Waiting for batches to end, and harvesting each as soon as it has."""

from collections.abc import Sequence

from tournament_assets.judging.harvesting import harvest_batch, leave_unread
from tournament_assets.judging.records import VERDICTS, SubmittedBatch
from tournament_assets.judging.sessions import JudgingSession
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

_UNKNOWN_SECONDS = 600.0
"""So long after its creation a batch may be unknown to the service that accepted it."""


def collect_batches(session: JudgingSession, batches: Sequence[SubmittedBatch]) -> None:
    """Wait for some batches and harvest each one that ends.

    One that has ended and cannot be read until the deadline is left as it is, and not waited for.

    Raises:
        JudgeWaitingError: If one has not ended by the deadline; it stays open, and a later run
            takes it up.
        JudgeError: If one cannot be looked at or read.
    """
    left: list[SubmittedBatch] = []
    for batch in harvest_ended(session, batches, deadline_seconds=session.policy.deadline_seconds):
        if (unread := session.unread.get(batch.nonce)) is not None:
            leave_unread(session, batch, unread)
        else:
            left.append(batch)
    if left:
        names = ", ".join(batch.batch_id for batch in left)
        scope = session.scope
        sensor = ", or let the tournament's sensor do it" if scope.purpose == VERDICTS else ""
        raise JudgeWaitingError(
            f"{len(left)} of {len(batches)} batches on {scope.subject or scope.dimension} have not "
            f"ended after {session.policy.deadline_seconds:.0f} s ({names}); they are paid and "
            f"kept: run again later to collect the replies{sensor}"
        )


def harvest_ended(
    session: JudgingSession, batches: Sequence[SubmittedBatch], *, deadline_seconds: float
) -> list[SubmittedBatch]:
    """Harvest batches as they end, and return those that have not by the deadline."""
    waits = session.waits()
    left = list(batches)
    while True:
        left = [batch for batch in left if not _harvest_if_ended(session, batch)]
        remaining = deadline_seconds - waits.waited
        if not left or remaining <= 0:
            return left
        waits.sleep(at_most=remaining)


def _harvest_if_ended(session: JudgingSession, batch: SubmittedBatch) -> bool:
    try:
        status = session.service.get_batch(batch.batch_id)
        if not status.has_ended:
            return False
        harvest_batch(session, batch, status)
    except JudgeError as error:
        if error.failure is JudgeFailure.PASSING or _may_appear(session, batch, error):
            session.progress.note(f"{error}; looking again")
            return False
        if error.failure in (JudgeFailure.LOST, JudgeFailure.UNKNOWN):
            give_up(session, batch.nonce, error)
            return True
        raise
    return True


def _may_appear(session: JudgingSession, batch: SubmittedBatch, error: JudgeError) -> bool:
    age = (session.policy.now() - batch.begun_at).total_seconds()
    return error.failure is JudgeFailure.UNKNOWN and age < _UNKNOWN_SECONDS


def give_up(session: JudgingSession, nonce: str, error: JudgeError) -> None:
    """Close a batch whose results are out of reach, if its requests may be paid for again.

    Raises:
        JudgeError: If they may not; the batch stays open.
    """
    if not session.may_pay_again:
        raise JudgeError(
            f"{error}; the batch was paid and its replies are out of reach: check that "
            "ANTHROPIC_API_KEY belongs to the workspace that submitted it; to ask and pay for its "
            "requests again, run with --pay-again",
            failure=error.failure,
        )
    session.progress.note(f"{error}; its requests are asked again")
    session.ledger.record_closed(nonce, state="lost")
