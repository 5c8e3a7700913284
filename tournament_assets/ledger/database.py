"""The database under the ledger: SQLite in WAL mode by default, PostgreSQL by URL.

Its tables are created when it is opened; those of another version are refused.
"""

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tournament_assets.foundation.errors import LedgerError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.ledger import schema

_QUERY_CHUNK = 500
_BUSY_SECONDS = 30
_ADVISORY_LOCK = 0x6C6564676572  # any number that others in the same database do not use


def prepare_tables(connection: sa.Connection) -> None:
    """Create missing tables; existing data is kept.

    Raises:
        LedgerError: If a table has other columns than this version's.
    """
    parts: list[sa.MetaData] = [schema.metadata, *added_rows("ledger_tables")]
    tables = [table for part in parts for table in part.sorted_tables]
    # Asked without a lock, so that a ledger can be read where it cannot be written.
    if not {each.name for each in tables} <= set(sa.inspect(connection).get_table_names()):
        # The code below looks first and changes later: without a lock two runs would both change.
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        for part in parts:
            part.create_all(connection)
    inspector = sa.inspect(connection)
    for table in tables:
        names = {column["name"] for column in inspector.get_columns(table.name)}
        if names != (expected := set(table.columns.keys())):
            raise LedgerError(
                f"the ledger's table {table.name!r} has columns {sorted(names)}; expected "
                f"{sorted(expected)}; it is of another version of this program: use that one, or "
                "name another ledger by TOURNAMENT_LEDGER_URL"
            )


class LedgerDatabase:
    """The connections to a ledger, with the helpers by which all its parts write.

    A transaction that writes begins with a write: SQLite then waits for the lock; it would refuse
    at once to upgrade a read to a write.

    Args:
        url: An SQLAlchemy URL; a SQLite file's folder is created if needed.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            raise LedgerError(
                "the ledger's URL cannot be read; expected one such as sqlite:///ledger.sqlite or "
                "postgresql+psycopg://user:password@host/database; check TOURNAMENT_LEDGER_URL"
            ) from None
        if parsed.drivername in ("postgresql", "postgres"):
            # The usual form of the URL; this is the driver that the project installs.
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise LedgerError(
                f"the ledger's URL begins with {parsed.drivername!r}; expected 'sqlite' or "
                "'postgresql'; check TOURNAMENT_LEDGER_URL"
            )
        # Without the query, which may hold a password, as may the part before the host.
        self._where = parsed.set(query={}).render_as_string(hide_password=True)
        with self._explained():
            path = None
            if parsed.drivername.startswith("sqlite") and _is_file(parsed.database):
                path = Path(str(parsed.database))
                path.parent.mkdir(parents=True, exist_ok=True)
            self._engine = sa.create_engine(parsed, pool_pre_ping=True)
            if path is not None and not path.exists():
                # Read by its owner alone, as SQLite then makes its other files too.
                path.touch(mode=0o600)
            if self._engine.dialect.name == "sqlite":
                sa.event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            with self._transaction() as connection:
                prepare_tables(connection)
        except LedgerError:
            self.close()
            raise

    def close(self) -> None:
        """Close the database connections."""
        self._engine.dispose()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise LedgerError(
                f"the ledger at {self._where} needs a driver: {error}; expected one that is "
                "installed; run: pip install 'tournament-assets[postgres]', or check "
                "TOURNAMENT_LEDGER_URL"
            ) from None
        except (sa.exc.SQLAlchemyError, OSError, ValueError) as error:
            reason = getattr(error, "orig", None) or error
            raise LedgerError(
                f"the ledger at {self._where} failed: {reason}; expected a writable database; "
                "check TOURNAMENT_LEDGER_URL, the disk and the file's permissions, and run again"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._explained(), self._engine.begin() as connection:
            yield connection

    def _insert_new(
        self, connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]
    ) -> int:
        """Insert rows, leaving existing keys as they are; return how many were inserted."""
        if not rows:
            return 0
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(table).on_conflict_do_nothing()
        # In key order: two transactions with the same rows in different orders could deadlock.
        key = [column.name for column in table.primary_key]
        ordered = sorted(map(storable, rows), key=lambda row: [row[name] for name in key])
        # Returned rather than counted: a driver may not report the row count of several statements.
        return len(connection.execute(insert.returning(*table.primary_key), ordered).all())


_UNSTORABLE = re.compile("[\ud800-\udfff\0]")


def storable(row: Mapping[str, object]) -> dict[str, object]:
    """Replace lone surrogates and zeros, which JSON can carry and not every database stores."""
    return {
        name: _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }


def time_text(moment: datetime | None = None) -> str:
    """Write an aware time, now by default, as the ledger keeps it."""
    moment = datetime.now(UTC) if moment is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")


def read_time(text: str) -> datetime:
    """Read a time that the ledger keeps, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """Yield distinct keys in order, in chunks that one query can hold."""
    ordered = sorted(set(keys))
    for start in range(0, len(ordered), _QUERY_CHUNK):
        yield ordered[start : start + _QUERY_CHUNK]


def rows_with(
    connection: sa.Connection, query: sa.Select[Any], column: sa.Column[str], keys: Iterable[str]
) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query whose column holds one of some keys, each key asked for once."""
    for chunk in chunks(keys):
        yield from connection.execute(query.where(column.in_(chunk)))


def _is_file(database: str | None) -> bool:
    return bool(database) and database != ":memory:" and not str(database).startswith("file:")


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={1000 * _BUSY_SECONDS}")
    _turn_on_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous=FULL")  # a reply that was read must survive a power cut
    cursor.close()


def _turn_on_write_ahead_log(cursor: Any) -> None:
    # SQLite does not wait for the lock here: of two runs that create a ledger at once, one must
    # retry.
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
