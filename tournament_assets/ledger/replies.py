"""Judge replies and failures as they were read, and kept responses by fingerprints."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa

from tournament_assets.judging.batch_service import TOKEN_NAMES, Reply, ReplyRow, TokenUsage
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import schema
from tournament_assets.ledger.database import LedgerDatabase, chunks, storable, time_text
from tournament_assets.tournament.prompts import GeneratedResponse

_TABLE = schema.replies
_IMPORT_CHUNK = 1_000
_NEVER_BILLED = frozenset({"errored", "canceled", "expired"})
"""How requests end that the service says it did not answer."""


class ReplyRecords(LedgerDatabase):
    """The part of the ledger that holds what the judge wrote."""

    def answered_keys(self, request_keys: Iterable[str], *, attempt: int = 1) -> set[str]:
        """Return those keys that have a final reply to that attempt."""
        answered: set[str] = set()
        with self._transaction() as connection:
            for chunk in chunks(request_keys):
                query = sa.select(_TABLE.c.request_key).where(
                    _TABLE.c.request_key.in_(chunk), _TABLE.c.asking == attempt
                )
                answered.update(connection.scalars(query))
        return answered

    def iterate_replies(self, request_keys: Iterable[str]) -> Iterator[StoredReply]:
        """Yield the final replies there are, by key and then by attempt."""
        for chunk in chunks(request_keys):
            query = (
                sa.select(*(column for column in _TABLE.columns if column.name != "raw"))
                .where(_TABLE.c.request_key.in_(chunk))
                .order_by(_TABLE.c.request_key, _TABLE.c.asking)
            )
            with self._transaction() as connection:
                rows = connection.execute(query).all()
            yield from (_stored_reply(row) for row in rows)

    def failed_keys(
        self, request_keys: Iterable[str], *, since: datetime | None = None
    ) -> dict[str, str]:
        """Return how requests failed last, by key: the result's type or the error's.

        Args:
            request_keys: The requests.
            since: Leave out those that have not failed since then.
        """
        found: dict[str, str] = {}
        table = schema.failures
        with self._transaction() as connection:
            for chunk in chunks(request_keys):
                query = (
                    sa.select(table)
                    .where(table.c.request_key.in_(chunk))
                    .order_by(table.c.failure_id)
                )
                if since is not None:
                    query = query.where(table.c.failed_at >= time_text(since))
                for row in connection.execute(query):
                    found[row.request_key] = row.error_type or row.result_type
        return found

    def keys_failed(self, result_type: str, *, times: int) -> set[str]:
        """Return the requests that failed with a type of result at least so many times."""
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
        """Keep final replies, by request key; the first one of a key and attempt stays.

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
                "asking": attempt,
                "nonce": nonce,
                "channel": channel,
                **_reply_values(row),
                "raw": row.raw,
                "received_at": now,
            }
            for key, row in final
        ]
        wasted = 0
        with self._transaction() as connection:
            self._insert_new(connection, _TABLE, rows)
            by_key = {str(row["request_key"]): row for row in rows}
            for chunk in chunks(by_key):
                query = sa.select(_TABLE.c.request_key).where(
                    _TABLE.c.request_key.in_(chunk),
                    _TABLE.c.asking == attempt,
                    _TABLE.c.nonce != nonce,
                )
                twice = [by_key[key] for key in connection.scalars(query)]
                wasted += len(twice)
                self._insert_new(
                    connection,
                    schema.paid_twice,
                    [
                        {column.name: row[column.name] for column in schema.paid_twice.columns}
                        for row in twice
                    ],
                )
        return wasted

    def record_failures(self, nonce: str, failed: Sequence[tuple[str, Reply]]) -> None:
        """Note requests that got no reply this time and may be asked again."""
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
                            "may_be_billed": row.result_type not in _NEVER_BILLED,
                        }
                    )
                    for key, row in failed
                ],
            )

    def import_replies(self, replies: Iterable[StoredReply]) -> int:
        """Keep replies that were paid for elsewhere; those that are held already stay.

        Returns:
            How many of them are new.
        """
        added = 0
        rows = map(_imported_row, replies)
        while chunk := list(islice(rows, _IMPORT_CHUNK)):
            with self._transaction() as connection:
                added += self._insert_new(connection, _TABLE, chunk)
        return added

    def _attempt_and_channel(self, nonce: str) -> tuple[int, str]:
        query = sa.select(schema.batches.c.asking, schema.batches.c.channel).where(
            schema.batches.c.nonce == nonce
        )
        with self._transaction() as connection:
            row = connection.execute(query).one()
        return row.asking, row.channel


_REPLY_NAMES = tuple(each.name for each in fields(Reply) if each.name != "usage")


def _reply_values(reply: Reply) -> dict[str, Any]:
    return {
        **{name: getattr(reply, name) for name in _REPLY_NAMES},
        **{name: getattr(reply.usage, name, None) for name in TOKEN_NAMES},
    }


def _imported_row(reply: StoredReply) -> dict[str, Any]:
    return {
        "request_key": reply.request_key,
        "asking": reply.attempt,
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
        attempt=row.asking,
        channel=row.channel,
        **{name: values[name] for name in _REPLY_NAMES},
        usage=usage,
        received_at=datetime.fromisoformat(row.received_at).astimezone(UTC),
    )


class ResponseRecords(LedgerDatabase):
    """The part of the ledger that holds what entrants answered."""

    def responses(
        self, entrant_fingerprint: str, prompt_fingerprints: Iterable[str]
    ) -> dict[str, GeneratedResponse]:
        """Return an entrant's kept responses, by prompt fingerprint."""
        found: dict[str, GeneratedResponse] = {}
        with self._transaction() as connection:
            for chunk in chunks(prompt_fingerprints):
                query = sa.select(schema.responses).where(
                    schema.responses.c.entrant_fingerprint == entrant_fingerprint,
                    schema.responses.c.prompt_fingerprint.in_(chunk),
                )
                for row in connection.execute(query):
                    found[row.prompt_fingerprint] = GeneratedResponse(
                        prompt_id=row.prompt_id,
                        text=row.text,
                        finish_reason=row.finish_reason,
                        prompt_tokens=row.prompt_tokens,
                        response_tokens=row.response_tokens,
                        diagnostics=json.loads(row.diagnostics),
                    )
        return found

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
                "prompt_id": response.prompt_id,
                "text": response.text,
                "finish_reason": response.finish_reason,
                "prompt_tokens": response.prompt_tokens,
                "response_tokens": response.response_tokens,
                "diagnostics": json.dumps(dict(response.diagnostics), sort_keys=True),
                "created_at": now,
            }
            for prompt_fingerprint, response in responses
        ]
        with self._transaction() as connection:
            return self._insert_new(connection, schema.responses, rows)
