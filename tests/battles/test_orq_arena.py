from pathlib import Path
from typing import Any

import pytest

from tests.battles.builders import (
    fight,
    problems_of,
    read,
    read_all,
    write_lines,
)
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import write_battles
from tournament_assets.tournament.battles import Battle


def line(winner: Any, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "prompt_id": "p1",
        "model_a": "ada",
        "model_b": "bob",
        "response_a": "yes",
        "response_b": "no",
        "judge_votes": [
            {"model": "judge-2", "vote": "A", "flipped": True, "completed": True},
            {"model": "judge-1", "vote": "A", "flipped": False, "completed": True},
            {"model": "judge-3", "vote": None, "flipped": False, "completed": False},
        ],
        "majority_verdict": winner,
        "winner": winner,
        "tokens_a": 12,
        **changes,
    }


def test_a_battle_names_the_judges_that_voted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "battles.jsonl", line("A"))
    assert read(path).format == "orq-arena"
    assert read_all(path) == [
        Battle("ada", "bob", "model_a", "llm-judge", "p1", judge_model="judge-1, judge-2")
    ]


def test_inconclusive_is_left_out_and_no_tie(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "battles.jsonl",
        line("inconclusive"),
        line("tie"),
        line(None),
        line(None, majority_verdict="inconclusive"),
    )
    file = read(path)
    assert file.table.column("winner").to_pylist() == ["tie"]
    assert file.left_out == {"inconclusive: the judges came to no verdict": 3}


@pytest.mark.parametrize("word", ["B", "b", "model_b", "bob"])
def test_a_winner_may_be_called_in_several_ways(tmp_path: Path, word: str) -> None:
    path = write_lines(tmp_path / "battles.jsonl", line(word, majority_verdict="B"))
    assert [battle.winner for battle in read_all(path)] == ["model_b"]


def test_other_versions_and_contradictions_are_refused(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "battles.jsonl",
        line("A", schema_version=2, majority_verdict="C"),
        line("A", majority_verdict="B"),
        line("A", majority_verdict="inconclusive"),
        line("A", model_a=None),
    )
    problems = problems_of(lambda: read(path))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"battles.jsonl:{number}" for number in (1, 1, 2, 3, 4)
    ]
    assert "schema_version is 2; expected 3" in problems[0]


def test_battles_come_back(tmp_path: Path) -> None:
    battles = [
        fight(winner, question_id="p1", judge_model=judge)
        for winner, judge in [("model_a", "j"), ("model_b", None), ("tie", "j, k")]
    ]
    path = tmp_path / "battles.jsonl"
    report = write_battles(path, make_battle_table(battles), format_name="orq-arena")
    assert (report.n_written, report.left_out, report.lost) == (3, {}, {})
    assert read(path).format == "orq-arena"
    assert read_all(path) == battles


def test_the_prompt_is_the_one_that_real_files_name(tmp_path: Path) -> None:
    hashed = line("A", prompt_id=None, prompt_hash="b6a62e40", prompt_text="Why?")
    path = write_lines(tmp_path / "b.jsonl", hashed, {**hashed, "prompt_hash": None})
    assert [battle.question_id for battle in read_all(path)] == ["b6a62e40", "Why?"]


def test_models_called_a_and_b_are_told_from_places(tmp_path: Path) -> None:
    swapped = line("A", model_a="B", model_b="A") | {"winner": "B"}
    path = write_lines(tmp_path / "b.jsonl", swapped, line("B", model_a="A", model_b="B"))
    assert [battle.winner for battle in read_all(path)] == ["model_a", "model_b"]


def test_a_model_called_like_a_verdict_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", line("A", model_a="tie") | {"winner": "tie"})
    (problem,) = problems_of(lambda: read(path))
    assert "winner is 'tie', which is a verdict and the name of a model" in problem
