import json
import re
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import CONTAINERS, write_container
from tournament_assets.extras.banks.multiple_choice import (
    parse_medmcqa,
    parse_medqa,
    read_questions,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.storage.row_files import read_rows, sample_file

from .builders import at_lines, medqa_row, write_rows


def medmcqa_row(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "q-1",
        "question": "Which crystals cause gout?",
        "opa": "Uric acid",
        "opb": "Oxalate",
        "opc": "Calcium",
        "opd": "Iron",
        "cop": 1,
        "choice_type": "single",
        "exp": None,
        "subject_name": "Medicine",
        "topic_name": None,
    }
    return row | changes


def gold_answers(*cops: Any, cop_base: Literal[0, 1] | None = None) -> list[str | None]:
    rows = at_lines(*(medmcqa_row(cop=cop) for cop in cops))
    return [question.gold_answer for question in parse_medmcqa(rows, cop_base=cop_base)]


def test_a_zero_in_the_file_makes_cop_count_from_zero() -> None:
    assert gold_answers(0, 1, 3) == ["Uric acid", "Oxalate", "Iron"]


def test_a_four_in_the_file_makes_cop_count_from_one() -> None:
    assert gold_answers(4, 1) == ["Iron", "Uric acid"]


@pytest.mark.parametrize(
    ("cops", "cop_base", "problem"),
    [
        pytest.param((1, 2), None, r"train\.json:1: .* 1, 2 ", id="neither zero nor four"),
        pytest.param((1, 0, 4), None, r"\b0 at \S+:2\b.*\b4 at \S+:3\b", id="both of them"),
        pytest.param((0, 4), 0, r":2: .*\b4; .* 0 to 3", id="outside what the caller said"),
        pytest.param((-1, None), None, r":1: .*\bcop\b", id="no correct option at all"),
    ],
)
def test_a_file_of_cops_that_cannot_be_read_is_refused_with_its_places(
    cops: tuple[int | None, ...], cop_base: Literal[0] | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        gold_answers(*cops, cop_base=cop_base)


def test_the_caller_can_settle_what_cop_counts_from() -> None:
    assert gold_answers(1, 2, cop_base=0) == ["Oxalate", "Calcium"]
    assert gold_answers(1, 2, cop_base=1) == ["Uric acid", "Oxalate"]


@pytest.mark.parametrize("unlabelled", [None, -1])
def test_a_row_without_a_correct_option_has_no_gold_answer(unlabelled: int | None) -> None:
    assert gold_answers(0, unlabelled) == ["Uric acid", None]


def test_a_cop_that_became_a_float_on_the_way_is_read() -> None:
    assert gold_answers(0.0, 2.0) == ["Uric acid", "Calcium"]


@pytest.mark.parametrize("cop", [True, "a", 5, -2, 1.5, float("nan")])
def test_a_cop_that_is_no_option_number_is_refused(cop: Any) -> None:
    with pytest.raises(InputError, match=r":2: cop .* 0 .* 1 to 4$"):
        gold_answers(0, cop)


def test_a_blank_gold_option_is_no_gold_answer() -> None:
    (question,) = parse_medmcqa(at_lines(medmcqa_row(opa="  ")), cop_base=1)
    assert question.gold_answer is None


def test_subject_topic_and_choice_type_are_kept() -> None:
    (question,) = parse_medmcqa(
        at_lines(medmcqa_row(topic_name="Joints", choice_type="multi")), cop_base=1
    )
    assert (question.subject, question.category, question.source_id) == (
        "Medicine",
        "Joints",
        "q-1",
    )
    assert question.several_answers


@pytest.mark.parametrize(
    "options",
    [
        {"A": "Uric acid", "B": "Oxalate", "C": None},
        [{"key": "A", "value": "Uric acid"}, {"key": "B", "value": "Oxalate"}],
        [("A", "Uric acid"), ("B", "Oxalate")],
    ],
)
def test_the_letter_finds_its_text_in_every_form_of_options(options: Any) -> None:
    (question,) = parse_medqa(at_lines(medqa_row(options=options)))
    assert question.gold_answer == "Oxalate"
    assert question.category == "step1"


def test_an_answer_text_is_enough_where_there_is_no_letter() -> None:
    (question,) = parse_medqa(at_lines(medqa_row(answer_idx=None)))
    assert question.gold_answer == "Oxalate"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": "Iron"}, r"answer is 'Iron' and answer_idx 'B' stands for 'Oxalate'"),
        ({"answer_idx": "E"}, r"answer_idx is 'E'; expected the letter of an option: A, B, C, D"),
        ({"answer_idx": None, "answer": "Gold"}, r"answer is 'Gold' and answer_idx is missing"),
        ({"options": ["Uric acid", "Oxalate"]}, r"options is \['Uric acid', 'Oxalate'\]"),
        ({"question": " "}, r"question is ' '; expected a non-empty text"),
        ({"question": 3}, r"question is 3; expected a text"),
        ({"meta_info": 1}, r"meta_info is 1; expected a text"),
    ],
)
def test_a_contradictory_or_incomplete_row_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=rf"train.json:2: {problem}") as caught:
        parse_medqa(at_lines(medqa_row(), medqa_row(**changes)))
    assert len(caught.value.problems) == 1


