import json
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from upath import UPath

from tests.fuzz.pools import ROW
from tournament_assets.extras.transfers.judgment_files import (
    JudgmentRecord,
    parse_judgment,
    read_judgments,
    write_judgments,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.requests.pairs import Presentation
from tournament_assets.judging.requests.verdict_parsing import read_reply
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.tournament.verdicts import Verdict

KEY = ROW["request_key"]
OTHER_KEY = "f" * 64
NOON = datetime(2026, 9, 30, 12, tzinfo=UTC)
RECORD = JudgmentRecord(
    dimension="factuality",
    prompt_id="p1",
    sample=1,
    entrant_a="ada",
    entrant_b="bob",
    presentation=Presentation.AB,
    reply=StoredReply(
        request_key=KEY,
        attempt=1,
        channel="batch",
        result_type="succeeded",
        stop_reason="end_turn",
        text="VERDICT: A",
        model="judge-1",
        usage=TokenUsage(700, 40, 0, 2200),
        received_at=NOON,
    ),
)


def replied(record: JudgmentRecord = RECORD, **changed: Any) -> JudgmentRecord:
    """Return a record whose reply differs."""
    reply = replace(record.reply, **changed)
    return replace(
        record, reply=replace(reply, error_message=reply.text if reply.error_type else None)
    )


def parse(**changed: Any) -> JudgmentRecord:
    return parse_judgment(json.dumps(ROW | changed), where="j.jsonl:1")


def parse_without(*names: str) -> JudgmentRecord:
    row = {name: value for name, value in ROW.items() if name not in names}
    return parse_judgment(json.dumps(row), where="j.jsonl:1")


def write_lines(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "judgments_factuality.jsonl"
    whole = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"\n".join(whole))
    return path


def test_a_line_holds_the_record_and_its_short_forms(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    write_judgments(path, [RECORD])
    assert json.loads(path.read_text(encoding="utf-8")) == ROW
    assert parse() == RECORD


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
optional_texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
counts = st.integers(0, 2**31 - 1)
replies = st.builds(
    StoredReply,
    request_key=st.just(KEY),
    attempt=st.integers(1, 2**31 - 1),
    channel=st.sampled_from(["batch", "direct"]),
    result_type=st.sampled_from(["errored", "expired", "canceled", "a word of next year"]),
    stop_reason=optional_texts,
    text=optional_texts,
    error_type=optional_texts,
    model=texts,
    usage=st.none() | st.builds(TokenUsage, counts, counts, counts, counts),
    received_at=st.datetimes(
        datetime(1000, 1, 1),  # noqa: DTZ001  # hypothesis wants bounds without a zone
        timezones=st.integers(-720, 720).map(lambda m: timezone(timedelta(minutes=m))),
    ),
)
records = st.builds(
    JudgmentRecord,
    dimension=texts,
    prompt_id=texts,
    sample=st.integers(1, 2**31 - 1),
    entrant_a=texts,
    entrant_b=texts,
    presentation=st.sampled_from(Presentation),
    reply=replies
    | st.text(st.characters(codec="utf-8")).map(
        lambda text: replied(text=f"{text}\nVERDICT: A").reply
    ),
)


@given(st.lists(records, max_size=6, unique_by=lambda record: record.prompt_id))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, kept: list[JudgmentRecord]
) -> None:
    kept = [replied(record, request_key=f"{number:064x}") for number, record in enumerate(kept, 1)]
    path = tmp_path_factory.mktemp("round") / "judgments_factuality.jsonl"
    write_judgments(path, kept)
    found = read_judgments(path)
    assert (found.n_records, len(found.repeated)) == (len(kept), 0)
    assert {record.reply.request_key: record for record in found} == {
        record.reply.request_key: record for record in kept
    }
    first = path.read_bytes()
    write_judgments(path, [*found, *reversed(list(found))])
    assert path.read_bytes() == first


def test_the_same_records_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    kept = [
        replace(replied(attempt=attempt), prompt_id=prompt, presentation=presentation)
        for prompt in ("p2", "p1", "p10")
        for presentation in Presentation
        for attempt in (2, 1)
    ]
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    write_judgments(one, kept)
    write_judgments(other, reversed(kept))
    assert one.read_bytes() == other.read_bytes()
    assert [(r.prompt_id, r.presentation.value, r.reply.attempt) for r in read_judgments(one)][
        :5
    ] == [
        ("p1", "ab", 1),
        ("p1", "ab", 2),
        ("p1", "ba", 1),
        ("p1", "ba", 2),
        ("p10", "ab", 1),
    ]


def test_times_are_written_in_utc(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    there = NOON.astimezone(timezone(timedelta(hours=-5)))
    write_judgments(path, [replied(received_at=there)])
    assert '"received_at": "2026-09-30T12:00:00+00:00"' in path.read_text(encoding="utf-8")
    assert parse(received_at="2026-09-30T07:00:00-05:00").reply.received_at == NOON


def test_a_time_without_a_zone_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    with pytest.raises(InputError, match="time zone"):
        write_judgments(path, [replied(received_at=NOON.replace(tzinfo=None))])
    assert not path.exists()


def test_half_a_character_is_written_as_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    write_judgments(path, [replied(text="\ud800\nVERDICT: A")])
    (record,) = read_judgments(path)
    assert record.reply.text == "?\nVERDICT: A"


def test_an_object_store_keeps_a_file_too() -> None:
    path = UPath("memory://judgment-files/judgments_factuality.jsonl")
    write_judgments(path, [RECORD])
    assert list(read_judgments(path)) == [RECORD]


def test_no_record_is_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    write_judgments(path, [])
    assert (path.read_bytes(), list(read_judgments(path))) == (b"", [])


def test_what_a_file_of_another_origin_may_leave_out_is_none() -> None:
    names = ("cache_key", "position_swap", "stop_reason", "reply", "error_type")
    tokens = [name for name in ROW if name.endswith("_tokens")]
    found = parse_without(*names, *tokens)
    assert found == replied(
        stop_reason=None,
        text=None,
        usage=None,
        result_type="errored",
        error_type="infrastructure",
    )
    assert parse_without("presentation") == RECORD


def test_a_key_of_a_later_version_is_ignored() -> None:
    assert parse(confidence=[1, {"a": "\ud800"}]) == RECORD


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("request_key", "0123456789ab", "64 hex characters"),
        ("request_key", KEY.upper(), "64 hex characters"),
        ("request_key", f"{KEY}\n", "64 hex characters"),
        ("cache_key", "ffffffffffff", "'0123456789ab', with which the request_key begins"),
        ("dimension", " ", "a text"),
        ("prompt_id", 7, "a text"),
        ("entrant_a", "\ud800", "a text of whole characters"),
        ("presentation", "AB", "'ab' or 'ba'"),
        ("presentation", ["ab"], "'ab' or 'ba'"),
        ("position_swap", True, "what the presentation 'ab' says"),
        ("position_swap", 1, "what the presentation 'ab' says"),
        ("attempt", 0, "a whole number from 1 to 2147483647"),
        ("attempt", True, "a whole number"),
        ("attempt", 1.0, "a whole number"),
        ("channel", "post", "'batch' or 'direct'"),
        ("channel", None, "'batch' or 'direct'"),
        ("result_type", "", "a text"),
        ("result_type", "identical", "no stop_reason and no reply where nothing was asked"),
        ("reply", "\udfff", "a text of whole characters, or null"),
        ("reply", ["VERDICT: A"], "a text of whole characters, or null"),
        ("input_tokens", 10**400, "a whole number from 0"),
        ("output_tokens", -1, "a whole number from 0"),
        ("cache_read_input_tokens", None, "a whole number from 0"),
        ("received_at", "2026-09-30T12:00:00", "a time with its zone"),
        ("received_at", "0001-01-01T00:00:00+14:00", "a time with its zone"),
        ("received_at", 1_790_000_000, "a time with its zone"),
        ("received_at", "\ud800", "a time with its zone"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(
        InputError, match=f"^j.jsonl:1: {name} is .*; expected {expected}"
    ) as caught:
        parse(**{name: value})
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 250


def test_all_that_is_wrong_with_a_line_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_judgment("{}", where="j.jsonl:7")
    names = ["request_key", "dimension", "prompt_id", "entrant_a", "entrant_b", "presentation"]
    names += ["judge_model", "attempt", "channel", "result_type", "received_at"]
    found = [problem.split(";")[0] for problem in caught.value.problems]
    assert found == [f"j.jsonl:7: {name} is missing" for name in names]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"reply": "\xff"}', "not UTF-8"),
        ("{" + '"a": {' * 100_000, "nested too deeply"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"attempt": ' + "1" * 5_000 + "}", "digits"),
        ('{"input_tokens": NaN}', "NaN is not a JSON value"),
        ('{"input_tokens": -Infinity}', "-Infinity is not a JSON value"),
        ('{"reply": "VERDICT: A", "reply": "VERDICT: B"}', "a key occurs twice"),
        ("[1]", "holds list"),
        ("null", "holds NoneType"),
        ('{"a": 1} {"b": 2}', "Extra data"),
        ("\ufeff{}", "BOM"),
        ('{"a": 1', "delimiter"),
    ],
)
def test_a_line_that_is_no_object_is_refused(line: str | bytes, problem: str) -> None:
    with pytest.raises(InputError, match=f"^j.jsonl:3: .*{problem}.*; expected "):
        parse_judgment(line, where="j.jsonl:3")


@pytest.mark.parametrize("reply", [None, "", " \n", "Gateway is restarting", "<html>502</html>"])
def test_a_reply_that_is_no_judges_can_never_become_a_verdict(reply: str | None) -> None:
    record = parse(reply=reply).reply
    assert (record.result_type, record.error_type) == ("errored", "infrastructure")
    assert record.text == reply
    verdict, _ = read_reply(
        result_type=record.result_type, stop_reason=record.stop_reason, text=record.text
    )
    assert verdict is Verdict.PERMANENT


def test_what_failed_elsewhere_keeps_the_error_it_was_given_there() -> None:
    record = parse(result_type="errored", error_type="api_error", reply="Bad gateway").reply
    assert (record.result_type, record.error_type) == ("errored", "api_error")
    assert parse(result_type="expired", reply=None).reply.result_type == "expired"


@pytest.mark.parametrize(
    ("stop_reason", "reply"),
    [
        ("refusal", ""),
        ("max_tokens", None),
        ("end_turn", "B says: bad gateway.\nVERDICT: A"),
        ("end_turn", '{"reasoning": "B says: bad gateway.", "verdict": "A"}'),
        ("end_turn", "VERDICT: ABSTAIN"),
    ],
)
def test_a_judges_own_silence_or_words_stay_its_own(stop_reason: str, reply: str | None) -> None:
    record = parse(stop_reason=stop_reason, reply=reply)
    assert record == replied(stop_reason=stop_reason, text=reply)


def test_line_ends_blank_lines_and_a_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    second = json.dumps(
        ROW | {"prompt_id": "p2", "reply": "\u2028\nVERDICT: A"}, ensure_ascii=False
    )
    second = second.replace(KEY, OTHER_KEY).replace("0123456789ab", "f" * 12)
    path = write_lines(tmp_path, "\ufeff" + json.dumps(ROW) + "\r", "", " \t\r", second)
    found = read_judgments(path)
    assert [record.prompt_id for record in found] == ["p1", "p2"]
    assert found.n_records == 2


def test_every_broken_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = write_lines(tmp_path, b"\xff", json.dumps(ROW), "", "{}", "{")
    with pytest.raises(InputError) as caught:
        read_judgments(path)
    numbers = [problem.split(":")[1] for problem in caught.value.problems]
    assert numbers == ["1", *["4"] * 11, "5"]
    assert caught.value.problems[0].startswith("judgments_factuality.jsonl:1: ")


def test_fifty_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path, *["nothing"] * 73)
    with pytest.raises(InputError) as caught:
        read_judgments(path)
    assert len(caught.value.problems) == 51
    assert "23 more" in caught.value.problems[-1]


