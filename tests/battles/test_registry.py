import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import fight, problems_of, read, write_lines
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import (
    FORMATS,
    WRITTEN_FORMATS,
    detect_format,
    write_battles,
)


@pytest.mark.parametrize("name", WRITTEN_FORMATS)
def test_every_format_recognises_its_own_files_and_no_other_does(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"some_file.{'csv' if name == 'csv' else 'jsonl'}"
    write_battles(path, make_battle_table([fight()]), format_name=name)
    assert detect_format(path).name == name
    table = make_battle_table([])
    (problem,) = problems_of(lambda: write_battles(path, table, format_name="chess"))
    assert ", ".join(WRITTEN_FORMATS) in problem


@pytest.mark.parametrize(
    "content",
    ['{"model_a": "ada", "model_b": "bob", "winner": "tie"}\n', '{"x": 1}\n', "a,b,c\n1,2,3\n"],
)
def test_a_file_that_does_not_tell_its_format_names_the_choices(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "battles"
    path.write_text(content)
    (problem,) = problems_of(lambda: read(path))
    assert all(name in problem for name in FORMATS)
    assert "--format" in problem


def test_a_named_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b", {"model_a": "ada", "model_b": "bob", "winner": "tie"})
    assert read(path, "judgearena", source="human").table.num_rows == 1
    (problem,) = problems_of(lambda: read(path, "judgearena"))
    assert problem.startswith("b:1: ")
    assert "source" in problem
    assert "'chess'" in problems_of(lambda: read(path, "chess"))[0]


def test_a_file_of_another_kind_than_its_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("left,right,winner\nada,bob,tie\n")
    assert "b.csv" in problems_of(lambda: read(path, "judgearena"))[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b"hello", "the file begins with b'hello'"),
        (b"\xff\xfe\x00,", "the file begins with"),
        (b"{", "is not JSON"),
        (b"[1]", "the first row is 1"),
        (b"[", "expected a JSON list"),
        (b"PAR1 and no more", "not readable as Parquet"),
    ],
)
def test_what_is_no_file_of_battles_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "battles"
    path.write_bytes(content)
    assert said in problems_of(lambda: read(path))[0]


def test_a_missing_file_and_one_without_battles_are_refused(tmp_path: Path) -> None:
    assert "none.jsonl" in problems_of(lambda: read(tmp_path / "none.jsonl"))[0]
    row = {"model_a": "ada", "model_b": "bob", "winner": None, "source": "human"}
    path = write_lines(tmp_path / "b.jsonl", row)
    assert "(1 left out" in problems_of(lambda: read(path))[0]
    pq.write_table(pa.table({"model_a": [], "model_b": [], "winner": [], "source": []}), path)
    assert len(problems_of(lambda: read(path))) == 1


@pytest.mark.parametrize("address", ["s3://bucket/b.parquet", "https://arena.org/b.jsonl"])
def test_an_address_is_refused_with_what_to_do(address: str) -> None:
    (problem,) = problems_of(lambda: read(Path(address)))
    assert "expected a file of this machine" in problem


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    row = '{"model_a": "ada", "model_b": "bob", "winner": "tie", "source": "human"}\n'
    path = tmp_path / "b.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + row.encode())
    assert read(path).table.num_rows == 1


ROW: dict[str, Any] = {"model_a": "ada", "model_b": "bob", "winner": "tie", "source": "human"}


def test_a_column_can_be_named_that_holds_the_prompt(tmp_path: Path) -> None:
    check_prompt_column(tmp_path / "b.jsonl", "judgearena", ROW)


def check_prompt_column(path: Path, name: str, row: dict[str, Any]) -> None:
    row = row | {"asked": "Why?", "question_id": "another"}
    path.write_text(json.dumps([row] if name == "alpaca-eval" else row) + "\n")
    file = read(path, name, prompt_column="asked")
    assert set(file.table.column("question_id").to_pylist()) == {"Why?"}
    (problem,) = problems_of(lambda: read(path, name, prompt_column="task"))
    assert "'task'" in problem
    assert "asked" in problem


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight": 10**400}, "weight is 1000"),
        ({"pref": 10**400}, "pref is 1000"),
        ({"turn": 2**63}, "turn is 9223372036854775808"),
    ],
)
def test_values_that_no_column_holds_are_refused_by_row(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = write_lines(tmp_path / "b.jsonl", ROW | changes)
    (problem,) = problems_of(lambda: read(path, "tournament"))
    assert problem.startswith("b.jsonl:")
    assert said in problem


def test_an_id_may_be_any_whole_number(tmp_path: Path) -> None:
    row = ROW | {"question_id": 2**63, "weight": 2**63}
    path = write_lines(tmp_path / "b.jsonl", ROW | {"question_id": 7}, row)
    assert read(path).table.column("question_id").to_pylist() == ["7", str(2**63)]
