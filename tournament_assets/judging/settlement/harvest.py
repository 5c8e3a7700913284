"""Waiting for batches to end, and reading each into the ledger without losing a row."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import cycle

from tournament_assets.foundation.errors import JudgeError, JudgeFailure, JudgeWaitingError
from tournament_assets.judging.batch_service import (
    UNPARSABLE,
    BatchStatus,
    Reply,
    ReplyRow,
    limit_rows,
)
from tournament_assets.judging.requests.requests import request_key_of
from tournament_assets.judging.service_errors import (
    CANCELLED,
    CAUSES,
    Cause,
    Remedy,
    cause_of,
    failures_of,
)
from tournament_assets.judging.settlement.records import SubmittedBatch
from tournament_assets.judging.settlement.sessions import (
    MAX_READINGS,
    JudgingSession,
    UnreadResults,
)

RESULTS_AT_ONCE = 500
"""How many results of a batch are read before they are kept."""
_CHARACTERS_AT_ONCE = 16_000_000
_LONGEST_NAME = 100  # characters of a foreign row's name
OUT_OF_REACH = failures_of(Remedy.WHEN_PERMITTED, may_be_billed=True)
"""How a call fails if results that were paid for cannot be had."""
UNPARSABLE_TIMES = 2
"""How often a request may come back in a line that is not JSON before it is given up."""


def is_final(row: Reply) -> bool:
    """Whether a row settles its request: a reply, or an error that would come again."""
    return row.result_type == "succeeded" or is_invalid(row)


def is_invalid(row: Reply) -> bool:
    """Whether a row is an error that would come again, whatever anybody does."""
    return cause_of(row.result_type, row.error_type).remedy is Remedy.NEVER


@dataclass(slots=True)
class _Harvest:
    """The outcome of all readings of a batch's results so far."""

    seen: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    result_types: Counter[str] = field(default_factory=Counter)
    errors: dict[Cause, list[str]] = field(default_factory=lambda: defaultdict(list))


def harvest_batch(session: JudgingSession, batch: SubmittedBatch, status: BatchStatus) -> None:
    """Read an ended batch's rows into the ledger and close it.

    Rows read before a stream broke are kept. A stream that ends early looks like a short one, so
    the rows are compared with the submitted requests, and the results are read again until every
    request has a row. A request without a row in several complete readings has failed if the
    service counts no result for it either; otherwise the batch is left open, as `leave_unread`
    says. A line that is not JSON in any reading counts as the result of a request without a row,
    which is asked again once.

    Raises:
        JudgeError: If the results cannot be read, or every request failed in a way that asking
            again cannot mend, or the service refused the batch as a whole.
    """
    if status.refusal is not None:
        _close_refused(session, batch, status.refusal)
        return
    keys = session.ledger.batch_keys(batch.nonce)
    harvest = _Harvest()
    waits = session.waits()
    reason = ""
    for reading in range(MAX_READINGS):
        if reading:
            session.progress.note(
                f"batch {batch.batch_id} gave {len(harvest.seen)} of {len(keys)} results "
                f"({reason}); reading them again"
            )
            waits.sleep()
        broken = _read_results(session, batch, keys, harvest)
        if harvest.seen == keys:
            break
        reason = str(broken) if broken is not None else "the results ended early"
    else:
        unread = UnreadResults(
            n_counted=_count_results(status, n_asked=len(keys)),
            missing=frozenset(keys - harvest.seen),
            failed=frozenset(harvest.failed),
            reason=reason,
        )
        if broken is not None:
            session.unread[batch.nonce] = unread
            raise broken
        if unread.n_counted > len(harvest.seen) + len(harvest.lines):
            leave_unread(session, batch, unread)
            return
        if harvest.lines:
            _record_unparsable(session, batch, sorted(unread.missing), harvest.lines)
        else:
            kind = CANCELLED if status.is_cancelled else "missing"
            _record_missing(session, batch, sorted(unread.missing), kind)
    if harvest.foreign:
        session.progress.note(
            f"batch {batch.batch_id} returned {len(harvest.foreign)} rows of requests that it was "
            "not given; they are not used"
        )
    session.ledger.record_closed(batch.nonce, state="harvested")
    if status.is_cancelled or CANCELLED in harvest.result_types:
        n_kept = len(harvest.seen - harvest.failed)
        session.cancelled[batch.batch_id] = (n_kept, len(keys) - n_kept)
    _stop_if_hopeless(session, batch, harvest)