def test_a_line_that_stands_twice_is_counted_and_passed_over(tmp_path: Path) -> None:
    line = json.dumps(ROW)
    found = read_judgments(
        write_lines(tmp_path, line, json.dumps(dict(reversed(ROW.items()))), line)
    )
    assert (found.n_records, len(found.repeated)) == (1, 2)
    assert list(found) == [RECORD]


@pytest.mark.parametrize(
    "changed", [{"reply": "VERDICT: B"}, {"judge_model": "judge-2"}, {"output_tokens": 41}]
)
def test_two_answers_to_one_question_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = write_lines(tmp_path, json.dumps(ROW), json.dumps(ROW | changed))
    with pytest.raises(InputError, match=r":2: .*\.jsonl:1;"):
        read_judgments(path)


def test_asking_again_is_another_question(tmp_path: Path) -> None:
    again = ROW | {"attempt": 2, "reply": "VERDICT: B"}
    found = read_judgments(write_lines(tmp_path, json.dumps(ROW), json.dumps(again)))
    assert [record.reply.attempt for record in found] == [1, 2]


def test_one_answer_may_stand_with_every_pair_that_it_settles(tmp_path: Path) -> None:
    pair = {"entrant_a": "bob", "entrant_b": "cat", "presentation": "ba", "position_swap": True}
    found = read_judgments(write_lines(tmp_path, json.dumps(ROW), json.dumps(ROW | pair)))
    assert [(record.entrant_a, record.reply.text) for record in found] == [
        ("ada", RECORD.reply.text),
        ("bob", RECORD.reply.text),
    ]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.jsonl"):
        read_judgments(tmp_path / "absent.jsonl")
    with pytest.raises(InputError, match=tmp_path.name):
        read_judgments(tmp_path)


def test_a_file_is_read_without_holding_it_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(500):
            key = f"{number:064x}"
            row = {"request_key": key, "cache_key": key[:12], "prompt_id": f"p{number}"}
            file.write(json.dumps(ROW | row | {"reply": "x" * 10_000 + "\nVERDICT: A"}) + "\n")
    tracemalloc.start()
    assert sum(1 for _ in read_judgments(path)) == 500
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < path.stat().st_size / 10
