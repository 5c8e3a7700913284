import multiprocessing
import signal
from datetime import UTC, datetime

import pytest

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.settlement.records import OpenBatch, StoredReply
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.prompts import GeneratedResponse

from .at_once import run_at_once
from .builders import SCOPE, USAGE, begin_batch, change, numbered_keys, select, success, texts
from .first_version import ASIDE, REPLIES, REPLIES_TABLE, make_first_version, open_and_be_killed

RECEIVED_AT = datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)
EXPECTED_REPLIES = [
    StoredReply(
        request_key="k1",
        asking=1,
        channel="batch",
        result_type="succeeded",
        stop_reason="end_turn",
        text="Ja – 😀 VERDICT: A",
        error_type=None,
        model="judge-1",
        usage=USAGE,
        received_at=RECEIVED_AT,
    ),
    StoredReply(
        request_key="k2",
        asking=1,
        channel="batch",
        result_type="errored",
        stop_reason=None,
        text=None,
        error_type="invalid_request_error",
        model=None,
        usage=None,
        received_at=RECEIVED_AT,
    ),
]


@pytest.fixture
def first_url(ledger_url: str) -> str:
    make_first_version(ledger_url)
    return ledger_url


def check_that_nothing_was_lost(url: str) -> None:
    ledger = Ledger(url)
    assert list(ledger.iterate_replies(["k1", "k2", "k3"])) == EXPECTED_REPLIES
    assert ledger.answered_keys(["k1", "k2", "k3"]) == {"k1", "k2"}
    assert ledger.open_batches(SCOPE) == [
        OpenBatch(
            "n2", "batch-2", 1, datetime(2026, 3, 1, 12, 0, 3, tzinfo=UTC), "batch", "judge-1"
        )
    ]
    assert ledger.batch_keys("n1") == {"k1", "k2"}
    assert ledger.known_batch_ids({"batch-1", "batch-2", "batch-3"}) == {"batch-1", "batch-2"}
    assert ledger.failed_keys(["k3"]) == {"k3": "overloaded_error"}
    assert ledger.responses("entrant", ["f1"]) == {
        "f1": GeneratedResponse("p1", "It is C.", "stop", 7, 3, {"a": 0.5})
    }
    ledger.close()
    assert select(url, "SELECT raw, nonce FROM judge_replies WHERE request_key = 'k1'") == [
        ('{"raw":1}', "n1")
    ]


def table_exists(url: str, table: str) -> bool:
    if url.startswith("sqlite"):
        query = f"SELECT count(*) FROM sqlite_master WHERE name = '{table}'"  # noqa: S608
    else:
        query = f"SELECT count(*) FROM pg_tables WHERE tablename = '{table}'"  # noqa: S608
    return select(url, query) == [(1,)]


def put_old_table_beside(url: str) -> None:
    """Put the replies as they were beside the new table, where a kill may have left them."""
    for statement in (REPLIES_TABLE, *REPLIES):
        change(url, statement.replace("judge_replies", ASIDE))


def test_a_ledger_of_the_first_version_loses_nothing(first_url: str) -> None:
    check_that_nothing_was_lost(first_url)
    check_that_nothing_was_lost(first_url)
    assert not table_exists(first_url, ASIDE)


def test_work_goes_on_in_a_ledger_of_the_first_version(first_url: str) -> None:
    ledger = Ledger(first_url)
    assert ledger.record_rows("n2", [("k3", success("VERDICT: B"))]) == 0
    ledger.record_closed("n2", state="harvested")
    begin_batch(ledger, "n3", ["k1"], asking=2, channel="direct")
    ledger.record_rows("n3", [("k1", success("VERDICT: TIE"))])
    ledger.record_closed("n3", state="harvested")
    assert ledger.open_batches(SCOPE) == []
    assert texts(ledger, ["k1", "k3"]) == {
        ("k1", 1): "Ja – 😀 VERDICT: A",
        ("k1", 2): "VERDICT: TIE",
        ("k3", 1): "VERDICT: B",
    }
    (batch_spending, direct_spending) = ledger.spending_since()
    assert batch_spending.usage == TokenUsage(1400, 80, 0, 4400)
    assert direct_spending.usage == USAGE
    ledger.close()


