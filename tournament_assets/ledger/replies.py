"""Judge batches, from the intent to send one to their replies and failures as they were read.

And kept responses, by their fingerprints.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from datetime import datetime
from itertools import islice, repeat
from typing import Any

import sqlalchemy as sa

from tournament_assets.foundation.errors import JudgeError
from tournament_assets.judging.batch_service import TOKEN_NAMES, Reply, ReplyRow, TokenUsage
from tournament_assets.judging.costs.prices import BudgetTerms
from tournament_assets.judging.service_errors import NEVER_BILLED
from tournament_assets.judging.settlement.records import (
    BatchIntent,
    JudgingScope,
    Lease,
    OpenBatch,
    StoredReply,
    SubmittedBatch,
)
from tournament_assets.ledger import schema
from tournament_assets.ledger.database import (
    LedgerDatabase,
    chunks,
    read_time,
    rows_with,
    storable,
    time_text,
)
from tournament_assets.ledger.leases import LeaseRecords, is_of, scope_names, scope_of
from tournament_assets.ledger.spending import SpendingRecords
from tournament_assets.tournament.completions import Completion
from tournament_assets.tournament.prompts import GeneratedResponse

_TABLE = schema.replies
_IMPORT_CHUNK = 1_000


class ReplyRecords(LedgerDatabase):
    """The part of the ledger that holds what the judge wrote."""

    def answered_keys(self, request_keys: Iterable[str], *, attempt: int = 1) -> set[str]:
        """Return which keys have a final reply to an attempt."""
        key = _TABLE.c.request_key
        query = sa.select(key).where(_TABLE.c.attempt == attempt)
        with self._transaction() as connection:
            return {row.request_key for row in rows_with(connection, query, key, request_keys)}

    def iterate_replies(
        self, request_keys: Iterable[str], *, with_raw: bool = False
    ) -> Iterator[StoredReply]:
        """Yield the final replies there are, by key and then by attempt.

        Args:
            with_raw: Whether to read the raw rows too, which takes memory.
        """
        columns = [each for each in _TABLE.columns if with_raw or each.name != "raw"]
        for chunk in chunks(request_keys):
            query = (
                sa.select(*columns)
                .where(_TABLE.c.request_key.in_(chunk))
                .order_by(_TABLE.c.request_key, _TABLE.c.attempt)
            )
            with self._transaction() as connection:
                rows = connection.execute(query).all()
            yield from (_stored_reply(row) for row in rows)

    def failed_keys(
        self, request_keys: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, str]:
        """Return each request's latest failure by key: the type of the result or of the error.

        Args:
            since: Leave out those that have not failed since then.
        """
        table = schema.failures
        query = sa.select(table).order_by(table.c.failure_id)
        if since is not None:
            query = query.where(table.c.failed_at >= time_text(since))
        with self._transaction() as connection:
            return {
                row.request_key: row.error_type or row.result_type
                for row in rows_with(connection, query, table.c.request_key, request_keys)
            }

    def keys_failed(self, result_type: str, *, times: int) -> set[str]:
        """Return requests that failed with a type of result at least a given number of times."""
        table = schema.failures
        query = (
            sa.select(table.c.request_key)
            .where(table.c.result_type == result_type)
            .group_by(table.c.request_key)
            .having(sa.func.count() >= times)
        )
        with self._transaction() as connection:
            return set(connection.scalars(query))

    def record_rows(
        self,
        nonce: str,
        final: Sequence[tuple[str, ReplyRow]],
        *,
        received_at: datetime | None = None,
    ) -> int:
        """Keep final replies by request key; the first one for a key and attempt stays.

        Args:
            nonce: The batch they came in.
            final: The replies, each with its request's key.
            received_at: When they were billed, for budgets; now by default.
        """
        if not final:
            return 0
        attempt, channel = self._attempt_and_channel(nonce)
        now = time_text(received_at)
        rows = [
            {
                "request_key": key,
                "attempt": attempt,
                "nonce": nonce,
                "channel": channel,
                **_reply_values(row),
                "raw": row.raw,
                "received_at": now,
            }
            for key, row in final
        ]
        with self._transaction() as connection:
            self._insert_new(connection, _TABLE, rows)
            by_key = {str(row["request_key"]): row for row in rows}
            query = sa.select(_TABLE.c.request_key).where(
                _TABLE.c.attempt == attempt, _TABLE.c.nonce != nonce
            )
            names = [column.name for column in schema.paid_twice.columns]
            twice = [
                {name: by_key[row.request_key][name] for name in names}
                for row in rows_with(connection, query, _TABLE.c.request_key, by_key)
            ]
            self._insert_new(connection, schema.paid_twice, twice)
        return len(twice)

    def record_failures(self, nonce: str, failed: Sequence[tuple[str, Reply]]) -> None:
        """Record requests that got no reply this time and may be asked again."""
        if not failed:
            return
        now = time_text()
        with self._transaction() as connection:
            connection.execute(
                sa.insert(schema.failures),
                [
                    storable(
                        {
                            "request_key": key,
                            "nonce": nonce,
                            "result_type": row.result_type,
                            "error_type": row.error_type,
                            "error_message": row.error_message,
                            "failed_at": now,
                            "may_be_billed": row.result_type not in NEVER_BILLED,
                        }
                    )
                    for key, row in failed
                ],
            )

    def import_replies(self, replies: Iterable[StoredReply]) -> int:
        """Keep replies that were paid for elsewhere, but for those there are; return how many."""
        added = 0
        rows = map(_imported_row, replies)
        while chunk := list(islice(rows, _IMPORT_CHUNK)):
            with self._transaction() as connection:
                added += self._insert_new(connection, _TABLE, chunk)
        return added

    def _attempt_and_channel(self, nonce: str) -> tuple[int, str]:
        query = sa.select(schema.batches.c.attempt, schema.batches.c.channel).where(
            schema.batches.c.nonce == nonce
        )
        with self._transaction() as connection:
            row = connection.execute(query).one()
        return row.attempt, row.channel


_REPLY_NAMES = tuple(each.name for each in fields(Reply) if each.name != "usage")


def _reply_values(reply: Reply) -> Mapping[str, object]:
    return {
        **{name: getattr(reply, name) for name in _REPLY_NAMES},
        **{name: getattr(reply.usage, name, None) for name in TOKEN_NAMES},
    }


def _imported_row(reply: StoredReply) -> Mapping[str, object]:
    return {
        "request_key": reply.request_key,
        "attempt": reply.attempt,
        "nonce": "imported",
        "channel": reply.channel,
        **_reply_values(reply),
        "raw": "{}",
        "received_at": time_text(reply.received_at),
    }


def _stored_reply(row: sa.Row[Any]) -> StoredReply:
    values = row._mapping
    usage = None
    if row.input_tokens is not None:
        usage = TokenUsage(**{name: values[name] for name in TOKEN_NAMES})
    return StoredReply(
        request_key=row.request_key,
        attempt=row.attempt,
        channel=row.channel,
        **{name: values[name] for name in _REPLY_NAMES},
        usage=usage,
        received_at=read_time(row.received_at),
        raw=values.get("raw", ""),
    )


_RESPONSE_NAMES = tuple(
    each.name
    for each in fields(GeneratedResponse)
    if each.name not in ("diagnostics", "completion")
)


class ResponseRecords(LedgerDatabase):
    """The part of the ledger that holds what entrants answered."""

    def responses(
        self,
        entrant_fingerprint: str,
        prompt_fingerprints: Iterable[str],
        *,
        cuts_thoughts: bool,
    ) -> dict[str, GeneratedResponse]:
        """Return an entrant's kept responses as they are read today, by prompt fingerprint.

        Args:
            cuts_thoughts: Whether what the model thinks aloud is no part of the response.
        """
        responses: dict[str, GeneratedResponse] = {}
        table = schema.responses
        query = sa.select(table).where(table.c.entrant_fingerprint == entrant_fingerprint)
        with self._transaction() as connection:
            for row in rows_with(
                connection, query, table.c.prompt_fingerprint, prompt_fingerprints
            ):
                values = {name: row._mapping[name] for name in _RESPONSE_NAMES}
                stored = GeneratedResponse(
                    **values,
                    diagnostics=json.loads(row.diagnostics),
                    completion=row.completion and Completion.from_json(row.completion),
                )
                response = stored.read_again(cuts_thoughts=cuts_thoughts)
                if isinstance(response, GeneratedResponse):
                    responses[row.prompt_fingerprint] = response
        return responses

    def keep_responses(
        self, entrant_fingerprint: str, responses: Sequence[tuple[str, GeneratedResponse]]
    ) -> int:
        """Keep an entrant's responses, each with its prompt's fingerprint; the first one stays.

        Returns:
            How many of them are new.
        """
        now = time_text()
        rows = [
            {
                "entrant_fingerprint": entrant_fingerprint,
                "prompt_fingerprint": prompt_fingerprint,
                **{name: getattr(response, name) for name in _RESPONSE_NAMES},
                "diagnostics": json.dumps(dict(response.diagnostics), sort_keys=True),
                "completion": response.completion and response.completion.as_json(),
                "created_at": now,
            }
            for prompt_fingerprint, response in responses
        ]
        with self._transaction() as connection:
            return self._insert_new(connection, schema.responses, rows)


_BATCHES = schema.batches
_SPENDING_LOCK = 0x7370656E64  # any number that others in the same database do not use


class BatchRecords(LeaseRecords, SpendingRecords):
    """The part of the ledger that knows what was sent."""

    def open_batches(self, scope: JudgingScope) -> list[OpenBatch]:
        """Return the scope's batches that were begun and not closed, oldest first."""
        return [_open_batch(row) for row in self._open_rows(*is_of(_BATCHES, scope))]

    def open_scopes(self, tournament_id: str) -> dict[JudgingScope, list[OpenBatch]]:
        """Return a tournament's batches that were begun and not closed, by scope."""
        scopes: dict[JudgingScope, list[OpenBatch]] = {}
        for row in self._open_rows(_BATCHES.c.tournament_id == tournament_id):
            scopes.setdefault(scope_of(row), []).append(_open_batch(row))
        return scopes

    def _open_rows(self, *wanted: sa.ColumnElement[bool]) -> Sequence[sa.Row[Any]]:
        query = (
            sa.select(_BATCHES)
            .where(*wanted, _BATCHES.c.state.in_(schema.OPEN))
            .order_by(_BATCHES.c.begun_at, _BATCHES.c.nonce)
        )
        with self._transaction() as connection:
            return connection.execute(query).all()

    def purposes_begun(self, tournament_id: str, mode: str, dimension: str) -> list[str]:
        """Return a dimension's purposes of asking in a mode, in the order they were first begun."""
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

    def has_asked(self, model: str) -> bool:
        """Whether requests to a model may be known: some were sent, or somebody's were imported."""
        of_ours = sa.select(_BATCHES.c.nonce)
        query = sa.select(
            sa.exists().where(_BATCHES.c.judge_model == model)
            | sa.exists().where(schema.replies.c.nonce.not_in(of_ours))
        )
        with self._transaction() as connection:
            return bool(connection.scalar(query))

    def known_batch_ids(self, batch_ids: AbstractSet[str]) -> set[str]:
        """Return which of the provider's batch names are already recorded."""
        named = _BATCHES.c.batch_id
        with self._transaction() as connection:
            rows = rows_with(connection, sa.select(named), named, batch_ids)
            return {row.batch_id for row in rows}

    def batch_states(
        self, *, batch_ids: AbstractSet[str] = frozenset(), nonces: AbstractSet[str] = frozenset()
    ) -> dict[str, str]:
        """Return the states of batches, by the provider's name or by our own."""
        states: dict[str, str] = {}
        with self._transaction() as connection:
            for column, names in ((_BATCHES.c.batch_id, batch_ids), (_BATCHES.c.nonce, nonces)):
                query = sa.select(column.label("name"), _BATCHES.c.state)
                rows = rows_with(connection, query, column, names)
                states.update((row.name, row.state) for row in rows)
        return states

    def begin_recovery(
        self, scope: JudgingScope, batch: SubmittedBatch, *, model: str, attempt: int, size: int
    ) -> None:
        """Record a batch that was paid for and forgotten; it is closed once its rows are kept.

        A batch recorded before keeps its data, except for its state.
        """
        values = {"batch_id": batch.batch_id, "state": "recovering", "closed_at": None}
        row = {
            **values,
            "nonce": batch.nonce,
            **scope_names(scope),
            "judge_model": model,
            "attempt": attempt,
            "channel": "batch",
            "n_requests": size,
            "begun_at": time_text(batch.begun_at),
        }
        with self._transaction() as connection:
            if not self._insert_new(connection, _BATCHES, [row]):
                _change_batch(connection, batch.nonce, **values)

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
                    attempt=intent.attempt,
                    channel=intent.channel,
                    state="intent",
                    n_requests=len(keys),
                    at_once=intent.at_once,
                    effort=intent.effort,
                    **{
                        column: (intent.rates or {}).get(name)
                        for column, name in schema.RATES.items()
                    },
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
        """Record the provider's name for a batch."""
        with self._transaction() as connection:
            _change_batch(connection, nonce, batch_id=batch_id, state="created")

    def record_closed(self, nonce: str, *, state: str) -> None:
        """Record that a batch is closed: no more results are expected."""
        with self._transaction() as connection:
            _change_batch(connection, nonce, state=state, closed_at=time_text())


def _change_batch(connection: sa.Connection, nonce: str, **values: str | None) -> None:
    connection.execute(sa.update(_BATCHES).where(_BATCHES.c.nonce == nonce).values(values))


def _open_batch(row: sa.Row[Any]) -> OpenBatch:
    return OpenBatch(
        nonce=row.nonce,
        batch_id=row.batch_id,
        n_requests=row.n_requests,
        begun_at=read_time(row.begun_at),
        channel=row.channel,
        judge_model=row.judge_model,
    )
