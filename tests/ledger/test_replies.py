from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tournament_assets.foundation.errors import LedgerError
from tournament_assets.judging.batch_service import Channel, ReplyRow
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.prompts import GeneratedResponse

from .at_once import run_at_once
from .builders import USAGE, begin_batch, failure, numbered_keys, select, stored, success, texts


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
    (row,) = select(
        ledger_url,
        "SELECT request_key, nonce, channel, input_tokens, output_tokens, "
        "cache_creation_input_tokens, cache_read_input_tokens FROM judge_paid_twice",
    )
    assert row == ("k1", "n2", "direct", 700, 99, 0, 2200)


def test_reading_a_batch_again_changes_nothing(ledger: Ledger, ledger_url: str) -> None:
    begin_batch(ledger, "n1", ["k1"])
    begin_batch(ledger, "n2", ["k1", "k2"])
    first = [("k1", success("first"))]
    second = [("k1", success("again")), ("k2", success("new"))]
    for _ in range(3):
        assert ledger.record_rows("n1", first) == 0
        assert ledger.record_rows("n2", second) == 1
    assert texts(ledger, ["k1", "k2"]) == {("k1", 1): "first", ("k2", 1): "new"}
    assert len(select(ledger_url, "SELECT * FROM judge_paid_twice")) == 1


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
    rows = select(ledger_url, "SELECT error_message, raw FROM judge_replies")
    assert rows == [("\ufffd\ufffd", "{\ufffd}")]


def test_replies_to_many_queries_come_back_by_key_and_then_by_asking(ledger: Ledger) -> None:
    keys = numbered_keys(1800)  # a query names 500
    begin_batch(ledger, "n1", keys)
    begin_batch(ledger, "n2", keys[::3], attempt=2)
    ledger.record_rows("n2", [(key, success(f"2 {key}")) for key in reversed(keys[::3])])
    ledger.record_rows("n1", [(key, success(f"1 {key}")) for key in reversed(keys)])
    assert ledger.answered_keys(iter([*keys, "another"])) == set(keys)
    assert ledger.answered_keys(keys, attempt=2) == set(keys[::3])
    asked = (key for key in [*keys[900:], *keys[:900], *keys[:700], "another"])
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
    with pytest.raises(LedgerError, match="No row"):
        ledger.record_rows("n1", [("k1", success("VERDICT: A"))])
    assert ledger.answered_keys(["k1"]) == set()


def test_a_passing_failure_answers_nothing_and_is_kept_every_time(
    ledger: Ledger, ledger_url: str
) -> None:
    busy = failure("overloaded_error")
    ledger.record_failures("n1", [("k1", busy), ("k2", busy)])
    ledger.record_failures("n2", [("k1", busy)])
    ledger.record_failures("n3", [])
    assert ledger.answered_keys(["k1", "k2"]) == set()
    assert list(ledger.iterate_replies(["k1", "k2"])) == []
    rows = select(
        ledger_url,
        "SELECT request_key, nonce, error_type FROM judge_failures ORDER BY failure_id",
    )
    assert rows == [
        ("k1", "n1", "overloaded_error"),
        ("k2", "n1", "overloaded_error"),
        ("k1", "n2", "overloaded_error"),
    ]


def test_it_is_told_how_a_request_failed_last(ledger: Ledger) -> None:
    ledger.record_failures("n1", [("k1", failure("overloaded_error")), ("k2", failure(None))])
    ledger.record_failures("n2", [("k1", failure(None, result_type="expired"))])
    assert ledger.failed_keys(["k1", "k2", "k3"]) == {"k1": "expired", "k2": "errored"}
    assert ledger.failed_keys([]) == {}


def test_it_is_told_what_failed_since_a_moment(ledger: Ledger) -> None:
    ledger.record_failures("n1", [("k1", failure("timeout"))])
    between = datetime.now(UTC)
    ledger.record_failures("n2", [("k2", failure("timeout"))])
    assert ledger.failed_keys(["k1", "k2"], since=between) == {"k2": "timeout"}
    assert ledger.failed_keys(["k1", "k2"], since=between + timedelta(hours=1)) == {}


def test_a_request_that_failed_may_be_answered_later(ledger: Ledger) -> None:
    begin_batch(ledger, "n2")
    ledger.record_failures("n1", [("k1", failure("overloaded_error"))])
    ledger.record_rows("n2", [("k1", success("VERDICT: A"))])
    assert ledger.answered_keys(["k1"]) == {"k1"}
    assert ledger.failed_keys(["k1"]) == {"k1": "overloaded_error"}


