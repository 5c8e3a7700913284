"""Getting every planned request answered: resume, submit, wait, harvest, close.

Written against two protocols, a ledger and a batch service, so that it is tested without either.
The order of writes is what makes paid work safe: the intent is in the ledger before a batch is
created, the batch's id right after, every row as it is read, and the close comes last. Requests
left over from batches are asked one by one, which costs more and is answered at once. So is the
request that warms the prompt cache for the others.
"""

import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from queue import SimpleQueue
from types import MappingProxyType

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.judging.requests.requests import (
    KeyPositions,
    ModelRequest,
    Selection,
    custom_id,
    with_smaller_cap,
)
from tournament_assets.judging.requests.verdict_parsing import (
    ReplyFormat,
    needs_second_question,
    read_reply,
)
from tournament_assets.judging.service_errors import REFUSED, Remedy, failures_of
from tournament_assets.judging.settlement.harvest import (
    collect_batches,
    give_up,
    harvest_ended,
    is_final,
    is_invalid,
    record_part,
    withhold_unparsable,
)
from tournament_assets.judging.settlement.records import (
    JudgingLedger,
    JudgingScope,
    OpenBatch,
    StoredReply,
    SubmittedBatch,
)
from tournament_assets.judging.settlement.sessions import (
    SERVER_REMEDY,
    JudgingSession,
    SeenReplies,
    Tally,
    hold_lease,
)
from tournament_assets.judging.settlement.submission import (
    adopt_batch,
    create_batches,
    cut_batches,
    wait_for_room,
    write_intent,
)
from tournament_assets.judging.settlement.trial import FIRST_SLICE, Trial


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """The work left before every request has its reply.

    Attributes:
        total: Distinct requests that are wanted.
        answered: Those with a final reply.
        unanswered: Keys of those without a final reply.
        unreadable: The last reply to each request that is to be asked once more, by key.
        open_batches: Batches that were begun and not closed.
        trial: What the last reply to each request was like.
        seen: What their sizes were.
    """

    total: int
    answered: int
    unanswered: tuple[str, ...]
    unreadable: Mapping[str, StoredReply]
    open_batches: tuple[OpenBatch, ...]
    trial: Trial
    seen: SeenReplies = field(default_factory=SeenReplies)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not (self.asks or self.open_batches)

    @property
    def asks(self) -> bool:
        """Whether something is to be asked."""
        return bool(self.unanswered or self.asked_again)

    @property
    def asked_again(self) -> Mapping[str, StoredReply]:
        """Those that are unreadable, or none where so many are that asking again is in vain."""
        return {} if self.trial.has_failed else self.unreadable

    def without(self, withheld: AbstractSet[str]) -> "WorkLeft":
        """Return the same work less the requests that are not to be asked."""
        return replace(
            self,
            unanswered=tuple(key for key in self.unanswered if key not in withheld),
            unreadable={
                key: reply for key, reply in self.unreadable.items() if key not in withheld
            },
        )


def find_work_left(
    request_keys: Iterable[str],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    reply_format: ReplyFormat | None,
    max_tokens: int = 0,
) -> WorkLeft:
    """Look up in the ledger what a settlement would do; nothing is sent.

    Args:
        max_tokens: The cap of a reply: one that was cut off by a lower one says nothing about
            the judge, and is always asked for again.
    """
    unanswered = dict.fromkeys(request_keys)
    total = len(unanswered)
    unreadable: dict[str, StoredReply] = {}
    trial, seen = Trial(total, reply_format), SeenReplies()
    replies = ledger.iterate_replies(unanswered.keys())
    for key, attempts in groupby(replies, key=lambda reply: reply.request_key):
        *_, last = attempts
        unanswered.pop(key, None)
        seen.add(last)
        if reply_format is not None and _is_cut_early(last, max_tokens):
            unreadable[key] = last
            continue
        verdict = trial.add(last)
        # One that was asked more often and has a readable reply needs nothing more, nor does one
        # that was unreadable twice.
        if last.attempt == 1 and verdict is not None and needs_second_question(verdict):
            unreadable[key] = last
    return WorkLeft(
        total=total,
        answered=total - len(unanswered),
        unanswered=tuple(unanswered),
        unreadable=unreadable,
        open_batches=tuple(ledger.open_batches(scope)),
        trial=trial,
        seen=seen,
    )


