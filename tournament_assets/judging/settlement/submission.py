"""Sending requests as batches: cut to size, recorded first, each accepted at most once.

A batch whose creation was never confirmed is looked for, so that it is not paid for twice. If the
service stores our own name with a batch, its list settles that, whatever time it says. Others list
batches without saying whose they are; only the results of an ended one carry the names that we gave
its requests. So a batch of the right size and time is waited for, and taken for ours if its rows
carry our nonce. A batch missing from the list for longer than the grace period is taken for never
accepted: the protocol offers no more certainty.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

import numpy as np

from tournament_assets.foundation.errors import JudgeError, JudgeFailure, JudgeWaitingError
from tournament_assets.judging.batch_service import (
    UNPARSABLE,
    BatchStatus,
    Channel,
    ReplyRow,
    SubmittedRequest,
    TakesBatches,
)
from tournament_assets.judging.requests.columns import ModelRequest, Selection, keys_of
from tournament_assets.judging.requests.requests import (
    NONCE_LENGTH,
    custom_id,
    effort_of,
    request_key_of,
)
from tournament_assets.judging.settlement.harvest import record_part
from tournament_assets.judging.settlement.records import (
    BatchIntent,
    OpenBatch,
    SubmittedBatch,
)
from tournament_assets.judging.settlement.sessions import JudgingSession, Waits

_CLOCK_SKEW = timedelta(minutes=5)
_ROWS_THAT_PROVE = 20
KEPT_FOR = timedelta(days=29)
"""How long the service keeps a batch's results."""
_OLD_IN_A_ROW = 150  # more than a page: pages may come in any order


def list_since(
    service: TakesBatches, oldest: datetime, *, nonce: str = ""
) -> Iterator[BatchStatus]:
    """Yield the batches that a service lists since a moment, in the list's order.

    The newest should come first. The list is read on until `_OLD_IN_A_ROW` are too old, each
    older than the one before: so no batch is missed in a list that is in another order.

    Args:
        nonce: Our own name for one that is yielded whatever its time.
    """
    n_old, before = 0, oldest
    for listing in service.list_batches():
        created_at = listing.created_at or oldest
        if created_at >= oldest or (nonce and listing.nonce == nonce):
            yield listing
        n_old = n_old + 1 if created_at < oldest and created_at <= before else 0
        if n_old == _OLD_IN_A_ROW:
            return
        before = created_at


def adopt_batch(
    session: JudgingSession, intent: OpenBatch, *, looks_once: bool = False
) -> SubmittedBatch | None:
    """Look for the batch of an intent, and record its name if it exists.

    Args:
        looks_once: Whether a list without it settles that it was never accepted: the service said
            that it had no room.

    Returns:
        The batch, or None if the service, as far as can be known, never accepted it.

    Raises:
        JudgeWaitingError: If a batch that may be it has not ended by the deadline; the intent
            stays.
        JudgeError: If the service cannot be asked, or the results that would prove it are lost.
    """
    session.progress.note(
        f"the creation of batch {intent.nonce} ({intent.n_requests} requests) was not confirmed; "
        "looking for it"
    )
    could_last_arrive = min(
        session.clock.now(), intent.begun_at + timedelta(seconds=session.terms.creation_seconds)
    )
    certain_at = could_last_arrive + timedelta(seconds=session.terms.grace_seconds)
    if looks_once:
        certain_at = intent.begun_at
    disproved: set[str] = set()
    waits = session.waits()
    while True:
        undecided: list[str] = []
        # Taken before the look: a batch may show up between the look and the clock.
        looked_at = session.clock.now()
        problem = ""
        try:
            for listing in _candidates(session, intent, disproved):
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
        except JudgeError as error:
            if error.failure is not JudgeFailure.TRANSIENT:
                raise
            problem = str(error)
            session.progress.note(f"{error}; looking again")
        else:
            if not undecided and looked_at >= certain_at:
                return None
        if waits.waited >= max(session.terms.waiting.deadline_seconds, session.terms.grace_seconds):
            raise JudgeWaitingError(
                f"the creation of batch {intent.nonce} was not confirmed, and it is not known yet "
                f"whether it is one of {undecided or 'the batches the service would list'}; "
                f"{f'{problem}; ' if problem else ''}nothing is submitted again until it is: run "
                "again later"
            )
        waits.sleep()