def test_failures_of_more_keys_than_one_query_can_name_are_found(ledger: Ledger) -> None:
    keys = numbered_keys(1201)
    ledger.record_failures("n1", [(key, failure("timeout")) for key in keys])
    assert ledger.failed_keys(iter(keys)) == dict.fromkeys(keys, "timeout")


def test_a_failure_that_no_database_could_store_is_not_lost(
    ledger: Ledger, ledger_url: str
) -> None:
    ledger.record_failures("n1", [("k1", failure("a\0b\ud83d", result_type="\udfff"))])
    assert ledger.failed_keys(["k1"]) == {"k1": "a\ufffdb\ufffd"}
    rows = select(ledger_url, "SELECT result_type FROM judge_failures")
    assert rows == [("\ufffd",)]


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
    assert len(select(ledger_url, "SELECT * FROM judge_replies")) == 2000


def test_nothing_is_imported_from_nothing(ledger: Ledger) -> None:
    assert ledger.import_replies([]) == 0


def test_an_imported_reply_that_no_database_could_store_is_not_lost(ledger: Ledger) -> None:
    assert ledger.import_replies([stored("k1", text="a\0\ud83d")]) == 1
    assert texts(ledger, ["k1"]) == {("k1", 1): "a\ufffd\ufffd"}


FRESH_ENTRANTS = (f"entrant {number}" for number in count())


def test_responses_come_back_whole_in_a_later_process(ledger: Ledger, ledger_url: str) -> None:
    full = GeneratedResponse("p1", "Ja – 5 µg 😀\n", "stop", 7, 12, {"b": [1, None], "a": 0.5})
    bare = GeneratedResponse("p2", "", "recorded")
    ledger.keep_responses("entrant", [("f1", full), ("f2", bare)])
    ledger.close()
    later = Ledger(ledger_url)
    assert later.responses("entrant", ["f1", "f2", "f3"], cuts_thoughts=False) == {
        "f1": full,
        "f2": bare,
    }
    assert later.responses("another entrant", ["f1", "f2"], cuts_thoughts=False) == {}
    later.close()


def test_the_first_response_stays(ledger: Ledger) -> None:
    first, second = (GeneratedResponse("p1", text, "stop") for text in ("first", "second"))
    ledger.keep_responses("entrant", [("f1", first)])
    ledger.keep_responses("entrant", [("f1", second), ("f2", second)])
    assert ledger.responses("entrant", ["f1", "f2"], cuts_thoughts=False) == {
        "f1": first,
        "f2": second,
    }


def test_a_response_that_no_database_could_store_is_not_lost(ledger: Ledger) -> None:
    broken = GeneratedResponse("p\0", "a \ud83d b\0", "stop", 1, 2, {"x\0": "\ud800"})
    ledger.keep_responses("entrant", [("f1", broken)])
    assert ledger.responses("entrant", ["f1"], cuts_thoughts=False)["f1"] == GeneratedResponse(
        "p\ufffd", "a \ufffd b\ufffd", "stop", 1, 2, {"x\0": "\ud800"}
    )


def test_more_responses_than_one_query_can_name_are_looked_up(ledger: Ledger) -> None:
    keys = numbered_keys(1201)
    ledger.keep_responses("e", [(key, GeneratedResponse(key, "", "stop")) for key in keys])
    found = ledger.responses("e", iter([*keys, "another"]), cuts_thoughts=False)
    assert {key: response.prompt_id for key, response in found.items()} == {
        key: key for key in keys
    }


def test_no_responses_are_found_for_no_prompts(ledger: Ledger) -> None:
    ledger.keep_responses("entrant", [])
    assert ledger.responses("entrant", [], cuts_thoughts=False) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["f1", "f2", "f3"]),
            st.builds(
                GeneratedResponse,
                prompt_id=st.just("p"),
                text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
                finish_reason=st.sampled_from(["stop", "length"]),
                prompt_tokens=st.none() | st.integers(0, 2**31 - 1),
                response_tokens=st.none() | st.integers(0, 2**31 - 1),
                diagnostics=st.dictionaries(st.text(max_size=3), st.integers() | st.none()),
            ),
        ),
        max_size=6,
    )
)
def test_what_is_kept_is_the_first_response_of_each_prompt(
    ledger: Ledger, responses: list[tuple[str, GeneratedResponse]]
) -> None:
    entrant = next(FRESH_ENTRANTS)
    expected: dict[str, GeneratedResponse] = {}
    for key, response in responses:
        ledger.keep_responses(entrant, [(key, response)])
        expected.setdefault(key, response)
    assert ledger.responses(entrant, ["f1", "f2", "f3"], cuts_thoughts=False) == expected