def _is_cut_early(reply: StoredReply, max_tokens: int) -> bool:
    """Whether a reply was cut off by a lower cap: of batches alone, and at first."""
    return (
        (reply.channel, reply.attempt, reply.stop_reason) == ("batch", 1, "max_tokens")
        and reply.usage is not None
        and reply.usage.output_tokens < max_tokens
    )


def is_unreadable(reply: StoredReply, reply_format: ReplyFormat) -> bool:
    """Whether a reply holds no verdict and is worth asking for once more."""
    verdict, _ = read_reply(
        result_type=reply.result_type,
        stop_reason=reply.stop_reason,
        text=reply.text,
        reply_format=reply_format,
    )
    return needs_second_question(verdict)


_INVALID = failures_of(Remedy.NEVER, may_be_billed=False)
_RETRIED = failures_of(Remedy.AGAIN, may_be_billed=False)
_UNCLEAR = failures_of(Remedy.AGAIN, may_be_billed=True)
_IN_VAIN = 8
"""How many consecutive failures stop the other requests, where all are asked directly."""
_LOST = "lost"
"""The result type of a request whose reply, if any, never arrived: it may have been billed."""
_LONGEST_ASKED_WAIT_SECONDS = 300.0


def ask_directly(
    session: JudgingSession,
    requests: Sequence[ModelRequest],
    *,
    attempt: int,
    trial: Trial | None = None,
) -> None:
    """Send requests one by one and record each reply as it arrives.

    No more go out at once than the budget allows if each costs the most it may. A reply lost on its
    way may have been paid for and cannot be fetched again, as the protocol has no name for it. It
    counts as paid, and its request is asked again, a few times, as far as the budget allows.

    Raises:
        JudgeError: If the service refuses for a reason that the other requests share.
        BudgetError: If the budget has no room for the rest; every reply is in the ledger.
    """
    session.progress.note(f"asking {len(requests)} requests one by one")
    session.tally.direct += len(requests)
    session.tally.submitted += len(requests)
    waits = session.waits()
    for n_tries in range(session.terms.max_tries):
        if n_tries:
            waits.sleep()
        lost = _ask_in_slices(session, requests, attempt=attempt, trial=trial)
        if not lost:
            return
        requests = [request for request in requests if request.request_key in lost]


def _ask_in_slices(
    session: JudgingSession,
    requests: Sequence[ModelRequest],
    *,
    attempt: int,
    trial: Trial | None,
) -> set[str]:
    """Ask as many at a time as the budget allows; return those whose reply may be lost."""
    lost: set[str] = set()
    waits = session.waits()
    while requests:
        intent = write_intent(session, requests, attempt=attempt, channel="direct")
        if intent is None:
            wait_for_room(session, requests[0], "direct", waits)
            continue
        lost |= _ask_all(session, intent, requests[: intent.n_requests], trial)
        requests = requests[intent.n_requests :]
        if requests:
            session.approve(requests, "direct")
            waits = session.waits()
    return lost


