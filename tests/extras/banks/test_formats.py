"""Files of other tools: what holds for several formats, and votes of LMArena."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import (
    CONTAINERS,
    problems_of,
    read,
    read_all,
    write_container,
    write_lines,
)
from tests.battles.test_registry import check_prompt_column
from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import NAMED, SELF
from tournament_assets.tournament.battles import Battle

VOTE = {
    "question_id": "q1",
    "model_a": "ada",
    "model_b": "bob",
    "winner": "tie (bothbad)",
    "conversation_a": [{"role": "user", "content": "hello"}],
    "language": "English",
}
ROWS: dict[str, dict[str, Any]] = {
    "alpaca-eval": {"generator_1": "ada", "generator_2": "bob", "preference": 1},
    "arena-hard": {
        "model": "bob",
        "baseline": "ada",
        "games": [{"score": "A>B"}, {"score": "A>B"}],
    },
    "mt-bench": {"model_1": "ada", "model_2": "bob", "g1_winner": "tie", "g2_winner": "tie"},
    "orq-arena": {"model_a": "ada", "model_b": "bob", "schema_version": 3, "majority_verdict": "A"},
}


@pytest.mark.parametrize("name", list(ROWS))
def test_a_column_can_be_named_that_holds_the_prompt(tmp_path: Path, name: str) -> None:
    check_prompt_column(tmp_path / "b.jsonl", name, ROWS[name])


_PLAYED = {"model_a": "ada", "model_b": "bob", "winner": "model_a"}
_FULL: dict[str, dict[str, Any]] = {
    "alpaca-eval": {
        "instruction": "Do it.",
        "input": "Text",
        "generator_1": "ada",
        "generator_2": "bob",
        "preference": 1.25,
        "annotator": "judge",
    },
    "arena-hard": ROWS["arena-hard"] | {"uid": "q", "judge": "judge"},
    "csv": _PLAYED | {"question_id": "q"},
    "evalica": {"left": "ada", "right": "bob", "winner": "left", "prompt": "q"},
    "judgearena": _PLAYED | {"source": "human", "question_id": "q", "pref": 0.25},
    "judgearena-mt-bench": {
        "question_id": 81,
        "model_A": "ada",
        "model_B": "bob",
        "judge": "judge",
        "turn": 2,
        "preference": 0.25,
        "swapped": True,
    },
    "lmarena": {**_PLAYED, "question_id": "q", "tstamp": 1.5},
    "mt-bench": {
        "question_id": 81,
        "model_1": "ada",
        "model_2": "bob",
        "g1_winner": "model_1",
        "g2_winner": "model_1",
        "judge": "judge",
        "turn": 2,
    },
    "one-hot": {
        "model_a": "ada",
        "model_b": "bob",
        "prompt": "q",
        "winner_model_a": 1,
        "winner_model_b": 0,
        "winner_tie": 0,
    },
    "orq-arena": ROWS["orq-arena"] | {"winner": "ada", "prompt_id": "q"},
    "tournament": _PLAYED
    | {"source": "human", "question_id": "q", "sample": 2, "weight": 1.5, "turn": 1, "pref": None}
    | {"inconsistent": False},
}


_SIDES = {
    "model_a": "model_b",
    "model_1": "model_2",
    "model_A": "model_B",
    "generator_1": "generator_2",
    "left": "right",
    "baseline": "model",
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", list(_FULL))
def test_a_format_is_read_alike_in_each_container_that_can_hold_its_rows(
    tmp_path: Path, name: str, container: str
) -> None:
    row = _FULL[name]
    if container in ("csv", "tsv", "xlsx") and any(isinstance(cell, list) for cell in row.values()):
        pytest.skip("a cell holds no list")
    itself = row | {side: row[other] for side, other in _SIDES.items() if side in row}
    rows = [
        *({**row, "anony": True, "mood": f"fine {n}"} for n in range(3)),
        *[{**row, "anony": False, "mood": None}] * 2,
        {**itself, "anony": True, "mood": None},
    ]
    path = write_container(tmp_path / f"votes.{container}", rows)
    names = [name] if name == "csv" else [name, None]  # votes with `anony` are an arena's
    lines = write_container(tmp_path / "lines.jsonl", [row] * 3)
    for format_name in names:
        file = read(path, format_name, source="human", baseline="ada")
        assert file.format == name
        n_games = 2 if name == "arena-hard" else 1
        assert file.left_out == {NAMED: 2, SELF: n_games}
        assert file.note == "not used: mood (3 of 6 filled)"
        assert list(battles_of(file.table)) == read_all(lines, name, source="human")


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("arena-hard", {"games": [{"score": ["A>B"]}, {"score": "A>B"}]}, "score is ['A>B']"),
        ("alpaca-eval", {"preference": 10**400}, "preference is 1000"),
    ],
)
def test_values_that_no_column_holds_are_refused_by_row(
    tmp_path: Path, name: str, changes: dict[str, Any], said: str
) -> None:
    row = ROWS[name] | changes
    path = tmp_path / "b.jsonl"
    path.write_text(json.dumps([row] if name == "alpaca-eval" else row) + "\n")
    (problem,) = problems_of(lambda: read(path, name))
    assert problem.startswith("b.jsonl:")
    assert said in problem


def test_a_file_that_could_be_of_two_formats_names_them(tmp_path: Path) -> None:
    keys = ("model", "games", "model_1", "model_2", "g1_winner", "g2_winner")
    path = write_lines(tmp_path / "b", dict.fromkeys(keys, "x"))
    (problem,) = problems_of(lambda: read(path))
    assert "arena-hard or mt-bench" in problem


def test_a_line_of_a_hundred_megabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tournament_assets.foundation.json_lines.LONGEST_LINE", 2**20)
    long = ROWS["orq-arena"] | {"response_a": "x" * 2**20}
    path = tmp_path / "b.jsonl"
    for rows, number in (([ROWS["orq-arena"], long], 2), ([long], 1)):
        write_lines(path, *rows)
        (problem,) = problems_of(lambda: read(path))
        assert problem.startswith(f"b.jsonl:{number}: ")
        assert "1 MiB" in problem


def test_lmarena_votes_are_human_and_keep_what_kind_of_tie_it_was(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "votes.jsonl",
        VOTE,
        {**VOTE, "question_id": None, "id": "v2", "winner": "both_bad"},
        {**VOTE, "winner": "tie", "turn": 1, "judge": "arena_user_9"},
    )
    file = read(path)
    assert file.format == "lmarena"
    assert list(battles_of(file.table)) == [
        Battle("ada", "bob", "tie (bothbad)", "human", "q1"),
        Battle("ada", "bob", "tie (bothbad)", "human", "v2"),
        Battle("ada", "bob", "tie", "human", "q1"),
    ]


def test_arena_parquet_with_conversations_is_read_without_them(tmp_path: Path) -> None:
    rows = [{**VOTE, "question_id": number} for number in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "votes.parquet")
    assert [battle.question_id for battle in read_all(tmp_path / "votes.parquet")] == [
        "0",
        "1",
        "2",
    ]


def test_an_input_below_an_instruction_is_part_of_the_prompt(tmp_path: Path) -> None:
    rows = [ROWS["alpaca-eval"] | {"instruction": "Do it.", "input": f"Text {n}"} for n in (1, 2)]
    rows.append(ROWS["alpaca-eval"] | {"instruction": "Do it.", "input": ""})
    path = write_container(tmp_path / "annotations.json", rows)
    prompts = ["Do it.\n\nText 1", "Do it.\n\nText 2", "Do it."]
    assert [battle.question_id for battle in read_all(path)] == prompts
    one = [battle.question_id for battle in read_all(path, prompt_column="instruction")]
    assert one == ["Do it."] * 3


def test_only_the_first_rows_of_a_large_file_tell_what_is_not_used(tmp_path: Path) -> None:
    rows = [VOTE | {"turn": n % 2 + 1} for n in range(1500)]
    path = write_container(tmp_path / "votes.parquet", rows)
    assert read(path).note == "not used: turn (1000 of the first 1000 filled)"