def _count_results(status: BatchStatus, *, n_asked: int) -> int:
    if status.n_results is not None:
        return status.n_results
    # A service that counts nothing has not said that there is nothing more.
    return status.n_requests or n_asked


def _close_refused(session: JudgingSession, batch: SubmittedBatch, refusal: JudgeError) -> None:
    """Close a batch that was refused as a whole, unbilled; raise what would be refused again."""
    session.ledger.record_closed(batch.nonce, state="refused")
    if refusal.failure is not JudgeFailure.NOT_ACCEPTED:
        raise refusal
    session.progress.note(f"{refusal}; its requests are asked again")
    session.clock.sleep(session.terms.waiting.poll_max_seconds)


def leave_unread(session: JudgingSession, batch: SubmittedBatch, unread: UnreadResults) -> None:
    """Keep an ended batch with unread results open, and do not ask its requests again.

    They were paid for. Only with permission to pay again is the batch written off, once for the
    same requests, and they are asked again.
    """
    what = (
        f"batch {batch.batch_id} holds {unread.n_counted} results as the service counts them, and "
        f"none could be read for {len(unread.missing)} of its requests ({unread.reason})"
    )
    if session.terms.may_pay_again and session.paid_again.isdisjoint(unread.missing):
        session.paid_again.update(unread.missing)
        session.progress.note(f"{what}; these are asked and paid for again")
        session.ledger.record_closed(batch.nonce, state="lost")
        return
    session.tally.withheld |= unread.missing | unread.failed
    session.progress.note(
        f"{what}; these are paid, and nothing of the batch is asked again without --pay-again: run "
        "again later to read the rest, or rate what there is with --partial"
    )


def _read_results(
    session: JudgingSession, batch: SubmittedBatch, keys: set[str], harvest: _Harvest
) -> JudgeError | None:
    """Read as many results as possible; return why reading ended early, if that is known.

    Where a request has a reply and a failure, the reply counts: a failure that would be final waits
    for the end, and any other is written down at once and gives way.
    """
    results = session.batches.iterate_results(batch.batch_id)
    stream = limit_rows(results, len(keys), f"batch {batch.batch_id}")
    lines: list[str] = []
    final: dict[str, ReplyRow] = {}
    while True:
        part: list[tuple[str, ReplyRow]] = []
        size, is_over = 0, True
        broken: JudgeError | None = None
        try:
            for row in stream:
                if row.result_type == UNPARSABLE:
                    if len(lines) < len(keys):
                        lines.append(row.error_message or "")
                    continue
                key = request_key_of(row.custom_id, nonce=batch.nonce) or ""
                part.append((key, row))
                size += len(row.raw)
                if len(part) == RESULTS_AT_ONCE or size >= _CHARACTERS_AT_ONCE:
                    is_over = False
                    break
        except JudgeError as error:
            if error.failure is not JudgeFailure.TRANSIENT:
                raise
            broken = error
        unread = keys - harvest.seen
        unanswered = unread | harvest.failed
        replies: dict[str, ReplyRow] = {}
        failures: dict[str, ReplyRow] = {}
        for key, row in part:
            if row.result_type == "succeeded" and key in unanswered:
                replies.setdefault(key, row)
            elif key in unread:
                (final if is_invalid(row) else failures).setdefault(key, row)
        if len(harvest.foreign) < len(keys):
            names = (row.custom_id for key, row in part if key not in keys)
            harvest.foreign.update(name[:_LONGEST_NAME] for name in names)
        _record(session, batch.nonce, harvest, list((failures | replies).items()))
        if broken is not None or is_over:
            rest = [(key, row) for key, row in final.items() if key not in harvest.seen]
            if rest:
                _record(session, batch.nonce, harvest, rest)
            harvest.lines = max(harvest.lines, lines, key=len)
            return broken