def _ask_all(
    session: JudgingSession,
    intent: OpenBatch,
    requests: Sequence[ModelRequest],
    trial: Trial | None = None,
) -> set[str]:
    """Ask all requests of an intent; return those whose reply may be lost.

    Whoever is interrupted here waits for no reply: the threads are daemons.
    """
    lost: set[str] = set()
    n_in_vain = under_way = 0
    refused: JudgeError | None = None
    waiting = iter(requests)
    answers: SimpleQueue[tuple[str, ReplyRow | BaseException]] = SimpleQueue()
    is_over = threading.Event()

    def ask(request: ModelRequest) -> None:
        answer: ReplyRow | BaseException
        try:
            answer = _ask_patiently(session, intent.nonce, request, is_over, trial)
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            answer = error
        answers.put((request.request_key, answer))

    while True:
        free = 0 if refused is not None else _at_once(session, trial) - under_way
        for request in islice(waiting, free):
            threading.Thread(target=ask, args=(request,), name="asking", daemon=True).start()
            under_way += 1
        if not under_way:
            break
        key, answer = answers.get()
        under_way -= 1
        try:
            if isinstance(answer, BaseException):
                raise answer
            if answer.result_type == _LOST:
                lost.add(key)
            n_in_vain = n_in_vain + 1 if _is_in_vain(session, answer) else 0
            if trial is not None and trial.is_open:
                trial.add(answer)
                trial.check(session, intent.judge_model)
            if session.channel == "direct" and n_in_vain >= max(
                _IN_VAIN, 2 * session.terms.max_in_flight
            ):
                is_refused = answer.error_type == REFUSED or is_invalid(answer)
                raise JudgeError(
                    f"the last {n_in_vain} requests failed one after another, the latest because "
                    f"{answer.error_message}; nothing more is sent; "
                    f"{session.terms.remedy if is_refused else SERVER_REMEDY}"
                )
        except JudgeError as error:
            # Those under way are still waited for: their replies are being paid for.
            refused = refused or error
            is_over.set()
    if refused is not None:
        session.ledger.record_closed(intent.nonce, state="refused")
        raise refused
    session.ledger.record_closed(intent.nonce, state="harvested")
    return lost


def _at_once(session: JudgingSession, trial: Trial | None) -> int:
    """Return how many requests may be under way: one, until the service has answered one.

    A key, a model or a schema that is refused then costs few requests.
    """
    if trial is not None and trial.is_open:
        return min(session.terms.max_in_flight, FIRST_SLICE) if trial.n_read else 1
    is_first = not (session.tally.harvested or session.tally.failed)
    return 1 if is_first and session.channel == "direct" else session.terms.max_in_flight


def _is_in_vain(session: JudgingSession, row: ReplyRow) -> bool:
    """Whether a row shows that the service answers nothing."""
    if row.result_type == "succeeded":
        return False
    has_answered = session.terms.has_answered or bool(session.tally.answered)
    return row.error_type != REFUSED or not has_answered


@contextmanager
def asked_ahead(
    session: JudgingSession, requests: Selection, *, attempt: int, trial: Trial
) -> Iterator[AbstractSet[str]]:
    """Ask a few requests directly and read their replies before the others are sent.

    The first one fills the prompt cache and shows that the service takes such requests. Others,
    spread over all of them, follow as long as it takes to see that the replies hold verdicts. They
    are kept like any other. A slow first one is waited for again at the end, and the others go out
    without a trial; what the direct channel does not answer is sent with the others.

    Yields:
        The keys of those that are not to be sent any more.

    Raises:
        JudgeError: If the replies hold no verdicts, or the service refuses such requests.
    """
    ahead = requests.spread(FIRST_SLICE)
    keys = [request.request_key for request in ahead]
    if session.channel == "direct":
        _try_out(session, ahead, attempt=attempt, trial=trial)
        yield session.ledger.answered_keys(keys, attempt=attempt)
        return
    intent = write_intent(session, ahead[:1], attempt=attempt, channel="direct")
    if intent is None:
        yield frozenset()
        return
    session.progress.note("pre-warming the judge's prompt cache with one request")
    session.tally.direct += 1
    session.tally.submitted += 1
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(_ask_ahead, session, intent, ahead[0])
        if not wait([asking], session.terms.waiting.prewarm_wait_seconds).done:
            session.progress.note("the pre-warming request is slow; the others go out without it")
            try:
                yield {keys[0]}
            finally:
                asking.result()
            return
    row = asking.result()
    trial.add(row)
    trial.check(session, intent.judge_model)
    if is_final(row) or row.error_type == REFUSED:
        _try_out(session, ahead[1:], attempt=attempt, trial=trial)
    yield session.ledger.answered_keys(keys, attempt=attempt)


def _try_out(session: JudgingSession, requests: Selection, *, attempt: int, trial: Trial) -> None:
    """Ask directly until a trial is over, or the budget has no room or the service no answer."""
    while requests and trial.is_open:
        n_known = trial.n_read + trial.n_refused
        part = requests[: trial.n_next]
        intent = write_intent(session, part, attempt=attempt, channel="direct")
        if intent is None:
            return
        session.tally.direct += intent.n_requests
        session.tally.submitted += intent.n_requests
        _ask_all(session, intent, part[: intent.n_requests], trial)
        if trial.n_read + trial.n_refused == n_known:
            return
        requests = requests[intent.n_requests :]


