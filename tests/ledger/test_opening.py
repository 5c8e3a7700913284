import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.postgresql import PostgresServer
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import LedgerError

from .at_once import run_at_once
from .builders import begin_batch, change, select, success, texts

LEDGER_TABLES = {
    "responses",
    "judge_leases",
    "judge_batches",
    "judge_batch_requests",
    "judge_replies",
    "judge_paid_twice",
    "judge_failures",
    "label_draws",
    "label_pairs",
    "label_votes",
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
    assert select(ledger_url, "SELECT * FROM notes") == [("mine",)]


def test_the_folder_of_a_new_ledger_is_made(tmp_path: Path) -> None:
    Ledger(f"sqlite:///{tmp_path}/a/b/ledger.sqlite").close()
    assert (tmp_path / "a" / "b" / "ledger.sqlite").is_file()


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
    with pytest.raises(LedgerError, match="file is not a database; expected a writable database"):
        Ledger(sqlite_url)
    assert path.read_bytes() == b"These are my notes. " * 400


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="check TOURNAMENT_LEDGER_URL, the disk and the file's"):
        Ledger(f"sqlite:///{tmp_path}")


def test_a_file_that_may_only_be_read_says_so_once_it_is_written_to(
    tmp_path: Path, sqlite_url: str
) -> None:
    ledger = Ledger(sqlite_url)
    begin_batch(ledger, "n1", ["k1", "k2"])
    ledger.record_rows("n1", [("k1", success("first"))])
    read_only = Ledger(f"sqlite:///file:{tmp_path}/ledger.sqlite?mode=ro&uri=true")
    assert read_only.answered_keys(["k1"]) == {"k1"}
    with pytest.raises(LedgerError, match="readonly database; expected a writable database"):
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
        with pytest.raises(LedgerError, match="permission denied for table judge_replies") as error:
            read_only.record_rows("n1", [("k2", success("second"))])
        assert "hunter2" not in str(error.value)
        read_only.close()
        change(url, "DROP OWNED BY reader", "DROP ROLE reader")


def test_a_ledger_that_somebody_is_reading_is_waited_for(tmp_path: Path, sqlite_url: str) -> None:
    reader = sqlite3.connect(tmp_path / "ledger.sqlite", check_same_thread=False)
    reader.executescript("CREATE TABLE notes (note TEXT); BEGIN; SELECT * FROM notes;")
    reader.execute("SELECT * FROM notes").fetchall()
    timer = threading.Timer(0.3, reader.close)
    timer.start()
    Ledger(sqlite_url).close()
    timer.join()
    assert select(sqlite_url, "PRAGMA journal_mode") == [("wal",)]
