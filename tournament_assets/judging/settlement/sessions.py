"""The state that all steps of one settlement share: scope, ledger, service, waiting and tally.

Also runs several pieces of work that wait for services at once, each in a stoppable thread.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import (
    InterruptedWorkError,
    JudgeError,
    JudgeWaitingError,
    LedgerError,
)
from tournament_assets.judging.batch_service import (
    AsksDirectly,
    Channel,
    Reply,
    ReplyRow,
    TakesBatches,
    takes_batches,
)
from tournament_assets.judging.costs.prices import BudgetTerms, most_usd
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.judging.service_errors import CAUSES
from tournament_assets.judging.settlement.records import (
    DIRECT_AT_ONCE,
    JudgingLedger,
    JudgingScope,
    Lease,
    StoredReply,
)
from tournament_assets.tournament.judges import Waiting


class JudgingProgress(Protocol):
    """Where the progress of judging is shown."""

    def note(self, message: str) -> None:
        """Say what is happening."""

    def advance(self, done: int, total: int) -> None:
        """Say how many of the requests are answered."""


class Approval(Protocol):
    """Whoever says whether something can be paid, and is told what is sent."""

    def check(
        self, requests: Sequence[ModelRequest], channel: Channel, seen: "SeenReplies"
    ) -> bool:
        """Return if asking some requests is expected to fit into the budget.

        Args:
            seen: What the replies so far were like.

        Returns:
            Whether not all may fit at `max_tokens`, so that caps are lowered to what replies take.

        Raises:
            BudgetError: If it would cost more than may be spent.
        """

    def commit(self, requests: Sequence[ModelRequest], write: Callable[[], int]) -> int:
        """Write what is about to be sent, so that nobody counts it as planned any more.

        Args:
            write: Writes it, and returns how many of the requests, from the first on, fit.

        Returns:
            What `write` returned.
        """

    def enough_usd(self) -> float:
        """Return the dollars that everything planned may cost, for messages."""


Listener = Callable[[Sequence[tuple[str, ReplyRow]]], None]
"""Called with rows, each with its request's key, as soon as the ledger holds them."""
JUDGE_REMEDY = (
    f"{CAUSES['invalid or filtered'].action}, or, if the service was at fault, ask again with "
    "`tournament rejudge`"
)
SERVER_REMEDY = (
    "see that the service answers and that base_url and key are right, and run again: what was "
    "answered is kept"
)


class ApproveAnything:
    """The approval of every plan, where there is no budget."""

    def check(
        self, _requests: Sequence[ModelRequest], _channel: Channel, _seen: "SeenReplies"
    ) -> bool:
        """Approve them."""
        return False

    def commit(self, _requests: Sequence[ModelRequest], write: Callable[[], int]) -> int:
        """Write them."""
        return write()

    def enough_usd(self) -> float:
        """Return zero: nobody asks."""
        return 0.0


def tell_nobody(_rows: Sequence[tuple[str, ReplyRow]]) -> None:
    """Ignore the rows: nobody but the ledger needs them."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How time passes.

    Attributes:
        sleep: Waits that many seconds.
        monotonic: Seconds on a clock that never goes back.
        now: The time of day, aware, in UTC.
    """

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


SYSTEM_CLOCK = Clock()
MAX_READINGS = 5
"""How often results that came in part are read."""


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
        for column in fields(Tally):
            count, further = getattr(self, column.name), getattr(other, column.name)
            total = count | further if isinstance(count, set) else count + further
            setattr(self, column.name, total)


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


_MARGIN_TOKENS = 64
_FEW = 5
_ENOUGH_REPLIES = 4
"""From so many replies on, their own lengths count instead of what was assumed."""