def _ask_ahead(session: JudgingSession, intent: OpenBatch, request: ModelRequest) -> ReplyRow:
    """Ask a request and write down what comes."""
    state, key = "harvested", request.request_key
    name = custom_id(intent.nonce, key)
    with session.places():
        try:
            row = session.service.ask_directly(SubmittedRequest(name, request.params))
        except JudgeError as error:
            is_invalid = error.failure in _INVALID
            follows = "asking others" if is_invalid else "judging goes on without a warm cache"
            session.progress.note(f"{error}; {follows}")
            if error.failure in _UNCLEAR:
                row = _failed_row(name, "api_error", error, result_type=_LOST)
            else:
                row = _failed_row(name, REFUSED if is_invalid else "api_error", error)
                state = "refused"
        record_part(session, intent.nonce, [(key, row)])
    session.ledger.record_closed(intent.nonce, state=state)
    return row


def _ask_patiently(
    session: JudgingSession,
    nonce: str,
    request: ModelRequest,
    is_over: threading.Event,
    trial: Trial | None,
) -> ReplyRow:
    """Ask a request until there is something to write down; return it once it is written down."""
    waits = session.waits()
    submitted = SubmittedRequest(custom_id(nonce, request.request_key), request.params)
    n_tries = 0
    while True:
        with session.places():
            if not (n_tries and is_over.is_set()):
                # A service that answers nothing refuses what all requests have in common.
                is_final = session.terms.refusals_are_final and (trial is None or trial.n_read > 0)
                row, retry_after = _ask_once(session, submitted, refusals_are_final=is_final)
                n_tries += 1
            if retry_after is None or n_tries == session.terms.max_tries or is_over.is_set():
                # However slow the ledger is, no more are paid for and not written down than there
                # are places: so many replies, at the most, are lost with the process.
                record_part(session, nonce, [(request.request_key, row)])
                return row
        waits.sleep(at_least=min(retry_after, _LONGEST_ASKED_WAIT_SECONDS))


def _ask_once(
    session: JudgingSession, request: SubmittedRequest, *, refusals_are_final: bool
) -> tuple[ReplyRow, float | None]:
    """Ask a request; return its row, and if it may be asked again, how soon."""
    name, began = request.custom_id, session.clock.monotonic()
    try:
        row = session.service.ask_directly(request)
    except JudgeError as error:
        if error.failure in _INVALID:
            error_type = "invalid_request_error" if refusals_are_final else REFUSED
            return _failed_row(name, error_type, error), None
        if error.failure in _UNCLEAR:
            return _failed_row(name, "api_error", error, result_type=_LOST), None
        if error.failure not in _RETRIED:
            raise
        return _failed_row(name, "api_error", error), error.retry_after_seconds or 0.0
    return replace(row, seconds=session.clock.monotonic() - began), None


def _failed_row(
    name: str, error_type: str, error: JudgeError, *, result_type: str = "errored"
) -> ReplyRow:
    return ReplyRow(
        custom_id=name, result_type=result_type, error_type=error_type, error_message=str(error)
    )


_FIRST, _SECOND = 1, 2


def collect_ended(session: JudgingSession) -> None:
    """Read what has ended of a scope's batches, and send nothing, so that no budget is needed.

    Raises:
        JudgeError: If something cannot be read, or somebody cancelled a batch at the service.
    """
    with hold_lease(session):
        _take_up(session, session.ledger.open_batches(session.scope))
        session.stop_if_cancelled()


