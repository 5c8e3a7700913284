from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import Ledger

from .at_once import run_at_once
from .builders import begin_batch, numbered_keys, select, stored, success, texts


def test_imported_replies_come_back_as_they_were(ledger: Ledger) -> None:
    replies = [
        stored("k1", text="Ja – 😀", received_at=datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)),
        stored("k1", attempt=2, channel="direct", stop_reason="max_tokens", text=None),
        stored("k2", result_type="errored", error_type="invalid_request_error", usage=None),
    ]
    assert ledger.import_replies(reversed(replies)) == 3
    assert list(ledger.iterate_replies(["k1", "k2"])) == replies
    assert ledger.answered_keys(["k1", "k2"]) == {"k1", "k2"}


def test_what_is_held_already_stays(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    ledger.record_rows("n1", [("k1", success("ours"))])
    theirs = [stored("k1", text="theirs"), stored("k2", text="theirs")]
    assert ledger.import_replies(theirs) == 1
    assert ledger.import_replies(theirs) == 0
    assert ledger.import_replies([stored("k1", attempt=2, text="theirs")]) == 1
    assert texts(ledger, ["k1", "k2"]) == {
        ("k1", 1): "ours",
        ("k1", 2): "theirs",
        ("k2", 1): "theirs",
    }


def test_of_an_import_that_says_two_things_the_first_one_stays(ledger: Ledger) -> None:
    assert ledger.import_replies([stored("k1", text="one"), stored("k1", text="two")]) == 1
    assert texts(ledger, ["k1"]) == {("k1", 1): "one"}


def test_what_was_imported_and_is_bought_again_was_paid_for_twice(ledger: Ledger) -> None:
    ledger.import_replies([stored("k1", text="theirs")])
    begin_batch(ledger, "n1", ["k1", "k2"])
    assert ledger.record_rows("n1", [("k1", success("ours")), ("k2", success("ours"))]) == 1
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "theirs", ("k2", 1): "ours"}


def test_an_import_that_breaks_off_keeps_what_it_wrote_and_can_be_repeated(
    ledger: Ledger,
) -> None:
    replies = [stored(key) for key in numbered_keys(1201)]

    def broken_file() -> Iterator[StoredReply]:
        yield from replies[:1100]
        raise EOFError

    with pytest.raises(EOFError):
        ledger.import_replies(broken_file())
    n_kept = len(list(ledger.iterate_replies(numbered_keys(1201))))
    assert 0 < n_kept <= 1100
    assert ledger.import_replies(iter(replies)) == 1201 - n_kept
    assert list(ledger.iterate_replies(numbered_keys(1201))) == replies


def test_two_imports_at_once_share_the_count(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    replies = [stored(key) for key in numbered_keys(2000)]
    counts = run_at_once(
        [
            lambda: ledger.import_replies(replies),
            lambda: other_ledger.import_replies(reversed(replies)),
        ]
    )
    assert sum(count for count in counts if isinstance(count, int)) == 2000
    assert select(ledger_url, "SELECT count(*) FROM judge_replies") == [(2000,)]


def test_nothing_is_imported_from_nothing(ledger: Ledger) -> None:
    assert ledger.import_replies([]) == 0


def test_an_imported_reply_that_no_database_could_store_is_not_lost(ledger: Ledger) -> None:
    assert ledger.import_replies([stored("k1", text="a\0\ud83d")]) == 1
    assert texts(ledger, ["k1"]) == {("k1", 1): "a\ufffd\ufffd"}
