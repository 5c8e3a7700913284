"""Recovering replies: asking failed requests again, and taking back forgotten paid batches.

Requests that failed because of the judge are asked again one by one, and answered at once.

A database that was emptied, or lost its write-ahead log, has no record of batches whose results the
service keeps for 29 days. Every request in them carries its key in its name, so its reply can be
assigned without a record of the request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Protocol

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.judging.batch_service import (
    UNPARSABLE,
    AsksDirectly,
    BatchStatus,
    ReplyRow,
    TakesBatches,
    takes_batches,
)
from tournament_assets.judging.requests.columns import KeyPositions, Selection
from tournament_assets.judging.requests.requests import JudgeRequest, read_custom_id
from tournament_assets.judging.requests.verdict_parsing import (
    FailureClass,
    ReplyFormat,
    classify_reply,
)
from tournament_assets.judging.settlement import harvest
from tournament_assets.judging.settlement.account import is_unreadable
from tournament_assets.judging.settlement.harvest import OUT_OF_REACH, is_final
from tournament_assets.judging.settlement.records import (
    JudgingLedger,
    JudgingScope,
    OpenBatch,
    SubmittedBatch,
)
from tournament_assets.judging.settlement.sessions import (
    MAX_READINGS,
    SYSTEM_CLOCK,
    Clock,
    JudgingProgress,
    JudgingSession,
    Tally,
    Waits,
    hold_lease,
)
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.judging.settlement.submission import KEPT_FOR, list_since
from tournament_assets.tournament.judges import Waiting

_PAGE = 100
_ROWS_THAT_PROVE = 20
_LOOKED_INTO = 20
"""How many unknown batches are examined before sending: a workspace may hold thousands."""
_OFF = "abandoned"
_FORGOTTEN = frozenset({"", _OFF, "recovering"})
"""States of a batch whose replies can be taken back; empty means unknown."""


class RecoveryLedger(JudgingLedger, Protocol):
    """Where replies are put back."""

    def batch_states(
        self, *, batch_ids: AbstractSet[str] = frozenset(), nonces: AbstractSet[str] = frozenset()
    ) -> dict[str, str]:
        """Return the states of batches, by the provider's name or by our own."""

    def open_scopes(self, tournament_id: str) -> dict[JudgingScope, list[OpenBatch]]:
        """Return a tournament's batches that were begun and not closed, by scope."""

    def begin_recovery(
        self, scope: JudgingScope, batch: SubmittedBatch, *, model: str, attempt: int, size: int
    ) -> None:
        """Write down a batch that was paid and forgotten."""

    def record_rows(
        self,
        nonce: str,
        final: Sequence[tuple[str, ReplyRow]],
        *,
        received_at: datetime | None = None,
    ) -> int:
        """Keep final replies; return how many had been paid for before, in another batch."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The scope, model and reply format of a request that may have been paid for.

    Attributes:
        scope: Whose work it is.
        model: The model that is asked.
        reply_format: How a verdict is written; None where a reply is no verdict.
    """

    scope: JudgingScope
    model: str
    reply_format: ReplyFormat | None


@dataclass(frozen=True, slots=True)
class ForgottenBatches:
    """Batches that the service holds and the ledger does not know.

    Attributes:
        paid: Those that answer requests which are about to be sent.
        alike: Those that may be ours: their requests are named like ours, or they have not ended
            and hold as many requests as are about to be sent.
    """

    paid: Sequence[str]
    alike: Sequence[str]


