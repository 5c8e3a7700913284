"""The state that all steps of one settlement share: scope, ledger, service, waiting and tally.

Also runs several pieces of work that wait for services at once, each in a stoppable thread.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from tournament_assets.judging.batch_service import (
    AsksDirectly,
    Channel,
    ReplyRow,
    TakesBatches,
    takes_batches,
)
from tournament_assets.judging.costs.prices import BudgetTerms
from tournament_assets.judging.requests.requests import ModelRequest
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.judging.settlement.records import (
    DIRECT_AT_ONCE,
    JudgingLedger,
    JudgingScope,
    Lease,
)
from tournament_assets.tournament.errors import (
    InterruptedWorkError,
    JudgeError,
    JudgeWaitingError,
    LedgerError,
)
from tournament_assets.tournament.judges import Judge


class JudgingProgress(Protocol):
    """The listener that is told of the progress of judging."""

    def note(self, message: str) -> None:
        """Say what is happening."""

    def advance(self, done: int, total: int) -> None:
        """Say how many of the requests are answered."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


Approval = Callable[[Sequence[ModelRequest], Channel], None]
"""Raises `BudgetError` if asking some requests would cost more than may be spent."""
Listener = Callable[[Sequence[tuple[str, ReplyRow]]], None]
"""Called with rows, each with its request's key, as soon as the ledger holds them."""
JUDGE_REMEDY = (
    "correct the judge's max_tokens or model, or, if the service was at fault, ask again with "
    "`tournament rejudge`"
)


def approve_anything(_requests: Sequence[ModelRequest], _channel: Channel) -> None:
    """Approve every plan: there is no budget."""


def tell_nobody(_rows: Sequence[tuple[str, ReplyRow]]) -> None:
    """Ignore the rows: nobody but the ledger needs them."""


@dataclass(frozen=True, slots=True)
class WaitingPolicy:
    """How long to wait, and how often to try again.

    Attributes:
        poll_initial_seconds: Wait before the second look; it doubles from look to look.
        poll_max_seconds: The longest wait between two looks.
        deadline_seconds: How long to wait for batches before leaving them to a later run.
        prewarm_wait_seconds: How long to wait for the request that warms the prompt cache before
            sending the others; None sends no request ahead.
        adopt_grace_seconds: How long a batch that was accepted may be missing from the list of
            batches; only then is it taken for never accepted.
        creation_seconds: How long the creation of a batch may be under way.
        max_rounds: How often requests with transient failures are sent as a batch.
        max_direct: How many requests may be asked one by one after that.
        max_readings: How often results that came in part are read.
        sleep: Waits that many seconds.
        monotonic: Seconds on a clock that never goes back.
        now: The time of day, aware, in UTC.
    """

    poll_initial_seconds: float
    poll_max_seconds: float
    deadline_seconds: float
    prewarm_wait_seconds: float | None = None
    adopt_grace_seconds: float = 600.0
    creation_seconds: float = 600.0
    max_rounds: int = 3
    max_direct: int = 200
    max_readings: int = 5
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now

    @classmethod
    def of(
        cls,
        judge: Judge,
        *,
        deadline_seconds: float | None = None,
        prewarms: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> "WaitingPolicy":
        """Return the waiting policy for a judge's service.

        Args:
            deadline_seconds: How long to wait for batches; as long as the judge says unless given.
            prewarms: Whether one request is sent ahead to fill the prompt cache.
            sleep: Waits that many seconds.
        """
        waiting = judge.waiting
        return cls(
            poll_initial_seconds=waiting.poll_initial_seconds,
            poll_max_seconds=waiting.poll_max_seconds,
            deadline_seconds=(
                waiting.deadline_seconds if deadline_seconds is None else deadline_seconds
            ),
            prewarm_wait_seconds=waiting.prewarm_wait_seconds if prewarms else None,
            adopt_grace_seconds=judge.grace_seconds,
            max_rounds=waiting.max_rounds,
            max_direct=waiting.max_direct,
            sleep=sleep,
        )


@dataclass(slots=True)
class Tally:
    """What a settlement has done so far.

    Attributes:
        total: Distinct requests that are wanted.
        answered: Those that have a reply.
        submitted: Requests sent to the judge.
        harvested: Replies read, from new batches and from resumed ones.
        failed: Requests that came back without a reply.
        batches: Batches created.
        resumed: Batches of an earlier run that were taken up again.
        adopted: Batches whose creation was not confirmed, and that were found.
        abandoned: Requests of batches whose creation was not confirmed, and that were not found.
        paid_twice: Replies to requests that another batch had answered.
        second_questions: Requests asked once more after an unreadable reply.
        direct: Requests asked one by one.
        unparsable: Requests whose line of the results is not JSON; if asked again, they may have
            been paid for twice.
        withheld: Requests that were paid for and whose results could not be read: they are not
            asked again without permission.
    """

    total: int = 0
    answered: int = 0
    submitted: int = 0
    harvested: int = 0
    failed: int = 0
    batches: int = 0
    resumed: int = 0
    adopted: int = 0
    abandoned: int = 0
    paid_twice: int = 0
    second_questions: int = 0
    direct: int = 0
    unparsable: int = 0
    withheld: set[str] = field(default_factory=set)

    def add(self, other: "Tally") -> None:
        """Add what another settlement has done."""
        for each in fields(Tally):
            own, further = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, own | further if isinstance(own, set) else own + further)