def _record(
    session: JudgingSession,
    nonce: str,
    harvest: _Harvest,
    part: Sequence[tuple[str, ReplyRow]],
) -> None:
    for key, row in part:
        harvest.seen.add(key)
        harvest.result_types[row.result_type] += 1
        if not is_final(row):
            harvest.failed.add(key)
        elif key in harvest.failed:
            harvest.failed.remove(key)
            session.tally.failed -= 1
        if row.error_type is not None:
            cause = cause_of(row.result_type, row.error_type)
            harvest.errors[cause].append(f"{row.error_type}: {row.error_message}")
    record_part(session, nonce, part)


def record_part(session: JudgingSession, nonce: str, part: Sequence[tuple[str, ReplyRow]]) -> None:
    """Write down some rows, each with its request's key, and count them."""
    tally = session.tally
    final = [(key, row) for key, row in part if is_final(row)]
    failed = [(key, row) for key, row in part if not is_final(row)]
    with session.writing:
        if final:
            tally.paid_twice += session.ledger.record_rows(nonce, final)
        if failed:
            session.ledger.record_failures(nonce, failed)
        session.on_rows(part)
        for _, row in final:
            session.seen.add(row)
        tally.harvested += len(final)
        tally.failed += len(failed)
        tally.answered = min(tally.answered + len(final), tally.total)
        session.progress.advance(tally.answered, tally.total)


def _record_missing(
    session: JudgingSession, batch: SubmittedBatch, missing: list[str], result_type: str
) -> None:
    session.progress.note(
        f"batch {batch.batch_id} has ended without a result for {len(missing)} of its requests"
    )
    row = ReplyRow(result_type=result_type)
    session.ledger.record_failures(batch.nonce, [(key, row) for key in missing])
    session.tally.failed += len(missing)


def _record_unparsable(
    session: JudgingSession, batch: SubmittedBatch, missing: list[str], lines: Sequence[str]
) -> None:
    """Record the requests behind lines that are not JSON; withhold those already asked again."""
    session.progress.note(
        f"{len(lines)} lines of the results of batch {batch.batch_id} are not JSON (the first "
        f"begins {lines[0][:80]!r}), and {len(missing)} of its requests have no other line"
    )
    rows = [
        ReplyRow(result_type=UNPARSABLE, error_message=line)
        for _, line in zip(missing, cycle(lines), strict=False)
    ]
    session.ledger.record_failures(batch.nonce, list(zip(missing, rows, strict=True)))
    session.tally.failed += len(missing)
    session.tally.unparsable += len(missing)
    withhold_unparsable(session, set(missing))
    if not session.tally.withheld.issuperset(missing):
        session.progress.note("they are asked again once, and may be paid for twice")


def withhold_unparsable(session: JudgingSession, keys: AbstractSet[str]) -> None:
    """Keep requests that repeatedly came back as invalid JSON from being asked again."""
    hopeless = session.ledger.keys_failed(UNPARSABLE, times=UNPARSABLE_TIMES) & keys
    if hopeless:
        session.tally.withheld |= hopeless
        session.progress.note(
            f"{len(hopeless)} requests came back {UNPARSABLE_TIMES} times in a line that is not "
            "JSON; they are paid, and are not asked again without --pay-again: rate what there is "
            "with --partial"
        )


