import multiprocessing
import os
import signal

import pytest

from tournament_assets.ledger import Ledger

from .at_once import run_at_once
from .builders import begin_batch, change, just_before, select, success, texts

LATER_COLUMNS = {"judge_batch_requests": "most_usd", "judge_failures": "may_be_billed"}


@pytest.fixture
def earlier_url(ledger_url: str) -> str:
    """A ledger with a reply and an open batch, without the columns that came later."""
    ledger = Ledger(ledger_url)
    begin_batch(ledger, "n1", ["k1"])
    ledger.record_rows("n1", [("k1", success("VERDICT: A"))])
    begin_batch(ledger, "n2", ["k2"])
    ledger.close()
    for table, column in LATER_COLUMNS.items():
        change(ledger_url, f"ALTER TABLE {table} DROP COLUMN {column}")
    return ledger_url


def check_that_nothing_was_lost(url: str) -> None:
    ledger = Ledger(url)
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "VERDICT: A"}
    assert ledger.batch_keys("n2") == {"k2"}
    ledger.close()
    for table, column in LATER_COLUMNS.items():
        select(url, f"SELECT {column} FROM {table}")  # noqa: S608


def open_and_be_killed(url: str, statement: str) -> None:
    with just_before(statement, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        Ledger(url)


def test_a_ledger_of_an_earlier_version_gets_its_columns_and_loses_nothing(
    earlier_url: str,
) -> None:
    check_that_nothing_was_lost(earlier_url)
    check_that_nothing_was_lost(earlier_url)


def test_work_goes_on_in_it(earlier_url: str) -> None:
    ledger = Ledger(earlier_url)
    ledger.record_rows("n2", [("k2", success("VERDICT: B"))])
    assert texts(ledger, ["k2"]) == {("k2", 1): "VERDICT: B"}
    ledger.close()


@pytest.mark.parametrize("attempt", range(3))
def test_several_runs_can_bring_a_ledger_up_to_date_at_once(earlier_url: str, attempt: int) -> None:
    run_at_once([lambda: check_that_nothing_was_lost(earlier_url)] * 6)


@pytest.mark.parametrize("table", LATER_COLUMNS)
def test_a_run_that_is_killed_while_it_updates_leaves_a_whole_ledger(
    earlier_url: str, table: str
) -> None:
    run = multiprocessing.get_context("spawn").Process(
        target=open_and_be_killed, args=(earlier_url, f"ALTER TABLE {table}")
    )
    run.start()
    run.join(120)
    assert run.exitcode == -signal.SIGKILL
    check_that_nothing_was_lost(earlier_url)
