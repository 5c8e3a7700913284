"""Getting every planned request answered: resume, submit, wait, harvest, close.

Written against two protocols, a ledger and a batch service, so that it is tested without either.
The order of writes is what makes paid work safe: the intent is in the ledger before a batch is
created, the batch's id right after, every row as it is read, and the close comes last. Requests
left over from batches are asked one by one, which costs more and is answered at once. So is the
request that warms the prompt cache for the others.
"""

import threading
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.judging.requests.columns import (
    KeyPositions,
    ModelRequest,
    Selection,
    keys_of,
)
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.service_errors import REFUSED, Remedy, failures_of
from tournament_assets.judging.settlement.account import Account, RequestState, read_account
from tournament_assets.judging.settlement.harvest import (
    collect_batches,
    give_up,
    harvest_ended,
    is_invalid,
    record_part,
    withhold_unparsable,
)
from tournament_assets.judging.settlement.records import OpenBatch, SubmittedBatch
from tournament_assets.judging.settlement.sessions import (
    SERVER_REMEDY,
    JudgingSession,
    Tally,
    hold_lease,
)
from tournament_assets.judging.settlement.submission import (
    adopt_batch,
    create_batches,
    cut_batch,
    wait_for_room,
    write_intent,
)
from tournament_assets.judging.settlement.trial import FIRST_SLICE, Trial

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
            session.check_budget(requests, "direct")
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


def ask_ahead(session: JudgingSession, requests: Selection, *, trial: Trial) -> None:
    """Ask a few requests directly and read their replies before the others are priced.

    The first one fills the prompt cache and shows that the service takes such requests. Others,
    spread over all of them, follow as long as it takes to see that the replies hold verdicts. They
    are kept like any other; what the direct channel does not answer is sent with the others.

    Raises:
        JudgeError: If the replies hold no verdicts, or the service refuses such requests.
    """
    session.progress.note("asking a few requests directly, to warm the cache and try the judge")
    reason = "the judge has not answered directly"
    try:
        _try_out(session, requests.spread(FIRST_SLICE), trial=trial)
    except JudgeError as error:
        # The direct channel may refuse what the other one takes.
        if session.channel == "direct" or trial.n_read or trial.n_refused:
            raise
        reason = str(error)
    if not trial.n_read:
        session.progress.note(f"{reason}; judging goes on without a warm cache")


def _try_out(session: JudgingSession, requests: Selection, *, trial: Trial) -> None:
    """Ask directly until a trial is over, or the budget has no room or the service no answer."""
    while requests and trial.is_open:
        n_known = trial.n_read + trial.n_refused
        part = requests[: trial.n_next if n_known or session.channel == "direct" else 1]
        intent = write_intent(session, part, attempt=_FIRST, channel="direct")
        if intent is None:
            return
        session.tally.direct += intent.n_requests
        session.tally.submitted += intent.n_requests
        _ask_all(session, intent, part[: intent.n_requests], trial)
        if trial.n_read + trial.n_refused == n_known:
            return
        requests = requests[intent.n_requests :]


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
            # What is tried ahead of batches goes with them if it is not answered at once.
            is_ahead = trial is not None and session.channel == "batch"
            most_tries = 1 if is_ahead else session.terms.max_tries
            if retry_after is None or n_tries == most_tries or is_over.is_set():
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


def try_out(session: JudgingSession, requests: Sequence[ModelRequest]) -> None:
    """Ask what shows whether a judge can be read and what its replies take, before any price.

    Nothing is asked while something is under way, or where the session asks nothing ahead.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
        JudgeError: If the judge cannot be read, or the service refuses such requests.
    """
    with hold_lease(session):
        _Settlement(session, requests).try_out()


