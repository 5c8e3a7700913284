import time
from collections.abc import Iterator

import pytest

from tests.postgresql import PostgresServer
from tournament_assets.foundation.errors import LedgerError
from tournament_assets.ledger import Ledger

from .builders import (
    SCOPE,
    acquire,
    begin_batch,
    change,
    failed_with,
    intent,
    just_before,
    select,
    success,
    texts,
)

THE_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
DISCONNECT_THE_OTHERS = f"SELECT pg_terminate_backend(pid) {THE_OTHERS}"
COUNT_THE_OTHERS = f"SELECT count(*) {THE_OTHERS}"


@pytest.fixture
def url(postgresql: PostgresServer) -> Iterator[str]:
    with postgresql.database() as made:
        yield made


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger(url)
    yield opened
    opened.close()


def test_a_ledger_works_again_when_its_server_is_back(
    postgresql: PostgresServer, ledger: Ledger, url: str
) -> None:
    begin_batch(ledger, "n1", ["k1", "k2"])
    ledger.record_rows("n1", [("k1", success("before"))])
    password = url.split(":")[2].split("@")[0]
    with postgresql.stopped():
        for _ in range(2):
            with pytest.raises(LedgerError, match="Connection refused") as caught:
                ledger.record_rows("n1", [("k2", success("meanwhile"))])
            assert password not in str(caught.value)
        with pytest.raises(LedgerError):
            list(ledger.iterate_replies(["k1"]))
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "before"}
    assert ledger.record_rows("n1", [("k2", success("after"))]) == 0
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "before", ("k2", 1): "after"}


def test_a_server_that_was_restarted_meanwhile_is_not_noticed(
    postgresql: PostgresServer, ledger: Ledger
) -> None:
    lease = acquire(ledger)
    with postgresql.stopped():
        pass
    assert ledger.renew_lease(lease)
    ledger.record_intent(lease, intent("n1"))
    assert [batch.nonce for batch in ledger.open_batches(SCOPE)] == ["n1"]


def test_connections_that_were_cut_while_idle_are_not_noticed(ledger: Ledger, url: str) -> None:
    begin_batch(ledger, "n1")
    change(url, DISCONNECT_THE_OTHERS)
    assert ledger.record_rows("n1", [("k1", success("after"))]) == 0
    assert texts(ledger, ["k1"]) == {("k1", 1): "after"}


def test_a_transaction_whose_connection_is_cut_leaves_nothing(ledger: Ledger, url: str) -> None:
    lease = acquire(ledger)
    with (
        just_before("INSERT INTO judge_batch_requests", lambda: change(url, DISCONNECT_THE_OTHERS)),
        pytest.raises(LedgerError, match="terminating connection"),
    ):
        ledger.record_intent(lease, intent("n1"))
    assert ledger.open_batches(SCOPE) == []
    ledger.record_intent(lease, intent("n1"))
    assert [batch.nonce for batch in ledger.open_batches(SCOPE)] == ["n1"]


def test_a_ledger_that_cannot_be_made_leaves_no_connection_behind(url: str) -> None:
    read_only = f"{url}?options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(LedgerError, check=failed_with("25006")) as caught:  # a read-only one
        Ledger(read_only)
    deadline = time.monotonic() + 60  # the server takes a moment to notice that somebody left
    while select(url, COUNT_THE_OTHERS) != [(0,)] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert select(url, COUNT_THE_OTHERS) == [(0,)]
    del caught  # until here it would have kept a forgotten connection open