MEDMCQA = medmcqa_row(cop=0)
MEDQA = medqa_row(options={"A": "Uric acid", "B": "Oxalate"})


def rows_of(path: Path) -> list[tuple[str, JsonObject]]:
    return read_rows(path, sample_file(path).kind)


def test_json_lines_are_read_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"a": 1}\n\n{"a": "x\u2028y"}\r\n', encoding="utf-8")
    assert rows_of(path) == [
        ("train.jsonl:1", {"a": 1}),
        ("train.jsonl:3", {"a": "x\u2028y"}),
    ]


def test_a_json_file_may_hold_lines_or_a_list(tmp_path: Path) -> None:
    lines = write_rows(tmp_path / "lines.json", MEDQA, MEDQA)
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([MEDQA, MEDQA]), encoding="utf-8")
    assert [where for where, _ in rows_of(lines)] == ["lines.json:1", "lines.json:2"]
    assert [where for where, _ in rows_of(listed)] == [
        "list.json:item 1",
        "list.json:item 2",
    ]
    assert [row for _, row in rows_of(listed)] == [MEDQA, MEDQA]


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
    options = MEDQA["options"]
    if not pa.types.is_struct(options_type):
        options = list(options.items())
    if pa.types.is_list(options_type):
        options = [{"key": key, "value": value} for key, value in options]
    columns = {name: [value] for name, value in MEDQA.items() if name != "options"}
    pq.write_table(pa.table({**columns, "options": pa.array([options], type=options_type)}), path)
    (question,) = read_questions(path, "medqa").questions
    assert question.gold_answer == "Oxalate"


def test_a_medmcqa_file_is_read_as_a_whole(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "dev.json", MEDMCQA, MEDMCQA | {"cop": 2})
    questions = read_questions(path, "medmcqa").questions
    assert [question.gold_answer for question in questions] == ["Uric acid", "Calcium"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_questions_are_read_alike_in_each_container(tmp_path: Path, container: str) -> None:
    rows = [MEDMCQA | {"cop": cop, "exp": f"See {cop}.", "image": cop or None} for cop in range(3)]
    file = read_questions(write_container(tmp_path / f"dev.{container}", rows), "medmcqa")
    assert [question.gold_answer for question in file.questions] == [
        "Uric acid",
        "Oxalate",
        "Calcium",
    ]
    assert file.note == "not used: image (2 of 3 filled)"


def test_the_caller_can_say_what_cop_counts_from(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "dev.jsonl", MEDMCQA | {"cop": 1})
    (question,) = read_questions(path, "medmcqa", cop_base=0).questions
    assert question.gold_answer == "Oxalate"


def test_every_broken_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"a": 1}\n{"a": \n[1, 2]\n', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_questions(path, "medqa")
    cut, listed = caught.value.problems
    assert cut.startswith("train.jsonl:2: ")
    assert listed.startswith("train.jsonl:3: ")


def test_fifty_items_that_are_no_objects_are_listed_and_the_others_counted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps([MEDQA, *range(53)]), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_questions(path, "medqa")
    assert len(caught.value.problems) == 51
    assert re.findall(r"\d+", caught.value.problems[0]) == ["2", "0"]
    assert re.findall(r"\d+", caught.value.problems[-1]) == ["3"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("train.csv", b"a,b", "no row"),
        ("empty.jsonl", b"\n", "is empty"),
        ("list.json", b"\n [\n{},\n", r"list\.json: .*line 4"),
        ("list.json", b'["\xff"]', "not UTF-8"),
        ("list.json", b"[{}, [1]]", r"list\.json:item 2: .*\[1\]"),
        ("cut.parquet", b"PAR1", "Parquet"),
    ],
)
def test_an_unreadable_file_says_what_is_wrong(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_questions(tmp_path / name, "medqa")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.jsonl: "):
        read_questions(tmp_path / "absent.jsonl", "medqa")


def test_other_columns_are_refused_with_what_was_found(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.json", {"sent1": "Which?", "ending0": "Gout"})
    with pytest.raises(InputError, match=r"train\.json: .* ending0, sent1\);"):
        read_questions(path, "medmcqa")


def test_a_file_of_the_other_set_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", MEDQA)
    with pytest.raises(InputError, match=r" medqa; .* medmcqa;"):
        read_questions(path, "medmcqa")
