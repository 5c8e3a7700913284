import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.battles.builders import fight, problems_of, read, read_all
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import write_battles
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
    assert file.left_out == {"no verdict: the preference is null": 1}


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
    assert "0.5; expected 1 (the first output) to 2" in problems[0]
    assert "preference is nan" in problems[1]
    assert "preference is missing" in problems[5]


def test_annotations_come_back(tmp_path: Path) -> None:
    battles = [
        fight(winner, question_id="Name it.\n\u2028Now.", judge_model="j", pref=pref)
        for winner, pref in [
            ("model_a", None),
            ("model_b", 0.75),
            ("tie", None),
            ("model_a", 0.125),
        ]
    ]
    path = tmp_path / "annotations.json"
    report = write_battles(path, make_battle_table(battles), format_name="alpaca-eval")
    assert (report.n_written, report.left_out, report.lost) == (4, {}, {})
    assert read_all(path) == battles


def test_what_annotations_cannot_hold_is_counted_and_no_winner_changes(tmp_path: Path) -> None:
    battles = [
        fight("tie", pref=0.4),
        fight("model_a", pref=0.5),
        fight("tie (bothbad)", inconsistent=True, source="human", weight=2.0),
    ]
    path = tmp_path / "annotations.json"
    report = write_battles(path, make_battle_table(battles), format_name="alpaca-eval")
    assert report.lost == {"inconsistent": 1, "pref": 2, "source": 1, "weight": 1, "winner": 1}
    assert [battle.winner for battle in read_all(path)] == ["tie", "model_a", "tie"]


def test_battles_of_two_dimensions_are_not_mixed(tmp_path: Path) -> None:
    table = make_battle_table([fight(dimension="style"), fight(dimension="facts")])
    path = tmp_path / "annotations.json"
    (problem,) = problems_of(lambda: write_battles(path, table, format_name="alpaca-eval"))
    assert "2 dimensions (style, facts)" in problem
    assert not path.exists()


def test_an_empty_list_and_a_broken_one_are_refused(tmp_path: Path) -> None:
    assert "holds no battle" in problems_of(lambda: read(annotations(tmp_path), "alpaca-eval"))[0]
    path = tmp_path / "annotations.json"
    path.write_text('[{"preference": 1}')
    assert "expected a JSON list" in problems_of(lambda: read(path))[0]
