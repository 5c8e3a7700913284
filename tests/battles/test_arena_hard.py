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
from tournament_assets.battles.columns import code_battles, make_battle_table
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.registry import write_battles
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.tournament.battles import Battle


def line(first: Any, second: Any, **changes: Any) -> dict[str, Any]:
    return {
        "uid": "u1",
        "category": "hard_prompt",
        "judge": "gpt-4.1",
        "model": "ours",
        "baseline": "o3-mini",
        "games": [
            {"score": first, "judgment": {"answer": "..."}},
            {"score": second, "judgment": {"answer": "..."}},
        ],
        **changes,
    }


def test_both_games_are_battles_with_the_baseline_and_the_second_is_swapped(
    tmp_path: Path,
) -> None:
    # The judge said twice that the response shown as A is better.
    path = write_lines(tmp_path / "ours.jsonl", line("A>B", "A>B"))
    common: Any = {
        "model_a": "o3-mini",
        "model_b": "ours",
        "source": "llm-judge",
        "question_id": "u1",
        "judge_model": "gpt-4.1",
    }
    assert read(path).format == "arena-hard"
    assert read_all(path) == [
        Battle(winner="model_a", presentation="ab", **common),
        Battle(winner="model_b", presentation="ba", **common),
    ]


@pytest.mark.parametrize(
    ("score", "first", "second", "weight"),
    [
        ("A>>B", "model_a", "model_b", 3.0),
        ("A>B", "model_a", "model_b", 1.0),
        ("A=B", "tie", "tie", 1.0),
        ("B=A", "tie", "tie", 1.0),
        ("B>A", "model_b", "model_a", 1.0),
        ("B>>A", "model_b", "model_a", 3.0),
        ("A<B", "model_b", "model_a", 1.0),
        ("A<<B", "model_b", "model_a", 3.0),
        ("B<A", "model_a", "model_b", 1.0),
        ("B<<A", "model_a", "model_b", 3.0),
    ],
)
def test_every_score_of_arena_hard_is_read(
    tmp_path: Path, score: str, first: str, second: str, weight: float
) -> None:
    battles = read_all(write_lines(tmp_path / "ours.jsonl", line(score, score)))
    assert [(b.winner, b.weight) for b in battles] == [(first, weight), (second, weight)]


def test_much_better_weighs_three_but_is_one_battle(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "ours.jsonl", line("A>>B", "A>B"), line("B>A", "A>B"))
    table = read(path).table
    assert table.num_rows == 4
    coded = code_battles(table)
    assert coded.matches.n_matches == 4
    # The baseline o3-mini won 3 (of weight) and lost 3 single games.
    assert coded.shares.wins.tolist() == [[0.0, 3.0], [3.0, 0.0]]
    ratings = fit_bradley_terry(coded.shares)
    assert [result.rating for result in ratings] == pytest.approx([1400.0, 1400.0])


def test_a_line_with_a_game_without_a_score_is_left_out_whole(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "ours.jsonl",
        line("A>B", None),
        line("A>B", "B>A"),
        line("A>B", "x", games=[{"score": "A>B"}, None]),
    )
    file = read(path)
    assert file.table.num_rows == 2
    assert file.left_out == {"no score in a game: both games of the line are left out": 4}


def test_lines_of_the_first_version_need_the_baseline_named(tmp_path: Path) -> None:
    old = line("A>B", "B>A")
    old["question_id"] = old.pop("uid")
    del old["baseline"]
    path = write_lines(tmp_path / "ours.jsonl", old)
    (problem,) = problems_of(lambda: read(path))
    assert problem.startswith("ours.jsonl:1: baseline is missing")
    battles = read_all(path, baseline="gpt-4-0314")
    assert {(b.model_a, b.model_b, b.question_id) for b in battles} == {
        ("gpt-4-0314", "ours", "u1")
    }


def test_a_judges_folder_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "gpt-4.1"
    folder.mkdir()
    for model in ("ours", "theirs"):
        write_lines(folder / f"{model}.jsonl", line("A>B", "B>A", model=model, judge=None))
    battles = read_all(folder)
    assert [b.model_b for b in battles] == ["ours", "ours", "theirs", "theirs"]
    assert {b.judge_model for b in battles} == {"gpt-4.1"}
    (tmp_path / "empty").mkdir()
    assert "no .jsonl file" in problems_of(lambda: read(tmp_path / "empty"))[0]


def test_everything_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "ours.jsonl",
        line("A>B", "A>B"),
        line("A>B", "A>>>B"),
        line("A>B", "A>B", games=[]),
        line("A>B", "A>B", model="", games=None),
        line("A>B", "A>B", model="o3-mini"),
    )
    problems = problems_of(lambda: read(path))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"ours.jsonl:{number}" for number in (2, 3, 4, 4, 5)
    ]
    assert "score is 'A>>>B'" in problems[0]


def test_single_showings_come_back(tmp_path: Path) -> None:
    common: Any = {"judge_model": "j", "model_a": "base"}
    battles = [
        fight(
            winner, question_id=question, model_b=model, weight=weight, presentation=shown, **common
        )
        for question, model, results in [
            ("u1", "ours", [("model_a", 3.0), ("tie", 1.0)]),
            ("u2", "ours", [("model_b", 1.0), ("model_b", 3.0)]),
            ("u1", "theirs", [("model_a", 1.0), ("model_b", 1.0)]),
        ]
        for (winner, weight), shown in zip(results, ("ab", "ba"), strict=True)
    ]
    path = tmp_path / "judged.jsonl"
    report = write_battles(path, make_battle_table(battles), format_name="arena-hard")
    assert (report.n_written, report.left_out, report.lost) == (6, {}, {})
    assert read_all(path) == battles


def test_the_baseline_may_be_either_model(tmp_path: Path) -> None:
    battles = [
        fight("model_a", model_a="ours", model_b="base", presentation="ba"),
        fight("model_b", model_a="ours", model_b="base", presentation="ab", weight=3.0),
        fight("model_a", model_a="base", model_b="theirs"),
    ]
    path = tmp_path / "judged.jsonl"
    write_battles(path, make_battle_table(battles), format_name="arena-hard")
    # `ba` showed the baseline first. A settled pair is written as two games that agree.
    assert [(b.model_b, b.winner, b.weight, b.presentation) for b in read_all(path)] == [
        ("ours", "model_b", 1.0, "ab"),
        ("ours", "model_a", 3.0, "ba"),
        ("theirs", "model_a", 1.0, "ab"),
        ("theirs", "model_a", 1.0, "ba"),
    ]


def test_what_arena_hard_cannot_hold_is_left_out_and_counted(tmp_path: Path) -> None:
    battles = [
        fight(presentation="ab"),
        fight(model_a="cyd", model_b="dee"),
        fight(weight=2.0),
        fight("tie", inconsistent=True),
    ]
    table = make_battle_table(battles)
    (problem,) = problems_of(
        lambda: write_battles(tmp_path / "x.jsonl", table, format_name="arena-hard")
    )
    assert "no model is in every battle" in problem
    report = write_battles(
        tmp_path / "x.jsonl",
        table,
        format_name="arena-hard",
        options=FormatOptions(baseline="ada"),
    )
    assert (report.n_written, report.lost) == (2, {"inconsistent": 1})
    assert report.left_out == {
        "a weight that is neither 1 nor 3": 1,
        "the baseline is not one of the two models": 1,
    }
    file = read(tmp_path / "x.jsonl")
    # The showing without its counterpart has a game without a score.
    assert (file.table.num_rows, sum(file.left_out.values())) == (2, 2)
