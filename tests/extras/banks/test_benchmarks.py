"""Files of AlpacaEval, Arena-Hard and MT-Bench."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import problems_of, read, read_all, write_lines
from tournament_assets.battles.columns import code_battles
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.tournament.battles import Battle

ITEM = {
    "instruction": "Name a crystal.",
    "output_1": "Quartz.",
    "generator_1": "gpt4_1106_preview",
    "output_2": "Halite.",
    "generator_2": "ours",
    "annotator": "weighted_alpaca_eval_gpt4_turbo",
    "preference": 1.0,
    "price_per_example": 0.01,
    "raw_completion": {"choices": []},
}


def annotations(folder: Path, *items: Mapping[str, Any] | Any) -> Path:
    path = folder / "annotations.json"
    path.write_text(json.dumps(list(items)), encoding="utf-8")
    return path


def preferring(*preferences: Any) -> list[dict[str, Any]]:
    return [{**ITEM, "preference": preference} for preference in preferences]


def test_an_annotation_is_a_battle_on_its_instruction(tmp_path: Path) -> None:
    file = read(annotations(tmp_path, {**ITEM, "preference": 2}))
    assert file.format == "alpaca-eval"
    assert read_all(annotations(tmp_path, {**ITEM, "preference": 2})) == [
        Battle(
            model_a="gpt4_1106_preview",
            model_b="ours",
            winner="model_b",
            source="llm-judge",
            question_id="Name a crystal.",
            judge_model="weighted_alpaca_eval_gpt4_turbo",
        )
    ]


def test_nought_and_one_and_a_half_are_ties_and_null_is_no_verdict(tmp_path: Path) -> None:
    file = read(annotations(tmp_path, *preferring(0, 0.0, 1.5, None, 1)))
    winners = file.table.column("winner").to_pylist()
    assert winners == ["tie", "tie", "tie", "model_a"]
    assert list(file.left_out.values()) == [1]


def test_a_fraction_keeps_its_preference_beside_the_winner(tmp_path: Path) -> None:
    battles = read_all(annotations(tmp_path, *preferring(1.25, 1.75, 1, 2, 1.5, 1.4375)))
    assert [(battle.winner, battle.pref) for battle in battles] == [
        ("model_a", 0.25),
        ("model_b", 0.75),
        ("model_a", None),
        ("model_b", None),
        ("tie", None),
        ("model_a", 0.4375),
    ]


def test_the_win_rate_of_the_second_generator_is_that_of_alpaca_eval(tmp_path: Path) -> None:
    preferences = [1, 2, 2, 1.5, 0, 1.25, 1.9]
    battles = read_all(annotations(tmp_path, *preferring(*preferences)))
    of_winner = {"model_a": 0.0, "model_b": 1.0, "tie": 0.5}
    shares = [of_winner[b.winner] if b.pref is None else b.pref for b in battles]
    # AlpacaEval reads 0 as 1.5 before it takes the mean of preference - 1.
    expected = sum((preference or 1.5) - 1 for preference in preferences) / len(preferences)
    assert sum(shares) / len(shares) == pytest.approx(expected)


def test_what_is_no_preference_is_refused_with_its_item(tmp_path: Path) -> None:
    wrong = [*preferring(0.5, 2.5, -1, "1", True), {"generator_1": "a"}, 3]
    path = annotations(tmp_path, *wrong)
    path.write_text(path.read_text().replace("2.5", "NaN"))
    problems = problems_of(lambda: read(path, "alpaca-eval"))
    assert [problem.split(":")[1] for problem in problems] == [f"item {n}" for n in range(1, 8)]
    shown = ("0.5", "nan", "-1", "'1'", "True", "missing", "3")
    assert all(value in problem for value, problem in zip(shown, problems, strict=True))


def test_an_empty_list_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    path = annotations(tmp_path)
    assert len(problems_of(lambda: read(path, "alpaca-eval"))) == 1
    path.write_text('[{"preference": 1}')
    assert "JSON list" in problems_of(lambda: read(path))[0]


def games_line(first: Any, second: Any, **changes: Any) -> dict[str, Any]:
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
    path = write_lines(tmp_path / "ours.jsonl", games_line("A>B", "A>B"))
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
    battles = read_all(write_lines(tmp_path / "ours.jsonl", games_line(score, score)))
    assert [(b.winner, b.weight) for b in battles] == [(first, weight), (second, weight)]


def test_much_better_weighs_three_but_is_one_battle(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "ours.jsonl", games_line("A>>B", "A>B"), games_line("B>A", "A>B"))
    table = read(path).table
    assert table.num_rows == 4
    coded = code_battles(table)
    assert coded.n_matches == 4
    # The baseline o3-mini won 3 (of weight) and lost 3 single games.
    assert coded.wins.tolist() == [[0.0, 3.0], [3.0, 0.0]]
    ratings = fit_bradley_terry(coded)
    assert [result.value for result in ratings] == pytest.approx([1400.0, 1400.0])


def test_a_line_with_a_game_without_a_score_is_left_out_whole(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "ours.jsonl",
        games_line("A>B", None),
        games_line("A>B", "B>A"),
        games_line("A>B", "x", games=[{"score": "A>B"}, None]),
    )
    file = read(path)
    assert file.table.num_rows == 2
    assert list(file.left_out.values()) == [4]


def test_lines_of_the_first_version_need_the_baseline_named(tmp_path: Path) -> None:
    old = games_line("A>B", "B>A")
    old["question_id"] = old.pop("uid")
    del old["baseline"]
    path = write_lines(tmp_path / "ours.jsonl", old)
    (problem,) = problems_of(lambda: read(path))
    assert problem.startswith("ours.jsonl:1: baseline ")
    battles = read_all(path, baseline="gpt-4-0314")
    assert {(b.model_a, b.model_b, b.question_id) for b in battles} == {
        ("gpt-4-0314", "ours", "u1")
    }


def test_a_judges_folder_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "gpt-4.1"
    folder.mkdir()
    for model in ("ours", "theirs"):
        write_lines(folder / f"{model}.jsonl", games_line("A>B", "B>A", model=model, judge=None))
    battles = read_all(folder)
    assert [b.model_b for b in battles] == ["ours", "ours", "theirs", "theirs"]
    assert {b.judge_model for b in battles} == {"gpt-4.1"}
    (tmp_path / "empty").mkdir()
    assert ".jsonl" in problems_of(lambda: read(tmp_path / "empty"))[0]


def test_everything_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "ours.jsonl",
        games_line("A>B", "A>B"),
        games_line("A>B", "A>>>B"),
        games_line("A>B", "A>B", games=[]),
        games_line("A>B", "A>B", model="", games=None),
        games_line("A>B", "A>B", model="o3-mini"),
    )
    problems = problems_of(lambda: read(path))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"ours.jsonl:{number}" for number in (2, 3, 4, 4)
    ]
    assert "score is 'A>>>B'" in problems[0]


def pair_line(first: Any, second: Any, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": 81,
        "model_1": "alpaca-13b",
        "model_2": "vicuna-13b",
        "g1_winner": first,
        "g2_winner": second,
        "judge": ["gpt-4", "pair-v2"],
        "g1_user_prompt": "...",
        "turn": 1,
        "tstamp": 1687.5,
        **changes,
    }


def test_a_line_is_a_battle_of_its_turn(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "gpt-4_pair.jsonl", pair_line("model_2", "model_2", turn=2))
    assert read(path).format == "mt-bench"
    assert read_all(path) == [
        Battle(
            model_a="alpaca-13b",
            model_b="vicuna-13b",
            winner="model_b",
            source="llm-judge",
            question_id="81",
            judge_model="gpt-4",
            turn=2,
        )
    ]


@pytest.mark.parametrize(
    ("first", "second", "winner", "inconsistent"),
    [
        ("model_1", "model_1", "model_a", False),
        ("tie", "tie", "tie", False),
        ("model_1", "model_2", "tie", True),
        ("model_2", "tie", "tie", True),
        ("tie", "model_1", "tie", True),
    ],
)
def test_games_that_disagree_are_a_tie_that_says_so(
    tmp_path: Path, first: str, second: str, winner: str, inconsistent: bool
) -> None:
    (battle,) = read_all(write_lines(tmp_path / "pair.jsonl", pair_line(first, second)))
    assert (battle.winner, battle.inconsistent) == (winner, inconsistent)


def test_an_error_of_the_judge_is_no_tie(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "pair.jsonl",
        pair_line("error", "error"),
        pair_line("tie", "error"),
        pair_line("tie", "tie"),
    )
    file = read(path)
    assert file.table.num_rows == 1
    assert list(file.left_out.values()) == [2]


def test_a_winner_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "pair.jsonl",
        pair_line("model_1", "A"),
        pair_line(None, 3),
        pair_line("tie", "tie", turn="1"),
    )
    problems = problems_of(lambda: read(path, "mt-bench"))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"pair.jsonl:{number}" for number in (1, 2, 2, 3)
    ]


@pytest.mark.parametrize("name", ["mt-bench", "arena-hard"])
def test_a_parquet_file_loses_nothing_of_what_json_lines_hold(tmp_path: Path, name: str) -> None:
    rows = {
        "mt-bench": [pair_line("model_1", "tie"), pair_line("tie", "tie", turn=2)],
        "arena-hard": [games_line("A>B", "A=B", baseline="o3-mini", judge="gpt-4.1")],
    }[name]
    lines = write_lines(tmp_path / "b.jsonl", *rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    assert read_all(tmp_path / "b.parquet") == read_all(lines) != []
