"""A ledger of dictionaries."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from tournament_assets.foundation.errors import JudgeError
from tournament_assets.judging.batch_service import Reply, ReplyRow
from tournament_assets.judging.costs.prices import Budget, BudgetTerms
from tournament_assets.judging.settlement.records import (
    BatchIntent,
    JudgingScope,
    Lease,
    OpenBatch,
    StoredReply,
)

from .builders import START


@dataclass
class KeptBatch:
    """A batch as the ledger knows it."""

    scope: JudgingScope
    intent: BatchIntent
    batch_id: str | None = None
    state: str = "intent"

    @property
    def keys(self) -> list[str]:
        return list(self.intent.request_keys)


@dataclass
class FakeLedger:
    """A ledger of dictionaries; it notes every write in `events`.

    Attributes:
        events: Where its writes are noted; shared with the judge to see their order.
        batches: Batches by nonce, in the order in which they were begun.
        replies: Final replies, and whose batch brought them, by request key and attempt.
        failures: Requests that got no reply, as they were noted.
        paid_twice: Keys whose reply was there already.
        leases: Who may submit what: tokens by scope.
        renewed: How often a lease was renewed.
    """

    events: list[str] = field(default_factory=list)
    batches: dict[str, KeptBatch] = field(default_factory=dict)
    replies: dict[tuple[str, int], tuple[str, ReplyRow]] = field(default_factory=dict)
    failures: list[tuple[str, Reply]] = field(default_factory=list)
    paid_twice: list[str] = field(default_factory=list)
    leases: dict[JudgingScope, str] = field(default_factory=dict)
    renewed: int = 0
    _tokens: Iterator[int] = field(default_factory=itertools.count)

    def acquire_lease(self, scope: JudgingScope) -> Lease | str:
        token = f"token {next(self._tokens)}"
        held = self.leases.setdefault(scope, token)
        return Lease(scope, token) if held == token else f"the holder of {held}"

    def renew_lease(self, lease: Lease) -> bool:
        self.renewed += 1
        return self.leases.get(lease.scope) == lease.token

    def release_lease(self, lease: Lease) -> None:
        if self.leases.get(lease.scope) == lease.token:
            del self.leases[lease.scope]

    def answered_keys(self, request_keys: Iterable[str], *, attempt: int = 1) -> set[str]:
        return {key for key in request_keys if (key, attempt) in self.replies}

    def iterate_replies(self, request_keys: Iterable[str]) -> Iterator[StoredReply]:
        wanted = set(request_keys)
        for key, attempt in sorted(self.replies):
            if key in wanted:
                nonce, row = self.replies[key, attempt]
                yield StoredReply(
                    request_key=key,
                    attempt=attempt,
                    channel=self.batches[nonce].intent.channel,
                    result_type=row.result_type,
                    stop_reason=row.stop_reason,
                    text=row.text,
                    error_type=row.error_type,
                    model=row.model,
                    usage=row.usage,
                    received_at=START,
                )

    def failed_keys(
        self, request_keys: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, str]:
        wanted = set(request_keys)
        return {
            key: row.error_type or row.result_type
            for key, row in self.failures
            if key in wanted and (since is None or since <= START)
        }

    def keys_failed(self, result_type: str, *, times: int) -> set[str]:
        counts = Counter(key for key, row in self.failures if row.result_type == result_type)
        return {key for key, count in counts.items() if count >= times}

    def open_batches(self, scope: JudgingScope) -> list[OpenBatch]:
        return [
            OpenBatch(
                nonce=nonce,
                batch_id=batch.batch_id,
                n_requests=len(batch.keys),
                begun_at=batch.intent.begun_at,
                channel=batch.intent.channel,
                judge_model=batch.intent.judge_model,
            )
            for nonce, batch in self.batches.items()
            if batch.scope == scope and batch.state in ("intent", "created")
        ]

    def batch_keys(self, nonce: str) -> set[str]:
        return set(self.batches[nonce].keys)

    def known_batch_ids(self, batch_ids: AbstractSet[str]) -> set[str]:
        return {batch.batch_id for batch in self.batches.values() if batch.batch_id} & batch_ids

    def record_intent(
        self, lease: Lease, intent: BatchIntent, terms: BudgetTerms | None = None
    ) -> int:
        assert terms is None or terms.limit_usd is None, "budgets are kept by a database"
        if self.leases.get(lease.scope) != lease.token:
            raise JudgeError(f"{lease.scope.dimension} was taken over; nothing was sent")
        assert intent.nonce not in self.batches
        self.events.append("ledger: intent")
        self.batches[intent.nonce] = KeptBatch(lease.scope, intent)
        return len(intent.request_keys)

    def draw_up_budget(self, terms: BudgetTerms) -> Budget | None:
        assert terms.limit_usd is None
        return None

    def record_created(self, nonce: str, batch_id: str) -> None:
        self.events.append("ledger: created")
        self.batches[nonce].batch_id = batch_id
        self.batches[nonce].state = "created"

    def record_rows(self, nonce: str, final: Sequence[tuple[str, ReplyRow]]) -> int:
        self.events.append("ledger: rows")
        attempt = self.batches[nonce].intent.attempt
        before = len(self.paid_twice)
        for key, row in final:
            first_nonce, _ = self.replies.setdefault((key, attempt), (nonce, row))
            if first_nonce != nonce:
                self.paid_twice.append(key)
        return len(self.paid_twice) - before

    def record_failures(self, nonce: str, failed: Sequence[tuple[str, Reply]]) -> None:
        assert nonce in self.batches
        self.events.append("ledger: failures")
        self.failures.extend(failed)

    def record_closed(self, nonce: str, *, state: str) -> None:
        self.events.append(f"ledger: {state}")
        self.batches[nonce].state = state

    @property
    def states(self) -> list[str]:
        """What became of each batch, in the order in which they were begun."""
        return [batch.state for batch in self.batches.values()]

    def text_of(self, key: str, attempt: int = 1) -> str | None:
        """Return what the judge wrote."""
        return self.replies[key, attempt][1].text

    def answered(self, attempt: int = 1) -> set[str]:
        """Return the keys that have a reply to an attempt."""
        return {key for key, number in self.replies if number == attempt}
