"""What the judging stage writes down, and the protocol of where: batches, replies, failures."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tournament_assets.judging.batch_service import Channel, Reply, ReplyRow
from tournament_assets.judging.costs.prices import Budget, BudgetTerms, TokenRates

VERDICTS = "verdicts"
"""The purpose of asking a judge for what the tournament is rated by."""
RESPONSES = "responses"
"""The purpose of asking a model for its own responses, which a judge then sees."""
_OF_JUDGE = f"{VERDICTS} of "


def verdicts_of(judge_model: str) -> str:
    """Return the purpose of asking one of several judges, which keeps the judges' work apart."""
    return f"{_OF_JUDGE}{judge_model}"


DIRECT_AT_ONCE = 4
"""So many direct messages are under way at once, and lost with the process that sent them."""


@dataclass(frozen=True, slots=True)
class JudgingScope:
    """Whose work a batch is: what only one process at a time may submit.

    Attributes:
        purpose: `verdicts`, or what else is asked besides the tournament's own verdicts.
        subject: What messages call it; the dimension and the mode by default.
    """

    tournament_id: str
    mode: str
    dimension: str
    purpose: str = VERDICTS
    subject: str = field(default="", compare=False)

    @property
    def is_of_verdicts(self) -> bool:
        """Whether it is what the tournament is rated by, of its judge or of one of several."""
        return self.purpose == VERDICTS or self.judge_model is not None

    @property
    def judge_model(self) -> str | None:
        """The one of several judges whose verdicts it is; None for all else."""
        return self.purpose.removeprefix(_OF_JUDGE) if self.purpose.startswith(_OF_JUDGE) else None

    @property
    def title(self) -> str:
        """What messages call it."""
        judge = "" if self.judge_model is None else f" by {self.judge_model}"
        return self.subject or f"{self.dimension} ({self.mode}){judge}"

    @property
    def holder(self) -> str:
        """What messages call whoever is at work on it, among all tournaments of a ledger."""
        if self.purpose == RESPONSES:
            return f"responses of entrant {self.dimension[:12]}"
        return f"{self.dimension} ({self.mode}) of {self.tournament_id}"

    @property
    def activity(self) -> str:
        """What is being done about it, for messages."""
        return f"{self.title} is being {'asked' if self.purpose == RESPONSES else 'judged'}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one holder to submit a scope's work; it ends by itself unless it is renewed."""

    scope: JudgingScope
    token: str


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """What is about to be sent.

    Attributes:
        nonce: Our own name for it, part of every custom id in it.
        judge_model: The model that is asked.
        attempt: 1 for the first question, 2 for the one after an unreadable reply, and so on.
        channel: How it is sent.
        begun_at: When it is about to be sent.
        most_usd: The most that each of them may cost, in US dollars; None where no price is known.
        rates: What their tokens cost, by which their replies are billed for ever; None where no
            price is known.
        at_once: How many of them are under way at a time, if they are sent one by one.
    """

    nonce: str
    judge_model: str
    attempt: int
    channel: Channel
    begun_at: datetime
    request_keys: Sequence[str]
    most_usd: Sequence[float] | None = None
    rates: TokenRates | None = None
    at_once: int = DIRECT_AT_ONCE


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that was begun and not closed.

    Attributes:
        nonce: Our own name for it, part of every custom id in it.
        batch_id: The provider's name; None if nobody wrote it down.
        n_requests: How many requests it holds.
        begun_at: When its intent was written down.
        channel: How it was sent.
        judge_model: The model that is asked.
    """

    nonce: str
    batch_id: str | None
    n_requests: int
    begun_at: datetime
    channel: Channel
    judge_model: str


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch that the provider has confirmed; see `OpenBatch`."""

    nonce: str
    batch_id: str
    begun_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReply(Reply):
    """A final reply, as the ledger holds it.

    Attributes:
        request_key: SHA-256 of the request it answers.
        attempt: Which attempt it answers; 1 is the first.
        channel: How the request was sent.
        received_at: When it was written down.
        raw: Canonical JSON of the row as it was received; empty where it was not read.
    """

    request_key: str
    attempt: int
    channel: Channel
    received_at: datetime
    raw: str = ""


class JudgingLedger(Protocol):
    """Where paid work is written down."""

    def acquire_lease(self, scope: JudgingScope) -> Lease | str:
        """Return the right to submit a scope's work, or its present holder."""

    def renew_lease(self, lease: Lease) -> bool:
        """Keep a lease for another while; False if it went to somebody else."""

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""

    def answered_keys(self, request_keys: Iterable[str], *, attempt: int = 1) -> set[str]:
        """Return those keys that have a final reply to that attempt."""

    def iterate_replies(self, request_keys: Iterable[str]) -> Iterator[StoredReply]:
        """Yield the final replies there are, by key and then by attempt."""

    def failed_keys(
        self, request_keys: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, str]:
        """Return how requests failed last, by key: the result's type or the error's.

        A request may have been answered since.

        Args:
            since: Leave out those that have not failed since then.
        """

    def keys_failed(self, result_type: str, *, times: int) -> set[str]:
        """Return the requests that failed with a type of result at least so many times."""

    def open_batches(self, scope: JudgingScope) -> list[OpenBatch]:
        """Return the scope's batches that were begun and not closed, oldest first."""

    def batch_keys(self, nonce: str) -> set[str]:
        """Return the keys of the requests that a batch was to hold."""

    def known_batch_ids(self, batch_ids: AbstractSet[str]) -> set[str]:
        """Return those provider's names that belong to a batch written down already."""

    def record_intent(
        self, lease: Lease, intent: BatchIntent, terms: BudgetTerms | None = None
    ) -> int:
        """Write down that as many of a batch's requests are about to be sent as may be paid for.

        What is spent, what is under way and what these may cost are looked at in the transaction
        that writes them down, so that no two runs ever count on the same dollars.

        Args:
            terms: What may be spent; None sets no limit.

        Returns:
            How many of the requests, from the first one on, are written down; if none is, nothing
            is.

        Raises:
            JudgeError: If the lease went to somebody else; nothing is written then.
            BudgetError: If a price is not known without which the limit cannot be kept.
        """

    def draw_up_budget(self, terms: BudgetTerms) -> Budget | None:
        """Return what is left if all that is under way costs its most; None without a limit."""

    def record_created(self, nonce: str, batch_id: str) -> None:
        """Write down the provider's name of a batch."""

    def record_rows(self, nonce: str, final: Sequence[tuple[str, ReplyRow]]) -> int:
        """Keep final replies, by request key; the first one of a key and attempt stays.

        Returns:
            How many of them had been paid for before, in another batch.
        """

    def record_failures(self, nonce: str, failed: Sequence[tuple[str, Reply]]) -> None:
        """Note requests that got no reply this time and may be asked again."""

    def record_closed(self, nonce: str, *, state: str) -> None:
        """Write down that nothing more will come of a batch."""
