"""Files of other tools: what holds for several formats, and votes of LMArena."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import problems_of, read, read_all, write_lines
from tests.battles.test_registry import check_prompt_column
from tournament_assets.battles.columns import battles_of
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