class _Settlement:
    def __init__(self, session: JudgingSession, requests: Sequence[ModelRequest]) -> None:
        self._session = session
        self._requests = requests
        self._given_up: AbstractSet[str] = frozenset()

    def try_out(self) -> None:
        account = self._take_stock()
        if not account.open_batches:
            self._try_out(account)

    def run(self) -> None:
        account = self._take_stock()
        if account.open_batches:
            self._resume(account.open_batches)
            account = self._look()
        self._session.stop_if_cancelled()
        self._session.tally.answered = account.answered
        if self._try_out(account):
            account = self._look()
        if account.first:
            self._ask(account.first, attempt=_FIRST, trial=self._trial_of(account))
            account = self._look()
        if account.trial.has_failed and account.count(RequestState.UNREADABLE):
            self._session.progress.note(
                f"{account.trial.n_silent} of {account.trial.n_read} replies hold no verdict: "
                "asking again would not help; `tournament rejudge` asks them once more all the same"
            )
        if second := account.second:
            self._session.progress.note(f"{len(second)} replies are unreadable; asking again")
            self._session.tally.second_questions += len(second)
            self._ask(second, attempt=_SECOND)

    def _take_stock(self) -> Account:
        """Look what there is to do; leave what this run is not to ask."""
        session = self._session
        account = self._look()
        session.tally.total, session.tally.answered = account.total, account.answered
        session.progress.advance(session.tally.answered, session.tally.total)
        if not session.terms.may_pay_again:
            requests = account.select(RequestState.UNASKED, RequestState.UNREADABLE)
            withhold_unparsable(session, set(keys_of(requests)))
        if (since := session.terms.failed_since) is not None:
            positions = KeyPositions(self._requests)
            self._given_up = session.ledger.failed_keys(positions, since=since).keys()
        return self._look() if session.tally.withheld or self._given_up else account

    def _look(self) -> Account:
        account = read_account(
            self._requests,
            scope=self._session.scope,
            ledger=self._session.ledger,
            reply_format=self._session.terms.reply_format,
            is_usable=self._session.terms.is_usable,
            left_out=self._session.tally.withheld | self._given_up,
        )
        self._session.seen.become(account.seen)
        return account

    def _try_out(self, account: Account) -> bool:
        """Try the judge on a few requests, unless it was; return whether it was now."""
        session, first, trial = self._session, account.first, self._trial_of(account)
        if trial is None:
            return False
        model = first[0].params["model"]
        trial.check(session, model)
        if not session.terms.prewarms or len(first) == 1 or not trial.is_open:
            return False
        session.check_model(model)
        ask_ahead(session, first, trial=trial)
        return True

    def _trial_of(self, account: Account) -> Trial | None:
        """Return the trial that stops what is asked for the first time; None if none does."""
        n_unasked = len(account.first)
        if not (n_unasked and self._session.scope.is_of_verdicts):
            return None
        return None if account.trial.is_over(n_unasked=n_unasked) else account.trial

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
        session.check_budget(requests, session.channel)
        session.check_model(requests[0].params["model"])
        if session.channel == "direct":
            ask_directly(session, requests, attempt=attempt, trial=trial)
            return
        waiting = session.terms.waiting
        for round_number in range(waiting.max_rounds):
            if round_number:
                session.progress.note(f"asking {len(requests)} requests that failed again")
            self._submit_bulk(requests, attempt=attempt)
            requests = self._unanswered(requests, attempt=attempt)
            if not requests:
                return
        if not waiting.direct_fallback:
            session.progress.note(
                f"{len(requests)} requests failed {waiting.max_rounds} times; they stay "
                "without a reply until the next run"
            )
            return
        session.check_budget(requests, "direct")
        ask_directly(session, requests, attempt=attempt)

    def _submit_bulk(self, requests: Selection, *, attempt: int) -> None:
        session = self._session
        uncollected: list[SubmittedBatch] = []
        waits = session.waits()
        while requests:
            part = cut_batch(
                requests,
                max_requests=session.terms.max_batch_requests,
                max_bytes=session.terms.max_batch_bytes,
            )
            if session.lower_cap is not None and attempt == _FIRST:
                part = part.capped(session.lower_cap)
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
                session.check_budget(requests, "batch")
            elif not created.n_requests:
                wait_for_room(session, part[0], "batch", waits)
        collect_batches(session, uncollected)

    def _unanswered(self, requests: Selection, *, attempt: int) -> Selection:
        answered = self._session.ledger.answered_keys(keys_of(requests), attempt=attempt)
        return requests.without(answered | self._session.tally.withheld)
