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


def line(first: Any, second: Any, **changes: Any) -> dict[str, Any]:
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
    path = write_lines(tmp_path / "gpt-4_pair.jsonl", line("model_2", "model_2", turn=2))
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
    (battle,) = read_all(write_lines(tmp_path / "pair.jsonl", line(first, second)))
    assert (battle.winner, battle.inconsistent) == (winner, inconsistent)


def test_an_error_of_the_judge_is_no_tie(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "pair.jsonl", line("error", "error"), line("tie", "error"), line("tie", "tie")
    )
    file = read(path)
    assert file.table.num_rows == 1
    assert file.left_out == {"no verdict: a game ended in an error": 2}


def test_a_winner_that_is_none_is_refused(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "pair.jsonl", line("model_1", "A"), line(None, 3), line("tie", "tie", turn="1")
    )
    problems = problems_of(lambda: read(path, "mt-bench"))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"pair.jsonl:{number}" for number in (1, 2, 2, 3)
    ]


def test_pairs_come_back(tmp_path: Path) -> None:
    battles = [
        fight(winner, question_id="81", judge_model="gpt-4", turn=turn, inconsistent=disagreed)
        for winner, turn, disagreed in [
            ("model_a", 1, False),
            ("tie", 2, False),
            ("tie", 1, True),
            ("model_b", None, False),
        ]
    ]
    path = tmp_path / "pair.jsonl"
    report = write_battles(path, make_battle_table(battles), format_name="mt-bench")
    assert (report.n_written, report.left_out, report.lost) == (4, {}, {})
    assert read_all(path) == battles


def test_a_single_showing_is_left_out_for_a_line_holds_two(tmp_path: Path) -> None:
    battles = [fight(presentation="ab"), fight("tie (bothbad)", weight=3.0)]
    path = tmp_path / "pair.jsonl"
    report = write_battles(path, make_battle_table(battles), format_name="mt-bench")
    assert (report.n_written, report.lost) == (1, {"weight": 1, "winner": 1})
    assert report.left_out == {"one showing of a pair: a line holds both": 1}