@dataclass(frozen=True, slots=True)
class UnreadResults:
    """The results of an ended batch that could not be read.

    Attributes:
        n_counted: The number of results, as the service counts them.
        missing: Requests of the batch without a row.
        failed: Requests of the batch whose row holds no reply.
        reason: Why the rest was not read.
    """

    n_counted: int
    missing: frozenset[str]
    failed: frozenset[str]
    reason: str


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """The options of a settlement.

    Attributes:
        policy: How long is waited for what.
        approve: Called before anything of a plan is sent, to check that it can be paid.
        may_pay_again: Whether requests whose results are lost or unread may be asked again.
        failed_since: Requests that failed since then are not asked again; None excludes none.
        reply_format: How the judge writes its verdict; None where a reply is no verdict, and is
            never asked for twice.
        on_rows: Called with every row once it is in the ledger; may raise `JudgeError` if nothing
            more is to be asked.
        remedy: What a person can do if every request is refused as invalid.
        terms: The budget terms of every request; None means no limit and no known price.
        max_batch_requests: The most requests of a batch; None for as many as usual.
        max_batch_bytes: The most bytes of a batch; None for as many as usual.
        max_in_flight: How many requests are asked directly at a time.
        max_tries: How often a direct request that fails transiently is sent.
        refusals_are_final: Whether a request that is refused as invalid when it is asked directly,
            for nothing, is not asked again by the next run.
        has_answered: Whether the service has answered requests like these before, so that a refusal
            concerns single requests.
        places: Entered for each direct request; settlements that share a service share it, so that
            together they do not exceed the limit.
    """

    policy: WaitingPolicy
    approve: Approval = approve_anything
    may_pay_again: bool = False
    failed_since: datetime | None = None
    reply_format: ReplyFormat | None = "line"
    on_rows: Listener = tell_nobody
    remedy: str = JUDGE_REMEDY
    terms: BudgetTerms | None = None
    max_batch_requests: int | None = None
    max_batch_bytes: int | None = None
    max_in_flight: int = DIRECT_AT_ONCE
    max_tries: int = 4
    refusals_are_final: bool = True
    has_answered: bool = False
    places: AbstractContextManager[Any] = field(default_factory=nullcontext)


@dataclass(frozen=True, slots=True)
class JudgingSession:
    """One settlement under way.

    Attributes:
        ledger: Where everything is recorded.
        progress: Who is told.
        options: How.
        tally: What was done so far.
        unread: Ended batches whose results break off, by nonce.
        paid_again: Requests whose unread results were written off in this settlement.
    """

    lease: Lease
    ledger: JudgingLedger
    service: AsksDirectly
    progress: JudgingProgress
    options: JudgingOptions
    tally: Tally = field(default_factory=Tally)
    unread: dict[str, UnreadResults] = field(default_factory=dict)
    paid_again: set[str] = field(default_factory=set)

    @property
    def policy(self) -> WaitingPolicy:
        """How long is waited for what."""
        return self.options.policy

    @property
    def scope(self) -> JudgingScope:
        """Whose work it is."""
        return self.lease.scope

    @property
    def batches(self) -> TakesBatches:
        """The service, as one that takes batches.

        Raises:
            JudgeError: If it takes none, and so knows nothing of those under way at another.
        """
        if takes_batches(self.service):
            return self.service
        raise JudgeError(
            f"batches of {self.scope.title} are under way, and {self.service!r} takes none; "
            "expected the service that they were sent to: name it again, and run until they are "
            "collected"
        )

    def check_model(self, model: str) -> None:
        """Return if requests can be sent to a model, as far as the service says.

        Raises:
            JudgeError: If they cannot.
        """
        warning = self.service.check_model(model)
        if warning is not None:
            self.progress.note(warning)

    def waits(self) -> "Waits":
        """Return waits that double from one to the next."""
        return Waits(self.policy)