@dataclass(slots=True)
class RecoveryReport:
    """The result of looking for forgotten batches.

    Attributes:
        taken: The batches whose replies are now in the ledger.
        replies: Replies that the ledger did not hold.
        paid_twice: Replies to requests that another batch has answered.
        without_reply: Requests of these batches that have none.
        incomplete: Batches with rows that could not be read; look again later.
        in_progress: Batches that have not ended, whose owner cannot be known yet.
        unplanned: Batches named like ours, none of whose requests is planned now.
        foreign: Batches of somebody else.
        gone: Batches whose results the service does not show.
    """

    taken: list[str] = field(default_factory=list)
    replies: int = 0
    paid_twice: int = 0
    without_reply: int = 0
    incomplete: list[str] = field(default_factory=list)
    in_progress: list[str] = field(default_factory=list)
    unplanned: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def add(self, other: "RecoveryReport") -> None:
        """Add the result of looking at another service."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def find_forgotten(
    unanswered: AbstractSet[str],
    *,
    ledger: RecoveryLedger,
    service: TakesBatches,
    now: datetime,
) -> ForgottenBatches:
    """Look whether requests that are about to be sent were paid for and forgotten.

    Among the newest hundred batches at most 20 unknown ones are examined, a few rows each; nothing
    is written.

    Raises:
        JudgeError: If the service cannot be asked.
    """
    paid: list[str] = []
    alike: list[str] = []
    unknown = _unknown_batches(ledger, service, now, one_page=True)
    for listing in islice(unknown, _LOOKED_INTO):
        if listing.nonce == "":
            continue
        named = _first_names(listing, service)
        if named is None:
            if _is_alike(listing, len(unanswered), ledger):
                alike.append(listing.batch_id)
            continue
        states = ledger.batch_states(nonces={nonce for nonce, _ in named})
        # One that is being sent or waited for is looked for by its own run.
        forgotten = [each for each in named if states.get(each[0], "") in _FORGOTTEN]
        # What was written off stays so; that it exists after all is only reported.
        if any(key in unanswered and states.get(nonce) != _OFF for nonce, key in forgotten):
            paid.append(listing.batch_id)
        elif forgotten:
            alike.append(listing.batch_id)
    return ForgottenBatches(paid, alike)


def _first_names(listing: BatchStatus, service: TakesBatches) -> list[tuple[str, str]] | None:
    """Return nonce and key of a batch's first requests of ours; None if it is too early to say.

    Of results that are out of reach for good there is nothing to take back.
    """
    if not listing.has_ended:
        return None
    try:
        rows = islice(service.iterate_results(listing.batch_id), _ROWS_THAT_PROVE)
        return [name for row in rows if (name := read_custom_id(row.custom_id)) is not None]
    except JudgeError as error:
        if error.failure is JudgeFailure.TRANSIENT:
            return None
        if error.failure in OUT_OF_REACH:
            return []
        raise


def _is_alike(listing: BatchStatus, n_unanswered: int, ledger: RecoveryLedger) -> bool:
    """Whether a batch that cannot be read yet may hold what is about to be sent."""
    if listing.nonce is not None:
        states = ledger.batch_states(nonces={listing.nonce})
        return states.get(listing.nonce, "") in _FORGOTTEN
    # A pre-warm takes one of the requests out of the bulk.
    return listing.n_requests in (n_unanswered, n_unanswered - 1)


_RECOVER = "ledger recover"


def refuse_to_repay(
    unanswered: AbstractSet[str],
    *,
    ledger: RecoveryLedger,
    service: AsksDirectly,
    note: Callable[[str], None],
    config: str,
    may_pay_again: bool,
) -> None:
    """Refuse to send requests whose replies the service holds and the ledger has forgotten.

    Batches that merely look like ours are only reported. The command that takes replies back is
    named where it is there.

    Args:
        config: The config that the command needs, as a person writes it.

    Raises:
        JudgeError: If the requests were paid for and may not be paid for again, or the service
            refuses.
    """
    if not takes_batches(service):
        return  # it keeps no replies that could be had again
    try:
        forgotten = find_forgotten(
            unanswered, ledger=ledger, service=service, now=datetime.now(UTC)
        )
    except JudgeError as error:
        if error.failure is JudgeFailure.FATAL:
            raise
        note(f"{error}; whether the ledger has forgotten a batch is not known")
        return
    can_take_back = _RECOVER in dict(added_rows("commands"))
    command = f": `tournament {_RECOVER} --config {config}`" if can_take_back else ""
    if forgotten.paid:
        problem = (
            f"the service holds {len(forgotten.paid)} batches ({', '.join(forgotten.paid)}) that "
            "answer requests which are about to be sent, and the ledger does not know them; "
            "expected a ledger that knows what was paid for"
            f"{command and f'; take the replies back for nothing{command}'}"
        )
        if not may_pay_again:
            raise JudgeError(f"{problem}; or run with --pay-again to pay for them a second time")
        note(f"{problem}; the requests are paid for again, as was asked")
    if forgotten.alike:
        note(
            f"the service holds {len(forgotten.alike)} batches ({', '.join(forgotten.alike)}) that "
            "look like this program's, and the ledger does not know them; if it was emptied or "
            f"replaced, stop{command and f' and take back what was paid for{command}'}"
        )


def recover_batches(
    planned: Mapping[str, PlannedRequest],
    *,
    ledger: RecoveryLedger,
    service: TakesBatches,
    waiting: Waiting,
    progress: JudgingProgress,
    clock: Clock = SYSTEM_CLOCK,
    max_readings: int = MAX_READINGS,
) -> RecoveryReport:
    """Take back the replies of batches that the ledger does not know; nothing is sent or paid.

    A batch is ours if one of its requests is planned. Every reply in it is then kept, even to
    requests that an edit has since removed from the plan. The oldest batch comes first, so that the
    first reply to a request counts again, and a second attempt is recognised as one.

    Raises:
        JudgeError: If the service cannot be asked.
    """
    recovery = _Recovery(planned, ledger, service, waiting, progress, clock, max_readings)
    report = recovery.report
    now = clock.now()
    listings = list(_unknown_batches(ledger, service, now))[::-1]
    for listing in sorted(listings, key=lambda each: each.created_at or now):
        if listing.nonce == "" or listing.refusal is not None:
            report.foreign.append(listing.batch_id)
            continue
        if not listing.has_ended:
            report.in_progress.append(listing.batch_id)
            continue
        try:
            recovery.take(listing)
        except JudgeError as error:
            if error.failure not in OUT_OF_REACH:
                raise
            progress.note(str(error))
            report.gone.append(listing.batch_id)
    return report


def _unknown_batches(
    ledger: RecoveryLedger, service: TakesBatches, now: datetime, *, one_page: bool = False
) -> Iterator[BatchStatus]:
    """Yield the listed batches that the ledger does not know or holds in part."""
    listings = list_since(service, now - KEPT_FOR)
    while page := list(islice(listings, _PAGE)):
        states = ledger.batch_states(batch_ids={each.batch_id for each in page})
        yield from (each for each in page if states.get(each.batch_id, "") in ("", "recovering"))
        if one_page:
            return


@dataclass(slots=True)
class _Recovery:
    """What is taken back, and from where.

    A torn log may end between a batch and the second attempts that its replies led to. Only the
    replies of the batches that the ledger knows then show whether a forgotten batch was a first or
    a second attempt: they are read first, and those batches are left open for their own runs.

    Attributes:
        batch_ids: The provider's names of batches that the ledger has without a name, by nonce.
        read: The nonces of those batches under way that were read.
    """

    planned: Mapping[str, PlannedRequest]
    ledger: RecoveryLedger
    service: TakesBatches
    waiting: Waiting
    progress: JudgingProgress
    clock: Clock
    max_readings: int
    report: RecoveryReport = field(default_factory=RecoveryReport)
    batch_ids: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def take(self, listing: BatchStatus) -> None:
        """Take back an ended batch, or write down why not."""
        waits = Waits(self.waiting, self.clock)
        seen: set[str] = set()
        batch: SubmittedBatch | None = None
        for reading in range(self.max_readings):
            if reading:
                waits.sleep()
            try:
                if batch is None:
                    planned = self._find_planned(listing)
                    if isinstance(planned, list):
                        planned.append(listing.batch_id)
                        return
                    batch = self._begin(listing, *planned)
                self._read(batch, seen)
            except JudgeError as error:
                if error.failure is not JudgeFailure.TRANSIENT:
                    raise
                self.progress.note(f"{error}; reading again")
            if batch is not None and len(seen) >= listing.n_requests:
                self.ledger.record_closed(batch.nonce, state="harvested")
                self.report.taken.append(listing.batch_id)
                return
        self.report.incomplete.append(listing.batch_id)

    def _find_planned(self, listing: BatchStatus) -> tuple[str, PlannedRequest] | list[str]:
        """Return the batch's nonce and a planned request in it, or the list it belongs on."""
        nonce = ""
        for row in self.service.iterate_results(listing.batch_id):
            named = read_custom_id(row.custom_id)
            if row.result_type == UNPARSABLE:
                continue
            if named is None:
                return self.report.foreign
            nonce, key = named
            if key in self.planned:
                state = self.ledger.batch_states(nonces={nonce}).get(nonce, "")
                if state in _FORGOTTEN:
                    return nonce, self.planned[key]
                # One that is being sent or waited for is looked for by its own run.
                self.batch_ids[nonce] = listing.batch_id
                return []
        if not nonce:
            raise JudgeError(
                f"the results of batch {listing.batch_id} hold no row; "
                f"expected {listing.n_requests}",
                failure=JudgeFailure.TRANSIENT,
            )
        return self.report.unplanned

    def _begin(self, listing: BatchStatus, nonce: str, request: PlannedRequest) -> SubmittedBatch:
        begun_at = listing.created_at or self.clock.now().astimezone(UTC)
        batch = SubmittedBatch(nonce, listing.batch_id, begun_at)
        attempt = 1
        if request.reply_format is not None:
            self.report.replies += self._read_under_way(request.scope.tournament_id)
            rows = self.service.iterate_results(listing.batch_id)
            final = (key for row in rows for key, _ in _final(batch, [row]))
            keys = frozenset(islice(final, _ROWS_THAT_PROVE))
            attempt = self._attempt_of(keys, request.reply_format)
        self.ledger.begin_recovery(
            request.scope, batch, model=request.model, attempt=attempt, size=listing.n_requests
        )
        return batch

    def _read_under_way(self, tournament_id: str) -> int:
        """Keep the replies of a tournament's open batches; return how many are new."""
        n_new = 0
        scopes = self.ledger.open_scopes(tournament_id).values()
        for begun in (each for batches in scopes for each in batches):
            batch_id = begun.batch_id or self.batch_ids.get(begun.nonce)
            if batch_id is None or begun.nonce in self.read:
                continue
            try:
                if self.service.get_batch(batch_id).has_ended:
                    n_new += self._read_known(begun, batch_id)
            except JudgeError as error:
                if error.failure not in OUT_OF_REACH:
                    raise
            self.read.add(begun.nonce)
        return n_new

    def _read_known(self, begun: OpenBatch, batch_id: str) -> int:
        n_new, n_rows = 0, 0
        batch = SubmittedBatch(begun.nonce, batch_id, begun.begun_at)
        rows = self.service.iterate_results(batch_id)
        while part := list(islice(rows, harvest.RESULTS_AT_ONCE)):
            n_new += _keep(batch, _final(batch, part), self.ledger)[0]
            n_rows += len(part)
        if n_rows < begun.n_requests:
            raise JudgeError(
                f"the results of batch {batch_id} hold {n_rows} rows; expected {begun.n_requests}",
                failure=JudgeFailure.TRANSIENT,
            )
        return n_new

    def _attempt_of(self, keys: AbstractSet[str], reply_format: ReplyFormat) -> int:
        """Return 2 if all of the requests had been answered before without a verdict, else 1."""
        unreadable = {
            reply.request_key
            for reply in self.ledger.iterate_replies(keys)
            if reply.attempt == 1 and is_unreadable(reply, reply_format)
        }
        return 2 if keys and unreadable == keys else 1

    def _read(self, batch: SubmittedBatch, seen: set[str]) -> None:
        """Keep rows as they arrive; those read before a failure stay."""
        rows = self.service.iterate_results(batch.batch_id)
        is_over = False
        while not is_over:
            part: list[ReplyRow] = []
            try:
                for row in islice(rows, harvest.RESULTS_AT_ONCE):
                    part.append(row)  # noqa: PERF402  # what came before a failure is kept
            finally:
                self._keep(batch, [row for row in part if row.custom_id not in seen])
                seen.update(row.custom_id for row in part)
            is_over = len(part) < harvest.RESULTS_AT_ONCE

    def _keep(self, batch: SubmittedBatch, part: Sequence[ReplyRow]) -> None:
        final = _final(batch, part)
        n_new, twice = _keep(batch, final, self.ledger)
        self.report.replies += n_new
        self.report.paid_twice += twice
        self.report.without_reply += len({row.custom_id for row in part}) - len(dict(final))