@dataclass(slots=True)
class SeenReplies:
    """The sizes of the replies to requests that differ in their message alone.

    Attributes:
        n_replies: How many there are.
        longest: Tokens of the longest, thinking included.
        least_read: The fewest tokens that a request had; None if unknown.
        output_tokens: Tokens of all of them.
        output_squares: The sum of the squares of their tokens.
        n_hits: Those whose request read its prefix from the cache.
        n_writes: Those whose request wrote it there.
        prompt_tokens: Tokens of the requests whose characters are known.
        prompt_characters: Characters of those.
    """

    n_replies: int = 0
    longest: int = 0
    least_read: int | None = None
    output_tokens: int = 0
    output_squares: int = 0
    n_hits: int = 0
    n_writes: int = 0
    prompt_tokens: int = 0
    prompt_characters: int = 0

    def add(self, reply: Reply, *, characters: int = 0) -> None:
        """Look at one more.

        Args:
            characters: How many its request has, prefix included; 0 if unknown.
        """
        usage = reply.usage
        if usage is not None and usage.output_tokens and usage.read_tokens:
            self.n_replies += 1
            self.longest = max(self.longest, usage.output_tokens)
            self.least_read = min(self.least_read or usage.read_tokens, usage.read_tokens)
            self.output_tokens += usage.output_tokens
            self.output_squares += usage.output_tokens**2
            self.n_hits += usage.cache_read_input_tokens > 0
            self.n_writes += usage.cache_creation_input_tokens > 0
            self.prompt_tokens += usage.read_tokens if characters else 0
            self.prompt_characters += characters

    def become(self, other: "SeenReplies") -> None:
        """Forget everything, and know what another one knows."""
        for column in fields(SeenReplies):
            setattr(self, column.name, getattr(other, column.name))

    @property
    def cap(self) -> int | None:
        """A cap that the next reply will hardly reach, the closer the more there are."""
        if not self.n_replies:
            return None
        return self.longest + max(_MARGIN_TOKENS, _FEW * self.longest // self.n_replies)

    @property
    def reply_tokens(self) -> tuple[float, float] | None:
        """The mean tokens of a reply and its standard error; None if too few are known."""
        n_replies = self.n_replies
        if n_replies < _ENOUGH_REPLIES:
            return None
        mean = self.output_tokens / n_replies
        variance = max(0.0, self.output_squares - n_replies * mean**2) / (n_replies - 1)
        return mean, math.sqrt(variance / n_replies)

    @property
    def hit_rate(self) -> float | None:
        """The share of requests after the first that read the prefix from the cache.

        None if no request wrote or read it.
        """
        if not (self.n_hits or self.n_writes):
            return None
        return min(1.0, self.n_hits / max(1, self.n_replies - 1))

    @property
    def tokens_per_character(self) -> float | None:
        """The tokens that a character of a request took; None if unknown."""
        return self.prompt_tokens / self.prompt_characters if self.prompt_characters else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementTerms:
    """How a settlement is to be done.

    Attributes:
        waiting: How long is waited for what, and how often tried.
        grace_seconds: How long a batch that was accepted may be missing from the list of batches;
            only then is it taken for never accepted.
        creation_seconds: How long the creation of a batch may be under way.
        channel: How requests are sent to a service that takes batches.
        prewarms: Whether a few requests are sent ahead of batches to fill the prompt cache.
        may_pay_again: Whether requests whose results are lost or unread may be asked again.
        failed_since: Requests that failed since then are not asked again; None excludes none.
        reply_format: How the judge writes its verdict; None where a reply is no verdict.
        is_usable: Whether a reply that is no verdict holds what was asked for; if not, it is asked
            for once more.
        remedy: What a person can do if every request is refused as invalid.
        budget: The budget terms of every request; None means no limit and no known price.
        max_batch_requests: The most requests of a batch; None for as many as usual.
        max_batch_bytes: The most bytes of a batch; None for as many as usual.
        max_in_flight: How many requests are asked directly at a time.
        max_tries: How often a direct request that fails transiently is sent.
        refusals_are_final: Whether a request that is refused as invalid when it is asked directly,
            for nothing, is not asked again by the next run.
        has_answered: Whether the service has answered requests like these before, so that a refusal
            concerns single requests.
    """

    waiting: Waiting
    grace_seconds: float = 600.0
    creation_seconds: float = 600.0
    channel: Channel = "batch"
    prewarms: bool = False
    may_pay_again: bool = False
    failed_since: datetime | None = None
    reply_format: ReplyFormat | None = "line"
    is_usable: Callable[[StoredReply], bool] = lambda _: True
    remedy: str = JUDGE_REMEDY
    budget: BudgetTerms | None = None
    max_batch_requests: int | None = None
    max_batch_bytes: int | None = None
    max_in_flight: int = DIRECT_AT_ONCE
    max_tries: int = 4
    refusals_are_final: bool = True
    has_answered: bool = False


@dataclass(slots=True, kw_only=True)
class JudgingSession:
    """One settlement: whose work it is, how it is to be done, and what was done so far.

    Attributes:
        scope: Whose work it is.
        ledger: Where everything is recorded.
        progress: Where messages and counts are shown.
        terms: How the work is to be done.
        clock: How time passes.
        approval: Says before anything of a plan is sent whether it can be paid.
        is_tight: Whether caps are lowered to what replies take.
        on_rows: Called with every row once it is in the ledger; may raise `JudgeError` if nothing
            more is to be asked.
        places: Entered for each direct request until its reply is written down; settlements that
            ask together share it, so that together they do not exceed the limit.
        tally: What was done so far.
        seen: What the replies so far were like.
        unread: Ended batches whose results break off, by nonce.
        cancelled: Batches cancelled at the service, by name: how many replies came, and how many
            requests have none.
        paid_again: Requests whose unread results were written off in this settlement.
        lease: The right to submit the scope's work, while `hold_lease` holds it.
        writing: Held while rows are written down and counted.
    """

    scope: JudgingScope
    ledger: JudgingLedger
    service: AsksDirectly
    progress: JudgingProgress
    terms: SettlementTerms
    clock: Clock = SYSTEM_CLOCK
    approval: Approval = field(default_factory=ApproveAnything)
    is_tight: bool = False
    on_rows: Listener = tell_nobody
    places: Callable[[], AbstractContextManager[Any]] = nullcontext
    tally: Tally = field(default_factory=Tally)
    seen: SeenReplies = field(default_factory=SeenReplies)
    unread: dict[str, UnreadResults] = field(default_factory=dict)
    cancelled: dict[str, tuple[int, int]] = field(default_factory=dict)
    paid_again: set[str] = field(default_factory=set)
    lease: Lease = field(init=False)
    writing: threading.Lock = field(default_factory=threading.Lock)

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

    @property
    def channel(self) -> Channel:
        """How requests are sent."""
        return self.terms.channel if takes_batches(self.service) else "direct"

    def most_usd(
        self, requests: Sequence[ModelRequest], channel: Channel
    ) -> NDArray[np.float64] | None:
        """Return the most that each request can cost; None if none is needed or one is unknown."""
        budget = self.terms.budget
        if budget is None:
            return None
        # Requests for verdicts have one prefix in common; those for responses need not.
        prefix_tokens = None if self.terms.reply_format is None else self.seen.least_read
        return most_usd(requests, budget.prices, channel, prefix_tokens=prefix_tokens)

    def check_budget(self, requests: Sequence[ModelRequest], channel: Channel) -> None:
        """Check that some requests can be paid, and note whether they may not at their most.

        Raises:
            BudgetError: If they cannot.
        """
        self.is_tight = self.approval.check(requests, channel, self.seen)

    @property
    def lower_cap(self) -> int | None:
        """The cap of requests in batches where the budget is tight; None for that of the config."""
        is_of_verdicts = self.terms.reply_format is not None
        return self.seen.cap if self.is_tight and is_of_verdicts else None

    def stop_if_cancelled(self) -> None:
        """Return if nothing was cancelled at the service.

        Raises:
            JudgeError: If a batch was: a person means that nothing more is to be sent now.
        """
        if self.cancelled:
            n_kept, n_missing = map(sum, zip(*self.cancelled.values(), strict=True))
            raise JudgeError(
                f"somebody cancelled {', '.join(self.cancelled)} at the service: {n_kept} replies "
                f"came before and are kept, {n_missing} requests were cancelled, and nothing more "
                f"is sent; {CAUSES['cancelled by a person'].action}"
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
        return Waits(self.terms.waiting, self.clock)


class Waits:
    """Waits between two looks: each is twice the one before, up to a longest one."""

    def __init__(self, waiting: Waiting, clock: Clock) -> None:
        self._clock = clock
        self._next = waiting.poll_initial_seconds
        self._longest = waiting.poll_max_seconds
        self._started = clock.monotonic()

    @property
    def waited(self) -> float:
        """Seconds since the first look."""
        return self._clock.monotonic() - self._started

    def sleep(self, *, at_least: float | None = None, at_most: float = float("inf")) -> None:
        """Wait once."""
        self._clock.sleep(min(max(self._next, at_least or 0.0), at_most))
        self._next = min(self._next * 2, self._longest)


_RENEW_SECONDS = 20.0


@contextmanager
def hold_lease(session: JudgingSession) -> Iterator[None]:
    """Wait for the lease of a session's scope, keep it, and give it back.

    Who holds it alone may settle the scope's requests. While it is held a thread renews it. If
    somebody else gets it anyway, because this process was suspended for too long, the ledger
    refuses the next intent. An error names the scope.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
    """
    session.lease = _wait_for_lease(session)
    is_over = threading.Event()
    renewing = threading.Thread(
        target=_renew,
        args=(session.ledger, session.lease, is_over),
        name="lease renewal",
        daemon=True,
    )
    renewing.start()
    try:
        yield
    except JudgeError as error:
        title = session.scope.title
        if title not in str(error) and not isinstance(error, JudgeWaitingError):
            error.args = (f"{title}: {error}",)
        raise
    finally:
        is_over.set()
        renewing.join()
        session.ledger.release_lease(session.lease)


def _wait_for_lease(session: JudgingSession) -> Lease:
    waits, scope, deadline = session.waits(), session.scope, session.terms.waiting.deadline_seconds
    while True:
        lease = session.ledger.acquire_lease(scope)
        if isinstance(lease, Lease):
            return lease
        session.progress.note(f"{scope.activity} by {lease}; waiting")
        remaining = deadline - waits.waited
        if remaining <= 0:
            raise JudgeWaitingError(
                f"{scope.activity} by {lease}; expected it to finish within {deadline:.0f} s; run "
                "again later: what it pays for is in the ledger"
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
                message, title = str(problems[number]), pieces[number].title
                if not message.startswith(title):
                    message = f"{title}: {message}"
                log(f"{message} ({n_left} more under way)")
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
