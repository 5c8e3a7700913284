"""Asking requests one by one: dearer than a batch, answered at once, for what batches left over."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import islice

from tournament_assets.judging.harvesting import is_final, record_part
from tournament_assets.judging.records import DIRECT_AT_ONCE, OpenBatch
from tournament_assets.judging.requests import ModelRequest, custom_id
from tournament_assets.judging.service import ReplyRow, SubmittedRequest
from tournament_assets.judging.sessions import JudgingSession
from tournament_assets.judging.submission import wait_for_room, write_intent
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

_MAX_TRIES = 4
_RETRIED = frozenset({JudgeFailure.NOT_ACCEPTED, JudgeFailure.PASSING})
_LOST = "lost"
"""How a request ends whose reply, if there was one, never arrived: it may have been billed."""


def ask_directly(session: JudgingSession, requests: Sequence[ModelRequest], *, asking: int) -> None:
    """Send some requests one by one and write down each reply as it comes.

    No more go out at once than the budget has room for at their most. A reply that got lost on its
    way may have been paid for and cannot be had again: the protocol has no name for it. It counts
    as paid, and its request is asked again, a few times, as far as the budget goes.

    Raises:
        JudgeError: If the service refuses for a reason that the other requests share.
        BudgetError: If the budget has no room for the rest; every reply is in the ledger.
    """
    session.progress.note(f"asking {len(requests)} requests one by one")
    session.tally.direct += len(requests)
    session.tally.submitted += len(requests)
    waits = session.waits()
    for attempt in range(_MAX_TRIES):
        if attempt:
            waits.sleep()
        lost = _ask_in_slices(session, requests, asking=asking)
        if not lost:
            return
        requests = [request for request in requests if request.request_key in lost]


def _ask_in_slices(
    session: JudgingSession, requests: Sequence[ModelRequest], *, asking: int
) -> set[str]:
    """Ask as many at a time as may be paid for; return those whose reply may have got lost."""
    lost: set[str] = set()
    waits = session.waits()
    while requests:
        intent = write_intent(session, requests, asking=asking, channel="direct")
        if intent is None:
            wait_for_room(session, requests[0], "direct", waits)
            continue
        lost |= _ask_all(session, intent, requests[: intent.n_requests])
        requests = requests[intent.n_requests :]
        if requests:
            session.approve(requests, "direct")
            waits = session.waits()
    return lost


def _ask_all(
    session: JudgingSession, intent: OpenBatch, requests: Sequence[ModelRequest]
) -> set[str]:
    lost: set[str] = set()
    refused: JudgeError | None = None
    left = iter(requests)
    waiting: dict[Future[ReplyRow], str] = {}
    with ThreadPoolExecutor(DIRECT_AT_ONCE) as pool:
        while True:
            # However slow the ledger is, no more than these are paid for and not written down: so
            # many replies, at the most, are lost with the process.
            free = DIRECT_AT_ONCE - len(waiting) if refused is None else 0
            for request in islice(left, free):
                future = pool.submit(_ask_patiently, session, intent.nonce, request)
                waiting[future] = request.request_key
            if not waiting:
                break
            answered = next(as_completed(waiting))
            key = waiting.pop(answered)
            try:
                row = answered.result()
            except JudgeError as error:
                # Those under way are still waited for: their replies are being paid for.
                refused = refused or error
                continue
            if row.result_type == _LOST:
                lost.add(key)
            final, failed = ([(key, row)], []) if is_final(row) else ([], [(key, row)])
            record_part(session, intent.nonce, final=final, failed=failed)
    if refused is not None:
        session.ledger.record_closed(intent.nonce, state="refused")
        raise refused
    session.ledger.record_closed(intent.nonce, state="harvested")
    return lost


def _ask_patiently(session: JudgingSession, nonce: str, request: ModelRequest) -> ReplyRow:
    waits = session.waits()
    name = custom_id(nonce, request.request_key)
    for attempt in range(1, _MAX_TRIES + 1):
        try:
            return session.service.ask_directly(SubmittedRequest(name, request.params))
        except JudgeError as error:
            if error.failure in (JudgeFailure.INVALID, JudgeFailure.TOO_LARGE):
                return _failed_row(name, "invalid_request_error", error)
            if error.failure is JudgeFailure.AMBIGUOUS:
                return _failed_row(name, "api_error", error, result_type=_LOST)
            if error.failure not in _RETRIED:
                raise
            if attempt == _MAX_TRIES:
                return _failed_row(name, "api_error", error)
            waits.sleep(at_least=error.retry_after_seconds)
    raise AssertionError("unreachable")


def _failed_row(
    name: str, error_type: str, error: JudgeError, *, result_type: str = "errored"
) -> ReplyRow:
    return ReplyRow(name, result_type, None, None, error_type, str(error), None, None, "{}")