def _take_up(
    session: JudgingSession, open_batches: Iterable[OpenBatch]
) -> tuple[list[SubmittedBatch], list[OpenBatch]]:
    """Close and read what can be now; return the batches to wait for, and those not confirmed."""
    batches: list[SubmittedBatch] = []
    unconfirmed: list[OpenBatch] = []
    for begun in open_batches:
        if begun.channel == "direct":
            # Direct replies that were under way have no name to fetch them by.
            session.ledger.record_closed(begun.nonce, state="abandoned")
        elif begun.batch_id is None:
            unconfirmed.append(begun)
        else:
            session.progress.note(f"taking up batch {begun.batch_id} ({begun.n_requests} requests)")
            batches.append(SubmittedBatch(begun.nonce, begun.batch_id, begun.begun_at))
    pending = harvest_ended(session, batches, deadline_seconds=0.0)
    session.tally.resumed += len(batches) - len(pending)
    return pending, unconfirmed


def settle_requests(session: JudgingSession, requests: Sequence[ModelRequest]) -> Tally:
    """Ask for every reply that the ledger does not hold yet, and wait for it.

    A request that two pairs share is asked once. One with a transient failure is asked again in a
    few more batches, then by itself; one whose reply holds no verdict is asked once more. The next
    run asks again what still has no reply. A request whose result the service counts but does not
    deliver is not asked again without permission to pay again.

    Raises:
        JudgeWaitingError: If a batch has not ended by the deadline, or somebody else is at work;
            what was received is in the ledger, and the next run goes on from there.
        JudgeError: If the service refuses; what was received is in the ledger.
        BudgetError: If asking would cost more than may be spent; what was received is in the
            ledger, and nothing was sent that could exceed the budget at `max_tokens`.
    """
    with hold_lease(session):
        _Settlement(session, requests).run()
        return session.tally


