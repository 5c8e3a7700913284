import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.prompt_bank.multiple_choice import (
    detect_format,
    read_question_file,
    read_questions,
)
from tournament_assets.tournament.errors import InputError

MEDMCQA = {
    "question": "Which crystals cause gout?",
    "opa": "Uric acid",
    "opb": "Oxalate",
    "opc": "Calcium",
    "opd": "Iron",
    "cop": 0,
}
MEDQA = {
    "question": "Which crystals cause gout?",
    "options": {"A": "Uric acid", "B": "Oxalate"},
    "answer": "Oxalate",
    "answer_idx": "B",
}


def write_lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_lines_are_read_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"a": 1}\n\n{"a": "x\u2028y"}\r\n', encoding="utf-8")
    assert read_question_file(path) == [
        ("train.jsonl:1", {"a": 1}),
        ("train.jsonl:3", {"a": "x\u2028y"}),
    ]


def test_a_json_file_may_hold_lines_or_a_list(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "lines.json", MEDQA, MEDQA)
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([MEDQA, MEDQA]), encoding="utf-8")
    assert [where for where, _ in read_question_file(lines)] == ["lines.json:1", "lines.json:2"]
    assert [where for where, _ in read_question_file(listed)] == [
        "list.json:item 1",
        "list.json:item 2",
    ]
    assert [row for _, row in read_question_file(listed)] == [MEDQA, MEDQA]


@pytest.mark.parametrize(
    "options_type",
    [
        pa.struct([("A", pa.string()), ("B", pa.string()), ("E", pa.string())]),
        pa.map_(pa.string(), pa.string()),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
    ],
)
def test_parquet_options_are_read_whatever_their_type(
    tmp_path: Path, options_type: pa.DataType
) -> None:
    path = tmp_path / "test.parquet"
    options: Any = MEDQA["options"]
    if not pa.types.is_struct(options_type):
        options = list(options.items())
    if pa.types.is_list(options_type):
        options = [{"key": key, "value": value} for key, value in options]
    columns = {name: [value] for name, value in MEDQA.items() if name != "options"}
    pq.write_table(pa.table({**columns, "options": pa.array([options], type=options_type)}), path)
    (question,) = read_questions(path, expected_format="medqa")
    assert question.where == "test.parquet:row 1"
    assert question.options == ("Uric acid", "Oxalate")
    assert question.gold_answer == "Oxalate"


def test_a_medmcqa_file_is_read_as_a_whole(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.json", MEDMCQA, MEDMCQA | {"cop": 2})
    assert [question.gold_answer for question in read_questions(path)] == ["Uric acid", "Calcium"]


def test_the_caller_can_say_what_cop_counts_from(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.jsonl", MEDMCQA | {"cop": 1})
    assert [question.gold_answer for question in read_questions(path, cop_base=0)] == ["Oxalate"]


def test_every_broken_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"a": 1}\n{"a": \n[1, 2]\n', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_question_file(path)
    cut, listed = caught.value.problems
    assert cut.startswith("train.jsonl:2: ")
    assert listed.startswith("train.jsonl:3: ")


def test_fifty_items_that_are_no_objects_are_listed_and_the_others_counted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([MEDQA, *range(53)]), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_question_file(path)
    assert len(caught.value.problems) == 51
    assert caught.value.problems[0] == "train.json:item 2: the row is 0; expected a JSON object"
    assert caught.value.problems[-1] == "… and 3 more problems of the same file"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("train.csv", b"a,b", "the file holds no row"),
        ("empty.jsonl", b"\n", "the file is empty"),
        ("list.json", b"\n [\n{},\n", r"list.json: the file cannot be read \(.*line 4"),
        ("list.json", b'["\xff"]', "byte 0xff in position 2"),
        ("list.json", b"[{}, [1]]", r"list.json:item 2: the row is \[1\]"),
        ("cut.parquet", b"PAR1", "not readable as Parquet"),
    ],
)
def test_an_unreadable_file_says_what_is_wrong(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_question_file(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file cannot be read"):
        read_question_file(tmp_path / "absent.jsonl")


def test_the_columns_tell_the_format() -> None:
    assert detect_format([("train.json:1", MEDMCQA)]) == "medmcqa"
    assert detect_format([("train.json:1", MEDQA)]) == "medqa"


def test_other_columns_are_refused_with_what_was_found() -> None:
    with pytest.raises(InputError, match=r"train.json:1: the columns are ending0, sent1; expected"):
        detect_format([("train.json:1", {"sent1": "Which?", "ending0": "Gout"})])


def test_a_file_of_the_other_set_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "train.jsonl", MEDQA)
    with pytest.raises(InputError, match="columns are those of medqa; expected medmcqa"):
        read_questions(path, expected_format="medmcqa")
