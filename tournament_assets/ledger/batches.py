"""Judge batches, from the intent to send one until nothing more will come of it."""

from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import sqlalchemy as sa

from tournament_assets.judging.costs.budgets import BudgetTerms
from tournament_assets.judging.settlement.records import (
    BatchIntent,
    JudgingScope,
    Lease,
    OpenBatch,
    SubmittedBatch,
)
from tournament_assets.ledger import schema
from tournament_assets.ledger.database import chunks, time_text
from tournament_assets.ledger.leases import LeaseRecords, is_of, scope_names, scope_of
from tournament_assets.ledger.spending import SpendingRecords
from tournament_assets.tournament.errors import JudgeError

_BATCHES = schema.batches
_OPEN = ("intent", "created")


_SPENDING_LOCK = 0x7370656E64  # any number that others in the same database do not use


class BatchRecords(LeaseRecords, SpendingRecords):
    """The part of the ledger that knows what was sent."""

    def open_batches(self, scope: JudgingScope) -> list[OpenBatch]:
        """Return the scope's batches that were begun and not closed, oldest first."""
        query = (
            sa.select(_BATCHES)
            .where(*is_of(_BATCHES, scope), _BATCHES.c.state.in_(_OPEN))
            .order_by(_BATCHES.c.begun_at, _BATCHES.c.nonce)
        )
        with self._transaction() as connection:
            return [_open_batch(row) for row in connection.execute(query)]

    def open_scopes(self, tournament_id: str) -> dict[JudgingScope, list[OpenBatch]]:
        """Return a tournament's batches that were begun and not closed, by scope."""
        query = (
            sa.select(_BATCHES)
            .where(_BATCHES.c.tournament_id == tournament_id, _BATCHES.c.state.in_(_OPEN))
            .order_by(_BATCHES.c.begun_at, _BATCHES.c.nonce)
        )
        scopes: dict[JudgingScope, list[OpenBatch]] = {}
        with self._transaction() as connection:
            for row in connection.execute(query):
                scopes.setdefault(scope_of(row), []).append(_open_batch(row))
        return scopes

    def purposes_begun(self, tournament_id: str, mode: str, dimension: str) -> list[str]:
        """Return what a dimension was asked for in a mode, in the order it was first begun."""
        begun = sa.func.min(_BATCHES.c.begun_at)
        query = (
            sa.select(_BATCHES.c.purpose)
            .where(
                _BATCHES.c.tournament_id == tournament_id,
                _BATCHES.c.mode == mode,
                _BATCHES.c.dimension == dimension,
            )
            .group_by(_BATCHES.c.purpose)
            .order_by(begun, _BATCHES.c.purpose)
        )
        with self._transaction() as connection:
            return list(connection.scalars(query))

    def batch_keys(self, nonce: str) -> set[str]:
        """Return the keys of the requests that a batch was to hold."""
        query = sa.select(schema.batch_requests.c.request_key).where(
            schema.batch_requests.c.nonce == nonce
        )
        with self._transaction() as connection:
            return set(connection.scalars(query))

    def known_batch_ids(self, batch_ids: AbstractSet[str]) -> set[str]:
        """Return those provider's names that belong to a batch written down already."""
        known: set[str] = set()
        with self._transaction() as connection:
            for chunk in chunks(batch_ids):
                query = sa.select(_BATCHES.c.batch_id).where(_BATCHES.c.batch_id.in_(chunk))
                known.update(connection.scalars(query))
        return known

    def batch_states(
        self, *, batch_ids: AbstractSet[str] = frozenset(), nonces: AbstractSet[str] = frozenset()
    ) -> dict[str, str]:
        """Return what became of batches, by the provider's name or by our own."""
        states: dict[str, str] = {}
        with self._transaction() as connection:
            for column, names in ((_BATCHES.c.batch_id, batch_ids), (_BATCHES.c.nonce, nonces)):
                for chunk in chunks(names):
                    query = sa.select(column, _BATCHES.c.state).where(column.in_(chunk))
                    states.update((name, state) for name, state in connection.execute(query))
        return states

    def begin_recovery(
        self, scope: JudgingScope, batch: SubmittedBatch, *, model: str, attempt: int, size: int
    ) -> None:
        """Write down a batch that was paid and forgotten; it is closed when its rows are held.

        One that was written down before keeps what is known of it, but for its state.
        """
        values = {"batch_id": batch.batch_id, "state": "recovering", "closed_at": None}
        row = {
            **values,
            "nonce": batch.nonce,
            **scope_names(scope),
            "judge_model": model,
            "asking": attempt,
            "channel": "batch",
            "n_requests": size,
            "begun_at": time_text(batch.begun_at),
        }
        with self._transaction() as connection:
            if not self._insert_new(connection, _BATCHES, [row]):
                connection.execute(
                    sa.update(_BATCHES).where(_BATCHES.c.nonce == batch.nonce).values(values)
                )

    def record_intent(
        self, lease: Lease, intent: BatchIntent, terms: BudgetTerms | None = None
    ) -> int:
        """See `JudgingLedger.record_intent`: looked at and written in one transaction."""
        scope = lease.scope
        with self._transaction() as connection:
            if connection.dialect.name == "postgresql":
                # SQLite lets one transaction write at a time, and this one begins with a write.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SPENDING_LOCK)))
            if not self._renew(connection, lease):
                raise JudgeError(
                    f"{scope.title} was taken over by another run while this one stood still; "
                    "expected to hold its lease; nothing was sent: let the other run finish"
                )
            keys = intent.request_keys
            keys = keys[: self._count_affordable(connection, intent, terms)]
            if not keys:
                return 0
            connection.execute(
                sa.insert(_BATCHES).values(
                    nonce=intent.nonce,
                    **scope_names(scope),
                    judge_model=intent.judge_model,
                    asking=intent.attempt,
                    channel=intent.channel,
                    state="intent",
                    n_requests=len(keys),
                    begun_at=time_text(intent.begun_at),
                )
            )
            connection.execute(
                sa.insert(schema.batch_requests),
                [
                    {"nonce": intent.nonce, "request_key": key, "most_usd": most_usd}
                    for key, most_usd in zip(keys, intent.most_usd or repeat(None), strict=False)
                ],
            )
        return len(keys)

    def _count_affordable(
        self, connection: sa.Connection, intent: BatchIntent, terms: BudgetTerms | None
    ) -> int:
        budget = None if terms is None else self._draw_up(connection, terms)
        if budget is None:
            return len(intent.request_keys)
        total = None if intent.most_usd is None else sum(intent.most_usd)
        if total is None or (total and budget.unpriced):
            budget.check(total, what=f"asking {intent.judge_model}", model=intent.judge_model)
        return budget.affordable(intent.most_usd or ())

    def record_created(self, nonce: str, batch_id: str) -> None:
        """Write down the provider's name of a batch."""
        with self._transaction() as connection:
            connection.execute(
                sa.update(_BATCHES)
                .where(_BATCHES.c.nonce == nonce)
                .values(batch_id=batch_id, state="created")
            )

    def record_closed(self, nonce: str, *, state: str) -> None:
        """Write down that nothing more will come of a batch."""
        with self._transaction() as connection:
            connection.execute(
                sa.update(_BATCHES)
                .where(_BATCHES.c.nonce == nonce)
                .values(state=state, closed_at=time_text())
            )


def _open_batch(row: sa.Row[Any]) -> OpenBatch:
    return OpenBatch(
        nonce=row.nonce,
        batch_id=row.batch_id,
        n_requests=row.n_requests,
        begun_at=datetime.fromisoformat(row.begun_at).astimezone(UTC),
        channel=row.channel,
        judge_model=row.judge_model,
    )
