import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.postgresql import PostgresServer
from tournament_assets.foundation.errors import LedgerError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.database import _turn_on_write_ahead_log

from .at_once import run_at_once
from .builders import begin_batch, change, failed_with, select, success, texts

LEDGER_TABLES = {
    "responses",
    "judge_leases",
    "judge_batches",
    "judge_batch_requests",
    "judge_replies",
    "judge_paid_twice",
    "judge_failures",
    *(table for metadata in added_rows("ledger_tables") for table in metadata.tables),
}


def table_names(url: str) -> set[str]:
    if url.startswith("sqlite"):
        rows = select(url, "SELECT name FROM sqlite_master WHERE type = 'table'")
    else:
        rows = select(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {name for (name,) in rows if not name.startswith("sqlite_")}


def test_a_new_ledger_is_made_once_and_found_again(ledger_url: str) -> None:
    Ledger(ledger_url).close()
    assert table_names(ledger_url) == LEDGER_TABLES
    Ledger(ledger_url).close()
    assert table_names(ledger_url) == LEDGER_TABLES


@pytest.mark.parametrize("attempt", range(4))
def test_a_new_ledger_can_be_opened_by_several_runs_at_once(ledger_url: str, attempt: int) -> None:
    run_at_once([lambda: Ledger(ledger_url).close()] * 6)
    assert table_names(ledger_url) == LEDGER_TABLES


def test_other_tables_in_the_database_are_left_alone(ledger_url: str) -> None:
    change(ledger_url, "CREATE TABLE notes (asking TEXT)", "INSERT INTO notes VALUES ('mine')")
    Ledger(ledger_url).close()
    assert table_names(ledger_url) == {*LEDGER_TABLES, "notes"}
    ((note,),) = select(ledger_url, "SELECT asking FROM notes")
    assert note == "mine"


def test_the_folder_of_a_new_ledger_is_made(tmp_path: Path) -> None:
    Ledger(f"sqlite:///{tmp_path}/a/b/ledger.sqlite").close()
    assert (tmp_path / "a" / "b" / "ledger.sqlite").is_file()


def test_only_its_owner_reads_a_new_ledger(tmp_path: Path) -> None:
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        begin_batch(ledger, "nonce-000001", ["key"])
        modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("ledger.sqlite*")}
        assert (modes, len(list(tmp_path.iterdir()))) == ({0o600}, 3)


def test_a_ledger_in_memory_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger("sqlite:///:memory:").close()
    Ledger("sqlite:///file:nothing/here?mode=memory&uri=true").close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, sqlite_url: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"These are my notes. " * 400)
    with pytest.raises(LedgerError, check=failed_with(sqlite3.SQLITE_NOTADB)):
        Ledger(sqlite_url)
    assert path.read_bytes() == b"These are my notes. " * 400


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, check=failed_with(sqlite3.SQLITE_CANTOPEN)):
        Ledger(f"sqlite:///{tmp_path}")


def test_a_file_that_may_only_be_read_says_so_once_it_is_written_to(
    tmp_path: Path, sqlite_url: str
) -> None:
    ledger = Ledger(sqlite_url)
    begin_batch(ledger, "n1", ["k1", "k2"])
    ledger.record_rows("n1", [("k1", success("first"))])
    read_only = Ledger(f"sqlite:///file:{tmp_path}/ledger.sqlite?mode=ro&uri=true")
    assert read_only.answered_keys(["k1"]) == {"k1"}
    with pytest.raises(LedgerError, check=failed_with(sqlite3.SQLITE_READONLY)):
        read_only.record_rows("n1", [("k2", success("second"))])
    read_only.close()
    ledger.close()


def test_an_account_that_may_only_read_can_open_the_ledger(postgresql: PostgresServer) -> None:
    with postgresql.database() as url:
        ledger = Ledger(url)
        begin_batch(ledger, "n1", ["k1", "k2"])
        ledger.record_rows("n1", [("k1", success("first"))])
        ledger.close()
        change(
            url,
            "CREATE ROLE reader LOGIN PASSWORD 'hunter2'",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        )
        reader = sa.make_url(url).set(username="reader", password="hunter2")
        read_only = Ledger(reader.render_as_string(hide_password=False))
        assert texts(read_only, ["k1"]) == {("k1", 1): "first"}
        with pytest.raises(LedgerError, match="judge_replies", check=failed_with("42501")) as error:
            read_only.record_rows("n1", [("k2", success("second"))])
        assert "hunter2" not in str(error.value)
        read_only.close()
        change(url, "DROP OWNED BY reader", "DROP ROLE reader")


