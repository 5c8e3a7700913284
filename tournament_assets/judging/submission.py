"""Sending requests as batches: cut to size, written down first, each accepted at most once."""

import secrets
from collections.abc import Iterable, Iterator, Sequence

from tournament_assets.judging.adoption import adopt_batch
from tournament_assets.judging.harvesting import record_part
from tournament_assets.judging.records import BatchIntent, OpenBatch, SubmittedBatch
from tournament_assets.judging.requests import ModelRequest, custom_id, serialised_size
from tournament_assets.judging.service import Channel, ReplyRow, SubmittedRequest
from tournament_assets.judging.sessions import JudgingSession
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

MAX_BATCH_REQUESTS = 100_000
MAX_BATCH_BYTES = 250_000_000  # the provider's limit is 256 MB; the rest is for the envelope
_MAX_UNCONFIRMED = 3


def cut_batches(requests: Iterable[ModelRequest]) -> Iterator[list[ModelRequest]]:
    """Cut a list of requests into batches that the provider accepts."""
    batch: list[ModelRequest] = []
    size = 0
    for request in requests:
        bytes_needed = serialised_size(request)
        if batch and (len(batch) == MAX_BATCH_REQUESTS or size + bytes_needed > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += bytes_needed
    if batch:
        yield batch


def create_batches(
    session: JudgingSession, requests: Sequence[ModelRequest], *, asking: int
) -> list[SubmittedBatch]:
    """Submit some requests as one batch, or as several if the service finds it too large.

    Raises:
        JudgeError: If the service refuses. What it may have accepted is looked for first, so
            that no batch is submitted again that exists.
    """
    waits = session.waits()
    unconfirmed = 0
    while True:
        intent = write_intent(session, requests, asking=asking, channel="batch")
        try:
            status = session.service.create_batch(_named(intent.nonce, requests))
        except JudgeError as error:
            if error.failure is JudgeFailure.AMBIGUOUS:
                session.progress.note(str(error))
                unconfirmed += 1
                adopted = adopt_batch(session, intent)
                if adopted is not None:
                    _count(session, adopted, len(requests))
                    return [adopted]
                session.ledger.record_closed(intent.nonce, state="abandoned")
                session.tally.abandoned += len(requests)
                if unconfirmed == _MAX_UNCONFIRMED:
                    raise
                continue
            session.ledger.record_closed(intent.nonce, state="refused")
            if error.failure is JudgeFailure.TOO_LARGE:
                return _submit_halves(session, intent, requests, asking=asking, error=error)
            remaining = session.policy.deadline_seconds - waits.waited
            if error.failure is not JudgeFailure.NOT_ACCEPTED or remaining <= 0:
                raise
            session.progress.note(f"{error}; trying again")
            waits.sleep(at_least=error.retry_after_seconds, at_most=remaining)
        else:
            session.ledger.record_created(intent.nonce, status.batch_id)
            batch = SubmittedBatch(intent.nonce, status.batch_id, intent.begun_at)
            _count(session, batch, len(requests))
            return [batch]


def write_intent(
    session: JudgingSession, requests: Sequence[ModelRequest], *, asking: int, channel: Channel
) -> OpenBatch:
    """Write down what is about to be sent, under a fresh name."""
    nonce = secrets.token_hex(6)
    model = requests[0].params["model"]
    begun_at = session.policy.now()
    session.ledger.record_intent(
        session.lease,
        BatchIntent(
            nonce=nonce,
            judge_model=model,
            asking=asking,
            channel=channel,
            begun_at=begun_at,
            request_keys=[request.request_key for request in requests],
        ),
    )
    return OpenBatch(nonce, None, len(requests), begun_at, channel, model)


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
    asking: int,
    error: JudgeError,
) -> list[SubmittedBatch]:
    if len(requests) == 1:
        row = ReplyRow(
            custom_id=custom_id(intent.nonce, requests[0].request_key),
            result_type="errored",
            text=None,
            stop_reason=None,
            error_type="request_too_large",
            error_message=str(error),
            model=None,
            usage=None,
            raw="{}",
        )
        record_part(session, intent.nonce, final=[(requests[0].request_key, row)], failed=[])
        return []
    session.progress.note(
        f"a batch of {len(requests)} requests is too large for the service; sending two halves"
    )
    middle = len(requests) // 2
    return [
        *create_batches(session, requests[:middle], asking=asking),
        *create_batches(session, requests[middle:], asking=asking),
    ]
