"""A batch service of lists, which fails when and how a test says."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.judging.requests.requests import request_key_of

from .builders import START, Clock, failed_row, failure, reply_row

Answer = Callable[[SubmittedRequest], ReplyRow]
Reading = Callable[[Sequence[ReplyRow]], Iterator[ReplyRow]]
"""What one reading of a batch's results yields of its rows."""
NONCE_LENGTH = 12


def key_in(custom_id: str) -> str:
    """Return the request that a row of any of our batches belongs to."""
    key = request_key_of(custom_id, nonce=custom_id[:NONCE_LENGTH])
    assert key is not None
    return key


@dataclass(frozen=True)
class Creation:
    """What becomes of one attempt to create a batch.

    Attributes:
        error: What the client hears; None if it hears the truth.
        is_accepted: Whether there is a batch afterwards.
        lag: Seconds until the batch is listed.
    """

    error: JudgeError | None = None
    is_accepted: bool = True
    lag: float = 0.0


WELL = Creation()
ANSWER_LOST = Creation(failure(JudgeFailure.AMBIGUOUS))
REQUEST_LOST = Creation(failure(JudgeFailure.AMBIGUOUS), is_accepted=False)


def refused(kind: JudgeFailure, *, retry_after: float | None = None) -> Creation:
    """Refuse a batch in some way."""
    return Creation(failure(kind, retry_after=retry_after), is_accepted=False)


@dataclass
class AcceptedBatch:
    """A batch that is paid for; times are seconds on the clock."""

    batch_id: str
    requests: list[SubmittedRequest]
    rows: list[ReplyRow]
    created_at: float
    ends_at: float
    listed_at: float
    is_ours: bool = True