def _candidates(
    session: JudgingSession, intent: OpenBatch, disproved: set[str]
) -> Iterator[BatchStatus]:
    """Yield the batches that may be the one: of its size and time, and not known already."""
    earliest = intent.begun_at - _CLOCK_SKEW
    latest = intent.begun_at + timedelta(seconds=session.terms.creation_seconds) + _CLOCK_SKEW
    oldest = min(earliest, session.clock.now() - KEPT_FOR)
    for listing in list_since(session.batches, oldest, nonce=intent.nonce):
        if listing.nonce:
            if listing.nonce == intent.nonce:
                yield listing
                return
        elif (
            listing.nonce is None
            and listing.n_requests == intent.n_requests
            and listing.batch_id not in disproved
            and (listing.created_at is None or earliest <= listing.created_at <= latest)
            and not session.ledger.known_batch_ids({listing.batch_id})
        ):
            yield listing


def _is_ours(session: JudgingSession, intent: OpenBatch, listing: BatchStatus) -> bool | None:
    """Whether one of the first rows carries a name that we gave; None if not known yet.

    A service that stores our own name with a batch has answered already.
    """
    if listing.nonce is not None:
        return listing.nonce == intent.nonce
    if not listing.has_ended:
        return None
    is_empty = True
    try:
        for row in islice(session.batches.iterate_results(listing.batch_id), _ROWS_THAT_PROVE):
            if request_key_of(row.custom_id, nonce=intent.nonce) is not None:
                return True
            if row.result_type != UNPARSABLE:
                is_empty = False
            elif intent.nonce in (row.error_message or ""):
                return True
    except JudgeError as error:
        # A batch may be listed before it is known everywhere.
        if error.failure not in (JudgeFailure.TRANSIENT, JudgeFailure.UNKNOWN):
            raise
        session.progress.note(f"{error}; looking again")
        return None
    # A broken stream can look like a complete one: the absence of rows disproves nothing.
    return None if is_empty else False


MAX_BATCH_REQUESTS = 100_000
MAX_BATCH_BYTES = 250_000_000  # the provider's limit is 256 MB; the rest is for the envelope
_MAX_UNCONFIRMED = 3


@dataclass(frozen=True, slots=True)
class Created:
    """The outcome of sending some requests.

    Attributes:
        n_requests: How many of them, from the first on, are settled or in a batch; the budget has
            no room for the others now.
    """

    batches: list[SubmittedBatch]
    n_requests: int


def cut_batch(
    requests: Selection, *, max_requests: int | None = None, max_bytes: int | None = None
) -> Selection:
    """Return as many requests, from the first on, as the provider accepts as one batch.

    Args:
        max_requests: The most requests of one batch, where the provider takes less than usual.
        max_bytes: The most bytes of one batch, likewise.
    """
    most = min(MAX_BATCH_REQUESTS, max_requests or MAX_BATCH_REQUESTS)
    most_bytes = min(MAX_BATCH_BYTES, max_bytes or MAX_BATCH_BYTES)
    part = requests[:most]
    n_fitting = int(np.searchsorted(part.columns.sizes.cumsum(), most_bytes, side="right"))
    # One that is larger than a batch may be is left to the provider to refuse.
    return part[: max(1, n_fitting)]


def create_batches(
    session: JudgingSession, requests: Sequence[ModelRequest], *, attempt: int
) -> Created:
    """Submit some requests as one batch, or as several if the service finds it too large.

    No request goes out unless the budget has room for it and for everything under way, each at the
    most it may cost.

    Raises:
        JudgeError: If the service refuses. A batch that it may have accepted is looked for first,
            so that it is not submitted twice.
    """
    waits = session.waits()
    unconfirmed = 0
    while True:
        intent = write_intent(session, requests, attempt=attempt, channel="batch")
        if intent is None:
            return Created([], 0)
        requests = requests[: intent.n_requests]
        try:
            status = session.batches.create_batch(_named(intent.nonce, requests))
        except JudgeError as error:
            is_overloaded = error.failure is JudgeFailure.OVERLOADED
            if is_overloaded or error.failure is JudgeFailure.AMBIGUOUS:
                session.progress.note(str(error))
                adopted = adopt_batch(session, intent, looks_once=is_overloaded)
                if adopted is not None:
                    _count(session, adopted, len(requests))
                    return Created([adopted], len(requests))
                session.ledger.record_closed(intent.nonce, state="abandoned")
                session.tally.abandoned += len(requests)
                if not is_overloaded:
                    unconfirmed += 1
                    if unconfirmed == _MAX_UNCONFIRMED:
                        raise
                    continue
            else:
                session.ledger.record_closed(intent.nonce, state="refused")
            if error.failure is JudgeFailure.TOO_LARGE:
                return _submit_halves(session, intent, requests, attempt=attempt, error=error)
            remaining = session.terms.waiting.deadline_seconds - waits.waited
            may_be_sent = is_overloaded or error.failure is JudgeFailure.NOT_ACCEPTED
            if not may_be_sent or remaining <= 0:
                raise
            session.progress.note(f"{error}; trying again")
            waits.sleep(at_least=error.retry_after_seconds, at_most=remaining)
        else:
            session.ledger.record_created(intent.nonce, status.batch_id)
            batch = SubmittedBatch(intent.nonce, status.batch_id, intent.begun_at)
            _count(session, batch, len(requests))
            return Created([batch], len(requests))


