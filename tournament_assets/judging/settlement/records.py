"""The judging stage's records (batches, replies, failures), and the protocol of their store."""

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
    """Return the purpose of asking one of several judges, which keeps their work separate."""
    return f"{_OF_JUDGE}{judge_model}"


DIRECT_AT_ONCE = 4
"""How many direct messages are under way at once; they are lost if their process dies."""


@dataclass(frozen=True, slots=True)
class JudgingScope:
    """The scope of a batch's work, which only one process at a time may submit.

    Attributes:
        purpose: `verdicts`, or another purpose than the tournament's own verdicts.
        subject: What messages call it; the dimension and the mode by default.
    """

    tournament_id: str
    mode: str
    dimension: str
    purpose: str = VERDICTS
    subject: str = field(default="", compare=False)

    @property
    def is_of_verdicts(self) -> bool:
        """Whether it asks for the verdicts that the tournament is rated by."""
        return self.purpose == VERDICTS or self.judge_model is not None

    @property
    def judge_model(self) -> str | None:
        """The judge whose verdicts it asks for, if there are several judges; else None."""
        return self.purpose.removeprefix(_OF_JUDGE) if self.purpose.startswith(_OF_JUDGE) else None

    @property
    def title(self) -> str:
        """Its name in messages."""
        judge = "" if self.judge_model is None else f" by {self.judge_model}"
        return self.subject or f"{self.dimension} ({self.mode}){judge}"

    @property
    def holder(self) -> str:
        """The name of whoever is at work on it in messages, unique within a ledger."""
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
        attempt: 1 for the first attempt, 2 for the one after an unreadable reply, and so on.
        channel: How it is sent.
        begun_at: When it is about to be sent.
        most_usd: The most that each of them may cost, in US dollars; None where no price is known.
        rates: The prices at which their replies are billed, now and later; None where no price is
            known.
        at_once: How many of them are under way at a time, if they are sent one by one.
        effort: The model's thinking effort; see `requests.effort_of`.
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
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that was begun and not closed.

    Attributes:
        nonce: Our own name for it, part of every custom id in it.
        batch_id: The provider's name; None if it was not recorded.
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
    """The protocol of the store that records paid work."""

    def acquire_lease(self, scope: JudgingScope) -> Lease | str:
        """Return the right to submit a scope's work, or its present holder."""

    def renew_lease(self, lease: Lease) -> bool:
        """Renew a lease; return False if somebody else holds it now."""

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""

    def answered_keys(self, request_keys: Iterable[str], *, attempt: int = 1) -> set[str]:
        """Return which keys have a final reply to an attempt."""

    def iterate_replies(self, request_keys: Iterable[str]) -> Iterator[StoredReply]:
        """Yield the final replies there are, by key and then by attempt."""

    def failed_keys(
        self, request_keys: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, str]:
        """Return each request's latest failure by key: the type of the result or of the error.

        A request may have been answered since.

        Args:
            since: Leave out those that have not failed since then.
        """

    def keys_failed(self, result_type: str, *, times: int) -> set[str]:
        """Return requests that failed with a type of result at least a given number of times."""

    def open_batches(self, scope: JudgingScope) -> list[OpenBatch]:
        """Return the scope's batches that were begun and not closed, oldest first."""

    def batch_keys(self, nonce: str) -> set[str]:
        """Return the keys of the requests that a batch was to hold."""

    def known_batch_ids(self, batch_ids: AbstractSet[str]) -> set[str]:
        """Return which of the provider's batch names are already recorded."""

    def record_intent(
        self, lease: Lease, intent: BatchIntent, terms: BudgetTerms | None = None
    ) -> int:
        """Record the intent to send as many of a batch's requests as the budget allows.

        The spending, the requests under way and the most these may cost are checked in the
        transaction that records the intent, so that no two runs count on the same dollars.

        Args:
            terms: What may be spent; None sets no limit.

        Returns:
            How many of the requests, from the first on, were recorded; 0 if nothing was.

        Raises:
            JudgeError: If somebody else holds the lease now; nothing is recorded then.
            BudgetError: If a price needed to keep the limit is not known.
        """

    def draw_up_budget(self, terms: BudgetTerms) -> Budget | None:
        """Return what is left if all that is under way costs the most; None without a limit."""

    def record_created(self, nonce: str, batch_id: str) -> None:
        """Record the provider's name for a batch."""

    def record_rows(self, nonce: str, final: Sequence[tuple[str, ReplyRow]]) -> int:
        """Keep final replies by request key; the first one for a key and attempt stays.

        Returns:
            How many of them had been paid for before, in another batch.
        """

    def record_failures(self, nonce: str, failed: Sequence[tuple[str, Reply]]) -> None:
        """Record requests that got no reply this time and may be asked again."""

    def record_closed(self, nonce: str, *, state: str) -> None:
        """Record that a batch is closed: no more results are expected."""