def _keep(
    batch: SubmittedBatch, rows: Sequence[tuple[str, ReplyRow]], ledger: RecoveryLedger
) -> tuple[int, int]:
    """Keep final rows; return how many replies are new, and how many had been paid for before."""
    final = dict(reversed(rows))
    n_held = sum(1 for _ in ledger.iterate_replies(final.keys()))
    twice = ledger.record_rows(batch.nonce, list(final.items()), received_at=batch.begun_at)
    return sum(1 for _ in ledger.iterate_replies(final.keys())) - n_held, twice


def _final(batch: SubmittedBatch, rows: Sequence[ReplyRow]) -> list[tuple[str, ReplyRow]]:
    """Return the rows of a batch that settle their requests."""
    named = [(read_custom_id(row.custom_id), row) for row in rows]
    return [
        (name[1], row)
        for name, row in named
        if name is not None and name[0] == batch.nonce and is_final(row)
    ]


_BY_RESULT = {kind.value: kind for kind in FailureClass}


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that was asked and has no verdict.

    Attributes:
        failure: Why.
        attempt: Which attempt would be the next one.
    """

    request_key: str
    failure: FailureClass
    attempt: int


def find_failed_requests(
    request_keys: Iterable[str],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    reply_format: ReplyFormat,
) -> dict[str, FailedRequest]:
    """Return the requests whose every attempt failed, by key; nothing is sent.

    A request that was never sent has not failed, nor has one that is in a batch under way.
    """
    keys = list(dict.fromkeys(request_keys))
    failed = {
        key: FailedRequest(key, _BY_RESULT.get(words, FailureClass.ERRORED), attempt=1)
        for key, words in ledger.failed_keys(keys).items()
    }
    replies = ledger.iterate_replies(keys)
    for key, attempts in groupby(replies, key=lambda reply: reply.request_key):
        of_key = list(attempts)
        failures = [
            classify_reply(
                result_type=reply.result_type,
                stop_reason=reply.stop_reason,
                text=reply.text,
                reply_format=reply_format,
            )
            for reply in of_key
        ]
        if None in failures:
            failed.pop(key, None)
        elif failures[-1] is not None:
            failed[key] = FailedRequest(key, failures[-1], of_key[-1].attempt + 1)
    under_way: set[str] = set()
    for batch in ledger.open_batches(scope):
        under_way |= ledger.batch_keys(batch.nonce)
    return {key: failed[key] for key in keys if key in failed and key not in under_way}


def rejudge_requests(session: JudgingSession, requests: Sequence[JudgeRequest]) -> Tally:
    """Ask every request that failed once more, outside any batch.

    A reply that is kept already stays; the new one is kept beside it, and counts if it is the
    first that holds a verdict.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
        JudgeError: If the service refuses; what was received is in the ledger.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
    """
    if session.terms.reply_format is None:
        raise ValueError("these replies are not verdicts; expected a format to read them in")
    positions = KeyPositions(requests)
    with hold_lease(session):
        session.tally.total = len(positions)
        failed = find_failed_requests(
            positions,
            scope=session.scope,
            ledger=session.ledger,
            reply_format=session.terms.reply_format,
        ).values()
        session.tally.answered = len(positions) - len(failed)
        if failed:
            selected = Selection(requests, [positions[each.request_key] for each in failed])
            session.check_budget(selected, "direct")
            session.check_model(selected[0].params["model"])
        in_turn = sorted(failed, key=lambda each: each.attempt)
        for attempt, group in groupby(in_turn, key=lambda each: each.attempt):
            members = list(group)
            cut_off = {
                positions[each.request_key]
                for each in members
                if each.failure is FailureClass.CUT_OFF
            }
            selected = Selection(
                requests, [positions[each.request_key] for each in members], cut_off
            )
            ask_directly(session, selected, attempt=attempt)
        return session.tally