def write_intent(
    session: JudgingSession, requests: Sequence[ModelRequest], *, attempt: int, channel: Channel
) -> OpenBatch | None:
    """Record what is about to be sent, under a fresh name.

    Returns:
        The recorded intent: as many of the requests, from the first on, as the budget has room for
        at the most they may cost; None if it has room for none.
    """
    nonce, begun_at = secrets.token_hex(NONCE_LENGTH // 2), session.clock.now()
    model = requests[0].params["model"]
    terms = session.terms.budget
    most = session.most_usd(requests, channel)
    intent = BatchIntent(
        nonce=nonce,
        judge_model=model,
        attempt=attempt,
        channel=channel,
        begun_at=begun_at,
        request_keys=list(keys_of(requests)),
        most_usd=None if most is None else most.tolist(),
        rates=None if terms is None else terms.prices.rates(model, channel=channel),
        at_once=session.terms.max_in_flight,
        effort=effort_of(requests[0].params),
    )
    n_requests = session.approval.commit(
        requests, lambda: session.ledger.record_intent(session.lease, intent, terms)
    )
    return OpenBatch(nonce, None, n_requests, begun_at, channel, model) if n_requests else None


def wait_for_room(
    session: JudgingSession, request: ModelRequest, channel: Channel, waits: Waits
) -> None:
    """Wait once for other runs, whose requests under way hold the rest of the budget.

    Raises:
        BudgetError: If nothing under way could free some of the budget.
        JudgeWaitingError: If the cost of the others does not become known in time.
    """
    terms = session.terms.budget
    budget = None if terms is None else session.ledger.draw_up_budget(terms)
    if terms is None or budget is None:
        return
    dollars = session.most_usd([request], channel)
    most = None if dollars is None else float(dollars[0])
    model, cap = request.params["model"], request.params["max_tokens"]
    what = f"the next request of {model}, at max_tokens {cap:,},"
    # Nobody else will read what the service withholds from this very run.
    ours = {session.scope.holder} if session.tally.withheld else set[str]()
    enough = session.approval.enough_usd() + (most or 0.0)
    if ours >= set(budget.waiting_for):
        budget.check(most, what=what, model=model, enough_usd=enough)
        return
    patience = session.terms.waiting.deadline_seconds
    if not budget.is_at_work:
        # The sender may have paused; if nobody resumes it, the wait ends.
        patience = min(patience, session.terms.grace_seconds)
    problem = budget.problem(most, what=what, model=model, enough_usd=enough)
    if problem is None:
        return
    others = ", ".join(budget.waiting_for)
    remaining = patience - waits.waited
    if remaining <= 0:
        raise JudgeWaitingError(
            f"{problem}; {others} is under way, and what it does not spend of its reserve is free "
            "again once its replies are collected; run again then"
        )
    session.progress.note(f"{others} holds the rest of the budget at max_tokens; waiting")
    waits.sleep(at_most=remaining)


def _named(nonce: str, requests: Iterable[ModelRequest]) -> Iterator[SubmittedRequest]:
    return (
        SubmittedRequest(custom_id(nonce, request.request_key), request.params)
        for request in requests
    )


def _count(session: JudgingSession, batch: SubmittedBatch, n_requests: int) -> None:
    session.tally.batches += 1
    session.tally.submitted += n_requests
    session.progress.note(f"submitted batch {batch.batch_id} with {n_requests} requests")


def _submit_halves(
    session: JudgingSession,
    intent: OpenBatch,
    requests: Sequence[ModelRequest],
    *,
    attempt: int,
    error: JudgeError,
) -> Created:
    if len(requests) == 1:
        row = ReplyRow(
            custom_id=custom_id(intent.nonce, requests[0].request_key),
            result_type="errored",
            error_type="request_too_large",
            error_message=str(error),
        )
        record_part(session, intent.nonce, [(requests[0].request_key, row)])
        return Created([], 1)
    session.progress.note(
        f"a batch of {len(requests)} requests is too large for the service; sending two halves"
    )
    middle = len(requests) // 2
    first = create_batches(session, requests[:middle], attempt=attempt)
    if first.n_requests < middle:
        return first
    second = create_batches(session, requests[middle:], attempt=attempt)
    return Created(first.batches + second.batches, middle + second.n_requests)