@dataclass
class FakeJudge:
    """A batch service: each batch ends some time after it was created.

    Attributes:
        clock: What tells whether a batch has ended.
        events: Where its calls are noted; shared with the ledger to see their order.
        answer: Makes the row of one request, when it is accepted.
        durations: Seconds until each batch ends, in the order they are created; then 0.
        creations: What becomes of the next creations; then all go well.
        polls: How the next looks at a batch fail.
        listings: How the next lists fail.
        readings: What the next readings of results yield; then everything, the last row first.
        direct: How the next direct questions fail; None is none.
        largest: The most requests that a batch may hold.
        archived: Batches whose results are gone.
        counted: How many results the service counts in a batch that has ended; None is all.
        unknown_until: When the service knows of a batch; it lists some that it does not know.
        tells_times: Whether the list says when a batch was created.
    """

    clock: Clock
    events: list[str] = field(default_factory=list)
    answer: Answer = lambda request: reply_row(request.custom_id)
    durations: Sequence[float] = ()
    creations: list[Creation] = field(default_factory=list)
    polls: list[JudgeError] = field(default_factory=list)
    listings: list[JudgeError] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    direct: list[JudgeError | None] = field(default_factory=list)
    largest: float = float("inf")
    archived: set[str] = field(default_factory=set)
    counted: int | None = None
    unknown_until: dict[str, float] = field(default_factory=dict)
    tells_times: bool = True
    batches: list[AcceptedBatch] = field(default_factory=list)
    direct_rows: list[ReplyRow] = field(default_factory=list)
    direct_requests: list[SubmittedRequest] = field(default_factory=list)
    checked_models: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        self.events.append("judge: create")
        held = list(requests)
        if len(held) > self.largest:
            raise failure(JudgeFailure.TOO_LARGE)
        creation = self.creations.pop(0) if self.creations else WELL
        if creation.is_accepted:
            rows = [self.answer(request) for request in held]
            number = len(self.ours)
            duration = self.durations[number] if number < len(self.durations) else 0.0
            self.add_batch(held, rows, duration=duration, lag=creation.lag)
        if creation.error is not None:
            raise creation.error
        return self._status(self.batches[-1])

    def list_batches(self) -> Iterator[BatchStatus]:
        self.events.append("judge: list")
        if self.listings:
            raise self.listings.pop(0)
        listed = [batch for batch in self.batches if batch.listed_at <= self.clock.seconds]
        for batch in sorted(listed, key=lambda batch: -batch.created_at):
            created_at = START + timedelta(seconds=batch.created_at)
            yield BatchStatus(
                batch_id=batch.batch_id,
                created_at=created_at if self.tells_times else None,
                has_ended=self._status(batch).has_ended,
                n_requests=len(batch.rows),
            )

    def get_batch(self, batch_id: str) -> BatchStatus:
        if self.polls:
            raise self.polls.pop(0)
        return self._status(self._find(batch_id))

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        self.events.append("judge: results")
        batch = self._find(batch_id)
        if batch_id in self.archived:
            raise failure(JudgeFailure.LOST)
        reading = self.readings.pop(0) if self.readings else reversed
        yield from reading(batch.rows)

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        with self._lock:
            self.events.append("judge: ask")
            self.direct_requests.append(request)
            error = self.direct.pop(0) if self.direct else None
            if error is not None:
                raise error
            row = self.answer(request)
            self.direct_rows.append(row)
            return row

    def check_model(self, model: str) -> str | None:
        self.events.append("judge: check")
        self.checked_models.append(model)
        return None

    def add_batch(
        self,
        requests: Sequence[SubmittedRequest],
        rows: Sequence[ReplyRow],
        *,
        created_at: float | None = None,
        duration: float = 0.0,
        lag: float = 0.0,
        is_ours: bool = True,
    ) -> str:
        """Take a batch without telling anybody, and return its name."""
        moment = self.clock.seconds if created_at is None else created_at
        self.batches.append(
            AcceptedBatch(
                batch_id=f"batch-{len(self.batches)}",
                requests=list(requests),
                rows=list(rows),
                created_at=moment,
                ends_at=moment + duration,
                listed_at=moment + lag,
                is_ours=is_ours,
            )
        )
        return self.batches[-1].batch_id

    def add_foreign(
        self, n_requests: int, *, created_at: float | None = None, duration: float = 0.0
    ) -> str:
        """Let somebody else submit a batch, and return its name."""
        rows = [reply_row(f"foreign-{number}") for number in range(n_requests)]
        return self.add_batch([], rows, created_at=created_at, duration=duration, is_ours=False)

    @property
    def ours(self) -> list[AcceptedBatch]:
        """The batches that we submitted, in the order they were accepted."""
        return [batch for batch in self.batches if batch.is_ours]

    @property
    def asked(self) -> list[int]:
        """How many requests each batch held, in the order they were accepted."""
        return [len(batch.requests) for batch in self.ours]

    @property
    def paid(self) -> Counter[str]:
        """How many replies to each request were written, and have to be paid."""
        rows = [row for batch in self.ours for row in batch.rows] + self.direct_rows
        return Counter(key_in(row.custom_id) for row in rows if row.result_type == "succeeded")

    def _find(self, batch_id: str) -> AcceptedBatch:
        if self.clock.seconds < self.unknown_until.get(batch_id, 0.0):
            raise failure(JudgeFailure.UNKNOWN)
        return next(batch for batch in self.batches if batch.batch_id == batch_id)

    def _status(self, batch: AcceptedBatch) -> BatchStatus:
        size = len(batch.rows)
        if self.clock.seconds < batch.ends_at:
            return BatchStatus(batch.batch_id, False, size)
        counted = size if self.counted is None else self.counted
        return BatchStatus(batch.batch_id, True, counted)


def cut_after(n_rows: int) -> Reading:
    """Break off after some rows, as a lost connection does."""

    def read(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        yield from list(reversed(rows))[:n_rows]
        raise failure(JudgeFailure.TRANSIENT)

    return read


def end_early(n_rows: int) -> Reading:
    """End after some rows as if there were no more."""
    return lambda rows: iter(list(reversed(rows))[:n_rows])


def unparsable(n_rows: int) -> Reading:
    """Yield lines that are not JSON in the place of the first rows."""
    line = reply_row("", result_type="unparsable", error_message="{'custom_id")
    return lambda rows: iter([line] * n_rows + list(rows[n_rows:]))


def adding(*more: ReplyRow) -> Reading:
    """Yield some rows besides."""
    return lambda rows: iter([*reversed(rows), *more])


def failing(*kinds: str) -> Answer:
    """Answer the first requests with these kinds of rows, and all others with a verdict."""
    left = list(kinds)

    def answer(request: SubmittedRequest) -> ReplyRow:
        if left:
            return failed_row(request.custom_id, left.pop(0))
        return reply_row(request.custom_id)

    return answer