def test_a_ledger_that_somebody_is_reading_is_waited_for(tmp_path: Path, sqlite_url: str) -> None:
    reader = sqlite3.connect(tmp_path / "ledger.sqlite", check_same_thread=False)
    reader.executescript("CREATE TABLE notes (note TEXT); BEGIN; SELECT * FROM notes;")
    reader.execute("SELECT * FROM notes").fetchall()
    timer = threading.Timer(0.3, reader.close)  # however long it takes, it is waited for
    timer.start()
    Ledger(sqlite_url).close()
    timer.join()
    ((mode,),) = select(sqlite_url, "PRAGMA journal_mode")
    assert mode == "wal"


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
    assert (len(cursor.statements), len(set(cursor.statements))) == (3, 1)


def test_what_waiting_cannot_change_is_not_waited_for() -> None:
    cursor = RefusingCursor(sqlite3.SQLITE_READONLY, refusals=2)
    with pytest.raises(sqlite3.OperationalError):
        _turn_on_write_ahead_log(cursor)
    assert len(cursor.statements) == 1


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+no_such_driver://user:hunter2@127.0.0.1:1/db",
        "postgresql+no_such_driver://127.0.0.1:1/db?user=user&password=hunter2",
        "no_such_database://user:hunter2@127.0.0.1:1/db",
        "mysql+pymysql://user:hunter2@127.0.0.1:1/db",
        "postgresql+pg8000://user:hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=user&password=hunter2",
        "postgresql://user:hunter2@127.0.0.1:1/db?no_such_option=1",
        "postgresql://user:hunter2@127.0.0.1:1/db?sslmode=nonsense",
        "postgresql://user:hunter2@127.0.0.1:99999/db",
        "postgresql://user:hunter2@127.0.0.1:port/db",
        "postgresql://user:hunter2@[::1/db",
        "user:hunter2@127.0.0.1",
        "sqlite://user:hunter2@127.0.0.1/ledger.sqlite",
        "sqlite:////proc/no/such/folder/ledger.sqlite?password=hunter2",
        "sqlite:////tmp/no\0where/ledger.sqlite?password=hunter2",
        "sqlite:///:memory:?timeout=soon",
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger(url)
    assert "TOURNAMENT_LEDGER_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__cause__)


def test_a_wrong_password_is_not_repeated(postgresql: PostgresServer) -> None:
    with postgresql.database() as url:
        wrong = sa.make_url(url).set(password="hunter2").render_as_string(hide_password=False)
        with pytest.raises(LedgerError, match="password authentication") as caught:
            Ledger(wrong)
    assert "hunter2" not in str(caught.value)


def test_a_password_in_the_query_opens_the_ledger_and_is_not_repeated(
    postgresql: PostgresServer,
) -> None:
    with postgresql.database() as url:
        parsed = sa.make_url(url)
        password = str(parsed.password)
        moved = parsed.set(query={"password": password})
        moved = sa.URL.create(
            "postgresql", moved.username, None, moved.host, moved.port, moved.database, moved.query
        )
        ledger = Ledger(moved.render_as_string(hide_password=False))
        begin_batch(ledger, "n1")
        with pytest.raises(LedgerError) as caught:
            begin_batch(ledger, "n1")
        ledger.close()
    assert password not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgresql_url_is_read_by_the_driver_that_the_project_installs(scheme: str) -> None:
    with pytest.raises(LedgerError, match=r"postgresql\+psycopg://user:\*\*\*@"):
        Ledger(f"{scheme}://user:hunter2@127.0.0.1:1/db")


def test_a_driver_that_is_not_installed_is_told_how_to_get() -> None:
    with pytest.raises(LedgerError, match=r"'tournament-assets\[postgres\]'"):
        Ledger("postgresql+pg8000://127.0.0.1:1/db")


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(LedgerError, match=r"'mysql\+pymysql'.*'sqlite'.*'postgresql'"):
        Ledger("mysql+pymysql://127.0.0.1/db")


@pytest.mark.parametrize("edit", ["DROP COLUMN may_be_billed", "ADD COLUMN severity INTEGER"])
def test_a_ledger_of_another_version_is_refused_and_left_alone(ledger_url: str, edit: str) -> None:
    ledger = Ledger(ledger_url)
    begin_batch(ledger, "n1", ["k1"])
    ledger.close()
    change(ledger_url, f"ALTER TABLE judge_failures {edit}")
    with pytest.raises(LedgerError, match=r"may_be_billed.*another version"):
        Ledger(ledger_url)
    assert select(ledger_url, "SELECT nonce FROM judge_batches") == [("n1",)]
