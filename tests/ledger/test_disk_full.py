import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tournament_assets.foundation.errors import LedgerError
from tournament_assets.judging.settlement.records import Lease
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.prompts import GeneratedResponse

from .builders import (
    SCOPE,
    acquire,
    begin_batch,
    failed_with,
    failure,
    intent,
    numbered_keys,
    success,
    texts,
)

KEYS = numbered_keys(400)
LONG = "VERDICT: A " * 2_000  # 22 kB
TOO_LONG = LONG * 15  # more than is left where another long one did not fit
NO_LIMIT = 1_073_741_823
is_full = failed_with(sqlite3.SQLITE_FULL)


class LimitedDatabase:
    """Has SQLite itself refuse to let any database grow beyond some pages."""

    def __init__(self) -> None:
        self.pages = NO_LIMIT

    def limit(self, connection: sqlite3.Connection, *_rest: object) -> None:
        connection.execute(f"PRAGMA max_page_count={self.pages}")


@pytest.fixture
def limited() -> Iterator[LimitedDatabase]:
    limited = LimitedDatabase()
    sa.event.listen(sa.Pool, "checkout", limited.limit)
    yield limited
    sa.event.remove(sa.Pool, "checkout", limited.limit)


def fill(ledger: Ledger) -> list[str]:
    """Write long replies until there is no room for another one, and return their keys."""
    for number, key in enumerate(KEYS):
        try:
            ledger.record_rows("n1", [(key, success(LONG))])
        except LedgerError as error:
            if not is_full(error):
                raise
            return KEYS[:number]
    raise AssertionError("the disk is never full")


def check_what_a_full_disk_leaves(
    ledger: Ledger, lease: Lease, held: list[str], make_room: Callable[[], object]
) -> None:
    new_keys = KEYS[len(held) : len(held) + 15]
    response = GeneratedResponse("p", TOO_LONG, "stop")
    failed = replace(failure("busy"), error_message=TOO_LONG)
    writes: list[Callable[[], object]] = [
        lambda: ledger.record_rows("n1", [(key, success(LONG)) for key in new_keys]),
        lambda: ledger.record_failures("n1", [("k1", failed)]),
        lambda: ledger.keep_responses("entrant", [("f", response)]),
        lambda: ledger.record_intent(lease, intent("n2", numbered_keys(3000))),
    ]
    for write in writes:
        with pytest.raises(LedgerError, check=is_full):
            write()
    assert texts(ledger, KEYS) == {(key, 1): LONG for key in held}
    assert [batch.nonce for batch in ledger.open_batches(SCOPE)] == ["n1"]
    assert ledger.batch_keys("n2") == set()
    assert ledger.failed_keys(["k1"]) == {}
    assert ledger.responses("entrant", ["f"], cuts_thoughts=False) == {}
    make_room()
    for write in writes:
        write()
    assert texts(ledger, KEYS) == {(key, 1): LONG for key in [*held, *new_keys]}
    assert ledger.batch_keys("n2") == set(numbered_keys(3000))
    assert ledger.failed_keys(["k1"]) == {"k1": "busy"}
    assert ledger.responses("entrant", ["f"], cuts_thoughts=False) == {"f": response}


def integrity(path: Path) -> list[tuple[str]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()


def test_a_database_that_may_not_grow_takes_no_half_of_a_write(
    tmp_path: Path, sqlite_url: str, limited: LimitedDatabase
) -> None:
    ledger = Ledger(sqlite_url)
    begin_batch(ledger, "n1", ["k1"])
    lease = acquire(ledger)
    limited.pages = 100
    held = fill(ledger)
    assert len(held) > 5
    check_what_a_full_disk_leaves(
        ledger, lease, held, make_room=lambda: setattr(limited, "pages", NO_LIMIT)
    )
    ledger.close()
    assert integrity(tmp_path / "ledger.sqlite") == [("ok",)]