class _Settlement:
    def __init__(self, session: JudgingSession, requests: Sequence[ModelRequest]) -> None:
        self._session = session
        self._requests = requests
        self._positions = KeyPositions(requests)
        self._given_up: AbstractSet[str] = frozenset()

    def run(self) -> None:
        # Positions are kept rather than keys, which would stay in memory throughout.
        todo = self._take_stock()
        first, second = self._select_questions(todo)
        if first:
            is_tried = self._session.scope.is_of_verdicts
            self._ask(first, attempt=_FIRST, trial=todo.trial if is_tried else None)
            todo = self._find_work_left()
            _, second = self._select_questions(todo)
        if todo.unreadable and todo.trial.has_failed:
            self._session.progress.note(
                f"{todo.trial.n_silent} of {todo.trial.n_read} replies hold no verdict: asking "
                "again would not help; `tournament rejudge` asks them once more all the same"
            )
        if second:
            self._session.progress.note(f"{len(second)} replies are unreadable; asking again")
            self._session.tally.second_questions += len(second)
            self._ask(second, attempt=_SECOND)

    def _take_stock(self) -> WorkLeft:
        """Resume what is under way; return what is then to be asked."""
        session = self._session
        todo = self._find_work_left()
        session.seen = todo.seen
        session.tally.total = todo.total
        session.tally.answered = todo.answered
        session.progress.advance(session.tally.answered, session.tally.total)
        if not session.terms.may_pay_again:
            withhold_unparsable(session, {*todo.unanswered, *todo.unreadable})
        if (since := session.terms.failed_since) is not None:
            self._given_up = session.ledger.failed_keys(self._positions, since=since).keys()
        todo = todo.without(session.tally.withheld | self._given_up)
        if todo.open_batches:
            self._resume(todo.open_batches)
            todo = self._find_work_left()
            session.tally.answered = todo.answered
        session.stop_if_cancelled()
        return todo

    def _find_work_left(self) -> WorkLeft:
        todo = find_work_left(
            self._positions,
            scope=self._session.scope,
            ledger=self._session.ledger,
            reply_format=self._session.terms.reply_format,
            max_tokens=self._requests[0].params["max_tokens"] if self._requests else 0,
        )
        return todo.without(self._session.tally.withheld | self._given_up)

    def _select_questions(self, todo: WorkLeft) -> tuple[Selection, Selection]:
        """Return what is to be asked for the first time, and what for the second."""
        return self._select(todo.unanswered), self._select(todo.asked_again, todo.unreadable)

    def _select(
        self, keys: Iterable[str], replies: Mapping[str, StoredReply] = MappingProxyType({})
    ) -> Selection:
        positions = array("L", (self._positions[key] for key in keys))
        cut_off = {
            self._positions[key]
            for key, reply in replies.items()
            if reply.stop_reason == "max_tokens"
        }
        return Selection(self._requests, positions, cut_off)

    def _resume(self, open_batches: Iterable[OpenBatch]) -> None:
        session = self._session
        # Batches that can be read now do not wait for unconfirmed ones.
        pending, unconfirmed = _take_up(session, open_batches)
        adopted = [self._adopt(begun) for begun in unconfirmed]
        pending += [batch for batch in adopted if batch is not None]
        session.tally.resumed += len(pending)
        collect_batches(session, pending)

    def _adopt(self, begun: OpenBatch) -> SubmittedBatch | None:
        session = self._session
        try:
            adopted = adopt_batch(session, begun)
        except JudgeError as error:
            if error.failure is not JudgeFailure.LOST:
                raise
            give_up(session, begun.nonce, error)
            return None
        if adopted is None:
            session.tally.abandoned += begun.n_requests
            session.progress.note(
                f"batch {begun.nonce} never reached the service; its requests are asked again"
            )
            session.ledger.record_closed(begun.nonce, state="abandoned")
        return adopted

    def _ask(self, requests: Selection, *, attempt: int, trial: Trial | None = None) -> None:
        session = self._session
        if trial is not None and trial.is_over(n_unasked=len(requests)):
            trial = None
        if trial is not None:
            trial.check(session, requests[0].params["model"])
        session.approve(requests, session.channel)
        session.check_model(requests[0].params["model"])
        if session.channel == "direct":
            self._send(requests, attempt=attempt, trial=trial)
            return
        waiting = session.terms.waiting
        for round_number in range(waiting.max_rounds):
            if round_number:
                session.progress.note(f"asking {len(requests)} requests that failed again")
            self._send(requests, attempt=attempt, trial=None if round_number else trial)
            requests = self._unanswered(requests, attempt=attempt)
            if not requests:
                return
        if not waiting.direct_fallback:
            session.progress.note(
                f"{len(requests)} requests failed {waiting.max_rounds} times; they stay "
                "without a reply until the next run"
            )
            return
        session.approve(requests, "direct")
        ask_directly(session, requests, attempt=attempt)

    def _send(self, requests: Selection, *, attempt: int, trial: Trial | None) -> None:
        session = self._session
        is_bulk = session.channel == "batch"
        send = self._submit_bulk if is_bulk else partial(ask_directly, session, trial=trial)
        if trial is None or len(requests) == 1 or not session.terms.prewarms:
            send(requests, attempt=attempt)
            return
        with asked_ahead(session, requests, attempt=attempt, trial=trial) as answered:
            others = requests.drop({self._positions[key] for key in answered})
            if others:
                # Others may have spent something while these were waited for.
                session.approve(others, session.channel)
                send(others, attempt=attempt)

    def _submit_bulk(self, requests: Selection, *, attempt: int) -> None:
        session = self._session
        uncollected: list[SubmittedBatch] = []
        waits = session.waits()
        while requests:
            part = next(
                cut_batches(
                    requests,
                    max_requests=session.terms.max_batch_requests,
                    max_bytes=session.terms.max_batch_bytes,
                )
            )
            if session.lower_cap is not None and attempt == _FIRST:
                part = [with_smaller_cap(each, session.lower_cap) for each in part]
            created = create_batches(session, part, attempt=attempt)
            uncollected += created.batches
            requests = requests[created.n_requests :]
            if created.n_requests == len(part):
                continue
            if uncollected:
                session.progress.note(
                    f"the budget has no room for {len(requests)} more requests at max_tokens; they "
                    "go out when it is known what those before them cost"
                )
                collect_batches(session, uncollected)
                uncollected = []
                waits = session.waits()
                session.approve(requests, "batch")
            elif not created.n_requests:
                wait_for_room(session, part[0], "batch", waits)
        collect_batches(session, uncollected)

    def _unanswered(self, requests: Selection, *, attempt: int) -> Selection:
        keys = (request.request_key for request in requests)
        answered = self._session.ledger.answered_keys(keys, attempt=attempt)
        return requests.without(answered | self._session.tally.withheld)
