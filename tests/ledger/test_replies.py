from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tournament_assets.judging.batch_service import Channel, ReplyRow
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import LedgerError

from .builders import USAGE, begin_batch, failure, numbered_keys, select, success, texts


@pytest.mark.parametrize("channel", ["batch", "direct"])
def test_a_reply_comes_back_whole_in_a_later_process(
    ledger: Ledger, ledger_url: str, channel: Channel
) -> None:
    begin_batch(ledger, "n1", ["k1"], channel=channel, attempt=3)
    before = datetime.now(UTC)
    text = "Ja – 5 µg 😀\r\n\tVERDICT: A\n"
    assert ledger.record_rows("n1", [("k1", success(text, stop_reason="max_tokens"))]) == 0
    ledger.close()
    later = Ledger(ledger_url)
    (reply,) = later.iterate_replies(["k1", "k2"])
    later.close()
    assert before <= reply.received_at <= datetime.now(UTC)
    assert reply == StoredReply(
        request_key="k1",
        attempt=3,
        channel=channel,
        result_type="succeeded",
        stop_reason="max_tokens",
        text=text,
        error_type=None,
        model="judge-1",
        usage=USAGE,
        received_at=reply.received_at,
    )


def test_a_permanent_failure_is_final_and_cost_nothing(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    ledger.record_rows("n1", [("k1", failure("invalid_request_error"))])
    (reply,) = ledger.iterate_replies(["k1"])
    assert (reply.result_type, reply.error_type) == ("errored", "invalid_request_error")
    assert (reply.text, reply.stop_reason, reply.model, reply.usage) == (None, None, None, None)
    assert ledger.answered_keys(["k1"]) == {"k1"}


def test_the_first_reply_to_an_asking_stays(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2")
    ledger.record_rows("n1", [("k1", success("first"))])
    ledger.record_rows("n2", [("k1", success("second")), ("k2", success("second"))])
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "first", ("k2", 1): "second"}


def test_of_a_key_that_a_batch_answers_twice_the_first_reply_stays(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    rows = [("k2", success("one")), ("k1", success("one")), ("k2", success("two"))]
    assert ledger.record_rows("n1", rows) == 0
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "one", ("k2", 1): "one"}


def test_the_reply_to_a_second_asking_is_kept_beside_the_first(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1", "k2"])
    begin_batch(ledger, "n2", ["k1"], attempt=2)
    ledger.record_rows("n1", [("k1", success("unreadable")), ("k2", success("clear"))])
    assert ledger.answered_keys(["k1", "k2"], attempt=2) == set()
    assert ledger.record_rows("n2", [("k1", success("clearer"))]) == 0
    assert texts(ledger, ["k1", "k2"]) == {
        ("k1", 1): "unreadable",
        ("k1", 2): "clearer",
        ("k2", 1): "clear",
    }
    assert ledger.answered_keys(["k1", "k2"]) == {"k1", "k2"}
    assert ledger.answered_keys(["k1", "k2"], attempt=2) == {"k1"}


def test_a_reply_that_was_paid_for_twice_is_counted_with_its_tokens(
    ledger: Ledger, ledger_url: str
) -> None:
    begin_batch(ledger, "n1", ["k1"])
    begin_batch(ledger, "n2", ["k1", "k2", "k3"], channel="direct")
    ledger.record_rows("n1", [("k1", success("first"))])
    dearer = replace(USAGE, output_tokens=99)
    rows = [("k1", success("again", usage=dearer)), ("k2", success("new"))]
    assert ledger.record_rows("n2", rows) == 1
    assert texts(ledger, ["k1"]) == {("k1", 1): "first"}
    assert select(
        ledger_url,
        "SELECT request_key, nonce, channel, input_tokens, output_tokens, "
        "cache_creation_input_tokens, cache_read_input_tokens FROM judge_paid_twice",
    ) == [("k1", "n2", "direct", 700, 99, 0, 2200)]


def test_reading_a_batch_again_changes_nothing(ledger: Ledger, ledger_url: str) -> None:
    begin_batch(ledger, "n1", ["k1"])
    begin_batch(ledger, "n2", ["k1", "k2"])
    first = [("k1", success("first"))]
    second = [("k1", success("again")), ("k2", success("new"))]
    for _ in range(3):
        assert ledger.record_rows("n1", first) == 0
        assert ledger.record_rows("n2", second) == 1
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "first", ("k2", 1): "new"}
    assert select(ledger_url, "SELECT count(*) FROM judge_paid_twice") == [(1,)]


def test_replies_of_other_askings_were_not_paid_for_twice(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", attempt=2)
    begin_batch(ledger, "n2", attempt=1)
    assert ledger.record_rows("n1", [("k1", success("second"))]) == 0
    assert ledger.record_rows("n2", [("k1", success("first"))]) == 0
    assert texts(ledger, ["k1"]) == {("k1", 1): "first", ("k1", 2): "second"}


def test_a_raw_row_is_kept_verbatim(ledger: Ledger, ledger_url: str) -> None:
    raw = '{"custom_id":"é","result":{"text":"a\\u0000b","type":"succeeded"}}' + " " * 200_000
    begin_batch(ledger, "n1")
    ledger.record_rows("n1", [("k1", success("", raw=raw))])
    assert select(ledger_url, "SELECT raw FROM judge_replies") == [(raw,)]


def test_a_reply_that_no_database_could_store_is_not_lost(ledger: Ledger, ledger_url: str) -> None:
    begin_batch(ledger, "n1")
    broken = ReplyRow(
        custom_id="i",
        result_type="errored",
        text="a \ud83d b \0 c",
        stop_reason="\0",
        error_type="\udfff",
        error_message="\ud800\0",
        model="j\0",
        usage=None,
        raw="{\0}",
    )
    ledger.record_rows("n1", [("k1", broken)])
    (reply,) = ledger.iterate_replies(["k1"])
    assert reply.text == "a \ufffd b \ufffd c"
    assert (reply.stop_reason, reply.error_type, reply.model) == ("\ufffd", "\ufffd", "j\ufffd")
    assert select(ledger_url, "SELECT error_message, raw FROM judge_replies") == [
        ("\ufffd\ufffd", "{\ufffd}")
    ]


def test_ten_thousand_replies_come_back_by_key_and_then_by_asking(ledger: Ledger) -> None:
    keys = numbered_keys(10_000)
    begin_batch(ledger, "n1", keys)
    begin_batch(ledger, "n2", keys[::3], attempt=2)
    ledger.record_rows("n2", [(key, success(f"2 {key}")) for key in reversed(keys[::3])])
    ledger.record_rows("n1", [(key, success(f"1 {key}")) for key in reversed(keys)])
    assert ledger.answered_keys(iter([*keys, "another"])) == set(keys)
    assert ledger.answered_keys(keys, attempt=2) == set(keys[::3])
    asked = (key for key in [*keys[5000:], *keys[:5000], *keys[:700], "another"])
    replies = ledger.iterate_replies(asked)
    assert [(reply.request_key, reply.attempt, reply.text) for reply in replies] == [
        (key, attempt, f"{attempt} {key}")
        for number, key in enumerate(keys)
        for attempt in ([1, 2] if number % 3 == 0 else [1])
    ]


def test_replies_that_nobody_finishes_reading_keep_nobody_from_writing(
    ledger: Ledger, other_ledger: Ledger
) -> None:
    keys = numbered_keys(600)
    begin_batch(ledger, "n1", keys)
    ledger.record_rows("n1", [(key, success(key)) for key in keys[:590]])
    reading = ledger.iterate_replies(keys)
    assert next(reading).request_key == keys[0]
    other_ledger.record_rows("n1", [(key, success(key)) for key in keys[590:]])
    assert sum(1 for _ in reading) == 599


def test_nothing_is_found_for_no_keys(ledger: Ledger) -> None:
    assert ledger.record_rows("n1", []) == 0
    assert ledger.answered_keys([]) == set()
    assert list(ledger.iterate_replies([])) == []


def test_replies_of_a_batch_that_nobody_began_contradict_the_ledger(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="No row was found"):
        ledger.record_rows("n1", [("k1", success("VERDICT: A"))])
    assert ledger.answered_keys(["k1"]) == set()