def test_a_ledger_of_the_first_version_without_replies_is_brought_up_to_date(
    ledger_url: str,
) -> None:
    make_first_version(ledger_url)
    change(ledger_url, "DELETE FROM judge_replies")
    ledger = Ledger(ledger_url)
    begin_batch(ledger, "n3", ["k1"], asking=2)
    ledger.record_rows("n3", [("k1", success("VERDICT: A"))])
    assert texts(ledger, ["k1", "k2"]) == {("k1", 2): "VERDICT: A"}
    ledger.close()


@pytest.mark.parametrize("attempt", range(3))
def test_several_runs_can_bring_a_ledger_up_to_date_at_once(first_url: str, attempt: int) -> None:
    run_at_once([lambda: check_that_nothing_was_lost(first_url)] * 6)
    assert not table_exists(first_url, ASIDE)


def test_an_update_that_was_broken_off_before_the_copy_is_finished(first_url: str) -> None:
    change(first_url, f"ALTER TABLE judge_replies RENAME TO {ASIDE}")
    check_that_nothing_was_lost(first_url)
    assert not table_exists(first_url, ASIDE)


@pytest.mark.parametrize("not_copied", [["k1", "k2"], ["k2"], []])
def test_an_update_that_was_broken_off_in_the_copy_is_finished(
    first_url: str, not_copied: list[str]
) -> None:
    Ledger(first_url).close()
    put_old_table_beside(first_url)
    for key in not_copied:
        change(first_url, "DELETE FROM judge_replies WHERE request_key = :key", key=key)
    check_that_nothing_was_lost(first_url)
    assert not table_exists(first_url, ASIDE)


def test_what_was_answered_since_an_update_was_broken_off_stays(first_url: str) -> None:
    ledger = Ledger(first_url)
    begin_batch(ledger, "n3", ["k1"], asking=2)
    ledger.record_rows("n3", [("k1", success("VERDICT: TIE"))])
    ledger.record_rows("n2", [("k3", success("newer"))])
    ledger.close()
    put_old_table_beside(first_url)
    change(
        first_url,
        "DELETE FROM judge_replies WHERE request_key = 'k1' AND asking = 1",
        f"UPDATE {ASIDE} SET request_key = 'k3' WHERE request_key = 'k2'",  # noqa: S608
    )
    again = Ledger(first_url)
    assert texts(again, ["k1", "k2", "k3"]) == {
        ("k1", 1): "Ja – 😀 VERDICT: A",
        ("k1", 2): "VERDICT: TIE",
        ("k2", 1): None,
        ("k3", 1): "newer",
    }
    again.close()


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE", "ALTER TABLE judge_batches", "INSERT INTO judge_replies", "DROP"]
)
def test_a_run_that_is_killed_while_it_updates_leaves_a_whole_ledger(
    first_url: str, statement: str
) -> None:
    run = multiprocessing.get_context("spawn").Process(
        target=open_and_be_killed, args=(first_url, statement)
    )
    run.start()
    run.join(120)
    assert run.exitcode == -signal.SIGKILL
    check_that_nothing_was_lost(first_url)
    assert not table_exists(first_url, ASIDE)


def test_a_large_ledger_of_the_first_version_is_brought_up_to_date(first_url: str) -> None:
    keys = numbered_keys(5000)
    rows = (f"('{key}', 'n1', 'succeeded', '{{}}', '2026-03-01T12:00:01')" for key in keys)
    columns = "request_key, nonce, result_type, raw, received_at"
    change(first_url, f"INSERT INTO judge_replies ({columns}) VALUES {', '.join(rows)}")  # noqa: S608
    ledger = Ledger(first_url)
    assert ledger.answered_keys(keys) == set(keys)
    ledger.close()
    check_that_nothing_was_lost(first_url)