class Waits:
    """Waits between two looks: each is twice the one before, up to a longest one."""

    def __init__(self, policy: WaitingPolicy) -> None:
        self._policy = policy
        self._next = policy.poll_initial_seconds
        self._started = policy.monotonic()

    @property
    def waited(self) -> float:
        """Seconds since the first look."""
        return self._policy.monotonic() - self._started

    def sleep(self, *, at_least: float | None = None, at_most: float = float("inf")) -> None:
        """Wait once."""
        self._policy.sleep(min(max(self._next, at_least or 0.0), at_most))
        self._next = min(self._next * 2, self._policy.poll_max_seconds)


_RENEW_SECONDS = 20.0


@contextmanager
def open_session(
    scope: JudgingScope,
    *,
    ledger: JudgingLedger,
    service: AsksDirectly,
    progress: JudgingProgress,
    options: JudgingOptions,
) -> Iterator[JudgingSession]:
    """Open the session that alone may settle a scope's requests.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
    """
    with hold_lease(ledger, scope, policy=options.policy, progress=progress) as lease:
        yield JudgingSession(lease, ledger, service, progress, options)


@contextmanager
def hold_lease(
    ledger: JudgingLedger,
    scope: JudgingScope,
    *,
    policy: WaitingPolicy,
    progress: JudgingProgress,
) -> Iterator[Lease]:
    """Wait for a scope's lease, keep it, and give it back.

    While it is held a thread renews it. If somebody else gets it anyway, because this process was
    suspended for too long, the ledger refuses the next intent.

    Raises:
        JudgeWaitingError: If somebody else holds it until the deadline.
    """
    lease = _wait_for_lease(ledger, scope, policy=policy, progress=progress)
    is_over = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(ledger, lease, is_over), name="lease renewal", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        is_over.set()
        renewing.join()
        ledger.release_lease(lease)


def _wait_for_lease(
    ledger: JudgingLedger,
    scope: JudgingScope,
    *,
    policy: WaitingPolicy,
    progress: JudgingProgress,
) -> Lease:
    waits = Waits(policy)
    while True:
        lease = ledger.acquire_lease(scope)
        if isinstance(lease, Lease):
            return lease
        progress.note(f"{scope.activity} by {lease}; waiting")
        remaining = policy.deadline_seconds - waits.waited
        if remaining <= 0:
            raise JudgeWaitingError(
                f"{scope.activity} by {lease}; expected it to finish within "
                f"{policy.deadline_seconds:.0f} s; run again later: what it pays for is in the "
                "ledger"
            )
        waits.sleep(at_most=remaining)


def _renew(ledger: JudgingLedger, lease: Lease, is_over: threading.Event) -> None:
    while not is_over.wait(_RENEW_SECONDS):
        try:
            if not ledger.renew_lease(lease):
                return
        except LedgerError:
            # A ledger that is busy now may be free in a while; the lease outlives a few misses.
            continue


Done = TypeVar("Done")
Sleep = Callable[[float], None]
"""Waits a number of seconds."""
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Piece(Generic[Done]):
    """A piece of work.

    Attributes:
        title: What messages call it.
        do: Does it, given the function to wait with.
    """

    title: str
    do: Callable[[Sleep], Done]


def run_together(pieces: Sequence[Piece[Done]], *, log: Callable[[str], None]) -> list[Done]:
    """Run several pieces of work at once; return their results in order.

    A piece that fails does not stop the others: what they have sent is paid for. If the waiting
    thread is interrupted, each piece ends at its next wait, as if the process were killed there.
    The threads are daemons, so that the process does not wait for answers that nobody will read.

    Args:
        log: Called at once with a piece that failed while others go on.

    Raises:
        BaseException: What the first failed piece raised, once all have ended.
    """
    if len(pieces) == 1:
        return [piece.do(time.sleep) for piece in pieces]
    stopped = threading.Event()
    ended: SimpleQueue[int] = SimpleQueue()
    results: dict[int, Done] = {}
    problems: dict[int, BaseException] = {}

    def sleep(seconds: float) -> None:
        if stopped.wait(seconds):
            raise InterruptedWorkError("the run was interrupted")

    def do(number: int) -> None:
        try:
            results[number] = pieces[number].do(sleep)
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            problems[number] = error
        ended.put(number)

    threads = [
        threading.Thread(target=do, args=(number,), name=piece.title, daemon=True)
        for number, piece in enumerate(pieces)
    ]
    try:
        for thread in threads:
            thread.start()
        for n_left in reversed(range(len(threads))):
            number = ended.get()
            if number in problems and n_left:
                log(f"{pieces[number].title}: {problems[number]} ({n_left} more under way)")
    except BaseException:
        stopped.set()
        until = time.monotonic() + _STOP_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        raise
    for number in sorted(problems):
        raise problems[number]
    return [results[number] for number in range(len(pieces))]


def one_at_a_time(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a log that several threads can write to."""
    lock = threading.Lock()

    def tell(message: str) -> None:
        with lock:
            log(message)

    return tell
