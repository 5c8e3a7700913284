import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from tournament_assets.ledger import Ledger
from tournament_assets.ledger.database import _turn_on_write_ahead_log

from .builders import select


class RefusingCursor:
    """A SQLite cursor that refuses the first statements with a given code."""

    def __init__(self, code: int, *, refusals: int) -> None:
        self.code = code
        self.refusals = refusals
        self.statements: list[str] = []

    def execute(self, statement: str) -> None:
        self.statements.append(statement)
        if len(self.statements) <= self.refusals:
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = self.code
            raise error


def test_the_write_ahead_log_is_on(tmp_path: Path, sqlite_url: str) -> None:
    ledger = Ledger(sqlite_url)
    assert select(sqlite_url, "PRAGMA journal_mode") == [("wal",)]
    assert (tmp_path / "ledger.sqlite-wal").exists()
    ledger.close()


def test_every_commit_waits_for_the_disk(sqlite_url: str) -> None:
    levels: list[int] = []

    def look(connection: sqlite3.Connection, *_rest: object) -> None:
        levels.append(connection.execute("PRAGMA synchronous").fetchone()[0])

    sa.event.listen(sa.Pool, "checkout", look)
    try:
        Ledger(sqlite_url).close()
    finally:
        sa.event.remove(sa.Pool, "checkout", look)
    assert set(levels) == {2}  # FULL


def test_a_lock_that_sqlite_does_not_wait_for_is_asked_for_again() -> None:
    cursor = RefusingCursor(sqlite3.SQLITE_BUSY_RECOVERY, refusals=2)
    _turn_on_write_ahead_log(cursor)
    assert cursor.statements == ["PRAGMA journal_mode=WAL"] * 3


def test_what_waiting_cannot_change_is_not_waited_for() -> None:
    cursor = RefusingCursor(sqlite3.SQLITE_READONLY, refusals=2)
    with pytest.raises(sqlite3.OperationalError):
        _turn_on_write_ahead_log(cursor)
    assert len(cursor.statements) == 1