def _stop_if_hopeless(session: JudgingSession, batch: SubmittedBatch, harvest: _Harvest) -> None:
    for cause in CAUSES.values():
        errors = harvest.errors.get(cause)
        if errors and JudgeFailure.FATAL in cause.failures:
            raise JudgeError(
                f"{len(errors)} requests of batch {batch.batch_id} failed with {errors[0]}; "
                f"{cause.action}, and run again: what was answered is kept, and they are asked "
                "again",
                failure=JudgeFailure.FATAL,
            )
    final = (kind for kind in harvest.errors if kind.remedy is Remedy.NEVER)
    invalid = [each for kind in final for each in harvest.errors[kind]]
    if invalid and len(invalid) == harvest.result_types.total() == session.tally.harvested:
        raise JudgeError(
            f"the service refused every request of batch {batch.batch_id} as invalid: {invalid[0]};"
            f" nothing more is sent; {session.terms.remedy}",
            failure=JudgeFailure.INVALID,
        )


_UNKNOWN_SECONDS = 600.0
"""How long after its creation the service may not know a batch that it accepted."""


def collect_batches(session: JudgingSession, batches: Sequence[SubmittedBatch]) -> None:
    """Wait for some batches and harvest each one that ends.

    A batch that has ended but cannot be read by the deadline is left as it is.

    Raises:
        JudgeError: If one cannot be looked at or read. If somebody cancelled one at the service,
            the others were waited for.
        JudgeWaitingError: If one has not ended by the deadline; it stays open, and a later run
            takes it up.
    """
    late: list[SubmittedBatch] = []
    deadline = session.terms.waiting.deadline_seconds
    for batch in harvest_ended(session, batches, deadline_seconds=deadline):
        if (unread := session.unread.get(batch.nonce)) is not None:
            leave_unread(session, batch, unread)
        else:
            late.append(batch)
    session.stop_if_cancelled()
    if late:
        names = ", ".join(batch.batch_id for batch in late)
        scope = session.scope
        sensor = ", or let the tournament's sensor do it" if scope.is_of_verdicts else ""
        raise JudgeWaitingError(
            f"{len(late)} of {len(batches)} batches on {scope.subject or scope.dimension} have not "
            f"ended after {deadline:.0f} s ({names}); they are paid and "
            f"kept: run again later to collect the replies{sensor}"
        )


def harvest_ended(
    session: JudgingSession, batches: Sequence[SubmittedBatch], *, deadline_seconds: float
) -> list[SubmittedBatch]:
    """Harvest batches as they end, and return those that have not ended by the deadline."""
    waits = session.waits()
    pending = list(batches)
    while True:
        pending = [batch for batch in pending if not _harvest_if_ended(session, batch)]
        remaining = deadline_seconds - waits.waited
        if not pending or remaining <= 0:
            return pending
        session.progress.note(f"waiting for {len(pending)} batches")
        waits.sleep(at_most=remaining)


def _harvest_if_ended(session: JudgingSession, batch: SubmittedBatch) -> bool:
    try:
        status = session.batches.get_batch(batch.batch_id)
        if not status.has_ended:
            return False
        harvest_batch(session, batch, status)
    except JudgeError as error:
        if error.failure is JudgeFailure.TRANSIENT or _may_appear(session, batch, error):
            session.progress.note(f"{error}; looking again")
            return False
        if error.failure in OUT_OF_REACH:
            give_up(session, batch.nonce, error)
            return True
        raise
    return True


def _may_appear(session: JudgingSession, batch: SubmittedBatch, error: JudgeError) -> bool:
    age = (session.clock.now() - batch.begun_at).total_seconds()
    return error.failure is JudgeFailure.UNKNOWN and age < _UNKNOWN_SECONDS


def give_up(session: JudgingSession, nonce: str, error: JudgeError) -> None:
    """Close a batch whose results are out of reach, if its requests may be paid for again.

    Raises:
        JudgeError: If they may not; the batch stays open.
    """
    if not session.terms.may_pay_again:
        raise JudgeError(
            f"{error}; the batch was paid and its replies are out of reach: "
            f"{CAUSES['out of reach'].action}; to ask and pay for its "
            "requests again, run with --pay-again",
            failure=error.failure,
        )
    session.progress.note(f"{error}; its requests are asked again")
    session.ledger.record_closed(nonce, state="lost")
