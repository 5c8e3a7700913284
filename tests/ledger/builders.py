"""Replies, batches and looks behind the ledger's back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tournament_assets.foundation.errors import LedgerError
from tournament_assets.judging.batch_service import Channel, ReplyRow, TokenUsage
from tournament_assets.judging.settlement.records import (
    BatchIntent,
    JudgingScope,
    Lease,
    StoredReply,
)
from tournament_assets.ledger import Ledger

SCOPE = JudgingScope("tiny", "pilot", "factuality")
OTHER_SCOPES = [
    replace(SCOPE, tournament_id="other"),
    replace(SCOPE, mode="headline"),
    replace(SCOPE, dimension="calibration"),
    replace(SCOPE, purpose="agreement"),
]
BEGUN_AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
USAGE = TokenUsage(
    input_tokens=700,
    output_tokens=40,
    cache_creation_input_tokens=0,
    cache_read_input_tokens=2200,
)


def numbered_keys(count: int) -> list[str]:
    """Return keys that look like the SHA-256 of something, in order."""
    return [f"{number:064x}" for number in range(count)]


def success(text: str, **changed: Any) -> ReplyRow:
    row = ReplyRow(
        result_type="succeeded", text=text, stop_reason="end_turn", model="judge-1", usage=USAGE
    )
    return replace(row, **changed)


def billed(uncached: int, output: int, written: int, read: int) -> ReplyRow:
    return success("VERDICT: A", usage=TokenUsage(uncached, output, written, read))


def failure(error_type: str | None, *, result_type: str = "errored") -> ReplyRow:
    return ReplyRow(result_type=result_type, error_type=error_type, error_message="no")


def acquire(ledger: Ledger, scope: JudgingScope = SCOPE) -> Lease:
    """Acquire a lease that nobody holds."""
    lease = ledger.acquire_lease(scope)
    assert isinstance(lease, Lease), lease
    return lease


def intent(nonce: str, keys: Sequence[str] = ("k1",), **changed: Any) -> BatchIntent:
    made = BatchIntent(
        nonce=nonce,
        judge_model="judge-1",
        attempt=1,
        channel="batch",
        begun_at=BEGUN_AT,
        request_keys=keys,
    )
    return replace(made, **changed)


def begin_batch(
    ledger: Ledger,
    nonce: str,
    keys: Sequence[str] = ("k1",),
    *,
    scope: JudgingScope = SCOPE,
    **changed: Any,
) -> None:
    """Write down the intent to send a batch, under a lease that is given back at once."""
    lease = acquire(ledger, scope)
    ledger.record_intent(lease, intent(nonce, keys, **changed))
    ledger.release_lease(lease)


def stored(
    key: str, *, attempt: int = 1, channel: Channel = "batch", **changed: Any
) -> StoredReply:
    reply = StoredReply(
        request_key=key,
        attempt=attempt,
        channel=channel,
        result_type="succeeded",
        stop_reason="end_turn",
        text="VERDICT: A",
        error_type=None,
        model="judge-1",
        usage=USAGE,
        received_at=BEGUN_AT,
    )
    return replace(reply, **changed)


def texts(ledger: Ledger, keys: Sequence[str]) -> dict[tuple[str, int], str | None]:
    """Return what is held, by key and attempt."""
    return {
        (reply.request_key, reply.attempt): reply.text for reply in ledger.iterate_replies(keys)
    }


def select(url: str, query: str) -> list[tuple[Any, ...]]:
    """Look into a ledger's database with a connection of one's own."""
    with _connection(url) as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def change(url: str, *statements: str, **values: Any) -> None:
    """Change a ledger's database with a connection of one's own."""
    with _connection(url) as connection:
        for statement in statements:
            connection.execute(sa.text(statement), values)


def failed_with(code: int | str) -> Callable[[LedgerError], bool]:
    """Make a check of an error: the database gave SQLite's code or PostgreSQL's state."""

    def check(error: LedgerError) -> bool:
        cause = getattr(error.__context__, "orig", None)
        # The last byte: which of the ways to fail it was differs from version to version.
        own = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        return code in (own, getattr(cause, "sqlstate", ""))

    return check


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(driver_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        yield connection


@contextmanager
def just_before(statement: str, action: Callable[[], object]) -> Iterator[None]:
    """Do something once, right before the first statement that begins in a certain way."""
    waiting = [action]

    def do_it_once(_connection: sa.Connection, _cursor: object, text: str, *_rest: object) -> None:
        if text.strip().startswith(statement) and waiting:
            waiting.pop()()

    sa.event.listen(sa.Engine, "before_cursor_execute", do_it_once)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", do_it_once)
    assert not waiting, f"nothing began with {statement!r}"
