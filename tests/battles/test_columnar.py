import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import ROW, problems_of, read, read_all, write_lines
from tournament_assets.battles.files import NAMED, SELF


def test_a_row_without_a_winner_is_left_out_and_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        ROW,
        {**ROW, "winner": None},
        {name: ROW[name] for name in ROW if name != "winner"},
    ]
    path = write_lines(tmp_path / "b.jsonl", *rows)
    file = read(path)
    assert (file.table.num_rows, file.left_out) == (1, {"no verdict": 2})
    pq.write_table(pa.Table.from_pylist(rows[:2]), tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet").left_out == {"no verdict": 1}


def test_ids_that_are_numbers_here_and_texts_there_are_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", {**ROW, "question_id": 81}, ROW)
    assert [battle.question_id for battle in read_all(path)] == ["81", "q1"]


def test_a_source_that_is_only_sometimes_missing_is_filled_in_there(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "b.jsonl",
        ROW,
        {**ROW, "source": None, "winner": "both_bad"},
        {**ROW, "winner": None},
        {**ROW, "winner": "tie (bothbad)"},
    )
    file = read(path, source="human")
    assert file.table.column("source").to_pylist() == ["llm-judge", "human", "llm-judge"]
    assert file.table.column("winner").to_pylist() == ["model_b", *["tie (bothbad)"] * 2]
    assert file.left_out == {"no verdict": 1}


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", ROW, ROW)
    path.write_bytes(path.read_bytes().replace(b"q1", b"q\xff"))
    lines = problems_of(lambda: read(path, "tournament"))
    assert lines[0].startswith("b.jsonl:1: ")
    column = pa.array([b"q\xff"], pa.binary()).view(pa.string())
    table = pa.Table.from_pylist([ROW])
    table = table.set_column(table.schema.get_field_index("question_id"), "question_id", column)
    pq.write_table(table, tmp_path / "b.parquet")
    (problem,) = problems_of(lambda: read(tmp_path / "b.parquet"))
    assert "b.parquet: " in problem
    assert "Parquet" in problem


def test_a_key_that_stands_twice_in_a_line_is_refused(tmp_path: Path) -> None:
    twice = json.dumps(ROW)[:-1] + ', "winner": "tie"}'
    path = write_lines(tmp_path / "b.jsonl", ROW, twice)
    (problem,) = problems_of(lambda: read(path))
    assert problem.startswith("b.jsonl:2: ")


def test_all_problems_are_listed_with_their_lines(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "b.jsonl",
        ROW,
        "",
        {**ROW, "winner": "A"},
        '{"model_a": ',
        "[1]",
        {**ROW, "model_b": "ada", "pref": 2},
        json.dumps({**ROW, "pref": float("nan")}),
        {**ROW, "winner": None, "model_a": None},
        {**ROW, "judge_model": ""},
    )
    problems = problems_of(lambda: read(path))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"b.jsonl:{line}" for line in (3, 4, 5, 7, 8, 9)
    ]
    assert "winner is 'A'" in problems[0]
    assert "NaN" in problems[3]


def test_problems_of_parquet_name_the_row_and_nan_is_no_preference(tmp_path: Path) -> None:
    rows = [{**ROW, "pref": 0.9}, {**ROW, "pref": float("nan")}, {**ROW, "pref": 0.1}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    problems = problems_of(lambda: read(tmp_path / "b.parquet"))
    assert [problem.split(": ")[0] for problem in problems] == [
        "b.parquet:row 2",
        "b.parquet:row 3",
    ]
    assert "nan" in problems[0]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "json", "doubtful"])
def test_votes_that_were_not_anonymous_and_models_against_themselves_are_left_out(
    tmp_path: Path, kind: str
) -> None:
    vote = {"model_a": "ada", "model_b": "bob", "winner": "model_a", "question_id": "q"}
    rows: list[dict[str, Any]] = [
        *({**vote, "anony": True} for _ in range(36)),
        *({**vote, "winner": "model_b", "anony": False} for _ in range(30)),
        {**vote, "model_b": "ada", "anony": True},
        {**vote, "anony": None},
    ]
    path = tmp_path / f"b.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        write_lines(path, *([*rows, {**vote, "question_id": 7}] if kind == "doubtful" else rows))
    found = read(path, "lmarena")
    n = 38 if kind == "doubtful" else 37
    assert found.left_out == {NAMED: 30, SELF: 1}
    assert found.table.column("winner").to_pylist() == ["model_a"] * n


@pytest.mark.parametrize(
    "wrong",
    [
        {"winner": "A"},
        {"source": "people"},
        {"presentation": "first"},
        {"model_a": " "},
        {"judge_model": ""},
        {"dimension": "\t"},
        {"question_id": "\u2003"},
        {"inconsistent": True},
        {"turn": 0},
        {"weight": 0.0},
        {"weight": -1.0},
        {"pref": 1.25},
        {"pref": -0.25},
        {"pref": 0.75, "winner": "model_a"},
        {"pref": 0.25},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_one_wrong_value_among_good_rows_is_found(
    tmp_path: Path, kind: str, wrong: dict[str, Any]
) -> None:
    rows: list[dict[str, Any]] = [{**ROW, name: None} for name in wrong if name not in ROW]
    rows = [*rows, ROW, {**ROW, **wrong}, ROW]
    path = tmp_path / f"b.{kind}"
    if kind == "jsonl":
        write_lines(path, *rows)
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        pq.write_table(pa.Table.from_pylist([dict.fromkeys(names) | row for row in rows]), path)
    (problem,) = problems_of(lambda: read(path, "tournament"))
    field = "pref" if "pref" in wrong else next(iter(wrong))
    row = "" if kind == "jsonl" else "row "
    assert problem.startswith(f"b.{kind}:{row}{len(rows) - 1}: {field} is ")


def test_many_problems_are_capped_and_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", *[{**ROW, "winner": "A"}] * 70)
    problems = problems_of(lambda: read(path))
    assert len(problems) == 51
    assert "20 more" in problems[-1]


@pytest.mark.parametrize(
    "column", [pa.array([1.5, 2.5]), pa.array([[1], [2]]), pa.array([True, False])]
)
def test_columns_of_another_type_are_refused_by_row(tmp_path: Path, column: pa.Array) -> None:
    table = pa.Table.from_pylist([ROW, ROW])
    path = tmp_path / "b.parquet"
    for name in ("model_a", "question_id"):
        changed = table.set_column(table.schema.get_field_index(name), name, column)
        pq.write_table(changed, path)
        problems = problems_of(lambda: read(path, "judgearena"))
        assert [problem.split(" ")[:3] for problem in problems] == [
            ["b.parquet:row", "1:", name],
            ["b.parquet:row", "2:", name],
        ]
