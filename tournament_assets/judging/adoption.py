"""Finding a batch whose creation was never confirmed, so that it is not paid for twice.

The service lists batches without saying whose they are; only the results of an ended one carry
the names that we gave its requests. So a batch of the right size and time is waited for, and
taken for ours if its rows carry our nonce. A batch that stays out of the list longer than the
grace period is taken for never accepted: that is where the protocol's certainty ends.
"""

from datetime import timedelta
from itertools import islice

from tournament_assets.judging.records import OpenBatch, SubmittedBatch
from tournament_assets.judging.requests import request_key_of
from tournament_assets.judging.service import UNPARSABLE, BatchListing
from tournament_assets.judging.sessions import JudgingSession
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

_CLOCK_SKEW = timedelta(minutes=5)
_ROWS_THAT_PROVE = 20


def adopt_batch(session: JudgingSession, intent: OpenBatch) -> SubmittedBatch | None:
    """Look for the batch of an intent, and write its name down if it exists.

    Returns:
        The batch, or None if the service never accepted it, as far as can be known.

    Raises:
        JudgeWaitingError: If a batch that may be it has not ended by the deadline; the intent
            stays.
        JudgeError: If the service cannot be asked, or the results that would prove it are lost.
    """
    policy = session.policy
    session.progress.note(
        f"the creation of batch {intent.nonce} ({intent.n_requests} requests) was not confirmed; "
        "looking for it"
    )
    could_last_arrive = min(
        policy.now(), intent.begun_at + timedelta(seconds=policy.creation_seconds)
    )
    certain_at = could_last_arrive + timedelta(seconds=policy.adopt_grace_seconds)
    disproved: set[str] = set()
    waits = session.waits()
    while True:
        undecided: list[str] = []
        # Taken before the look: a batch may show up between the look and the clock.
        looked_at = policy.now()
        try:
            candidates = _candidates(session, intent, disproved)
        except JudgeError as error:
            if error.failure is not JudgeFailure.PASSING:
                raise
            session.progress.note(f"{error}; looking again")
        else:
            for listing in candidates:
                is_ours = _is_ours(session, intent, listing)
                if is_ours:
                    session.ledger.record_created(intent.nonce, listing.batch_id)
                    session.progress.note(f"found it: batch {listing.batch_id}")
                    session.tally.adopted += 1
                    return SubmittedBatch(intent.nonce, listing.batch_id, intent.begun_at)
                if is_ours is None:
                    undecided.append(listing.batch_id)
                else:
                    disproved.add(listing.batch_id)
            if not undecided and looked_at >= certain_at:
                return None
        if waits.waited >= max(policy.deadline_seconds, policy.adopt_grace_seconds):
            raise JudgeWaitingError(
                f"the creation of batch {intent.nonce} was not confirmed, and it cannot be told "
                f"yet whether one of {undecided or 'the batches the service would list'} is it; "
                "nothing is submitted again until it can: run again later"
            )
        waits.sleep()


def _candidates(
    session: JudgingSession, intent: OpenBatch, disproved: set[str]
) -> list[BatchListing]:
    """Return the batches that may be the one: of its size and time, and not known as another."""
    earliest = intent.begun_at - _CLOCK_SKEW
    latest = intent.begun_at + timedelta(seconds=session.policy.creation_seconds) + _CLOCK_SKEW
    found: list[BatchListing] = []
    for listing in session.service.list_batches():
        if listing.created_at is not None and listing.created_at < earliest:
            break
        if (
            listing.n_requests == intent.n_requests
            and listing.batch_id not in disproved
            and (listing.created_at is None or listing.created_at <= latest)
        ):
            found.append(listing)
    known = session.ledger.known_batch_ids({listing.batch_id for listing in found})
    return [listing for listing in found if listing.batch_id not in known]


def _is_ours(session: JudgingSession, intent: OpenBatch, listing: BatchListing) -> bool | None:
    """Whether one of the first rows carries a name that we gave; None if it cannot be told yet."""
    if not listing.has_ended:
        return None
    is_empty = True
    try:
        for row in islice(session.service.iterate_results(listing.batch_id), _ROWS_THAT_PROVE):
            if request_key_of(row.custom_id, nonce=intent.nonce) is not None:
                return True
            if row.result_type != UNPARSABLE:
                is_empty = False
            elif intent.nonce in (row.error_message or ""):
                return True
    except JudgeError as error:
        # A batch may be listed before it is known everywhere.
        if error.failure not in (JudgeFailure.PASSING, JudgeFailure.UNKNOWN):
            raise
        session.progress.note(f"{error}; looking again")
        return None
    # A stream that breaks off can look like one that is over: no row at all disproves nothing.
    return None if is_empty else False
