from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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

HEADER = (
    "id,model_a,model_b,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
)
LONG = "x" * 200_000


def vote(*won: Any, **changes: Any) -> dict[str, Any]:
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    row = {"id": 7, "model_a": "ada", "model_b": "bob", "prompt": "Hi", "response_a": LONG}
    return row | dict(zip(names, won, strict=True)) | changes


def test_votes_of_kaggle_are_human_battles_on_the_prompts_they_name(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    asked = '"[""Why?"",""And now?""]"'
    path.write_text(
        HEADER
        + f'1,ada,bob,{asked},{LONG},"two\nlines",1,0,0\n'
        + f"2,bob,ada,{asked},x,y,0,1,0\n3,ada,bob,Hi,x,y,0,0,1\n4,ada,bob,Hi,x,y,,,\n"
    )
    assert read(path).format == "one-hot"
    assert read(path).left_out == {"no verdict: the winner's columns are empty": 1}
    prompt = '["Why?","And now?"]'
    assert read_all(path) == [
        fight("model_a", source="human", question_id=prompt),
        fight("model_b", source="human", question_id=prompt, model_a="bob", model_b="ada"),
        fight("tie", source="human", question_id="Hi"),
    ]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_other_kinds_of_file_and_lists_as_prompts_are_read(tmp_path: Path, kind: str) -> None:
    rows = [vote(0, 1, 0, prompt=["Hi", "And?"]), vote(0.0, 0.0, 1.0, prompt=["Hi", "And?"])]
    path = tmp_path / f"train.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        write_lines(path, *rows)
    prompt = '["Hi", "And?"]'
    assert read_all(path) == [
        fight("model_b", source="human", question_id=prompt),
        fight("tie", source="human", question_id=prompt),
    ]


@pytest.mark.parametrize("won", [(1, 1, 0), (0, 0, 0), ("0.4", "0.3", "0.3"), ([1], 0, 0)])
def test_a_row_that_names_no_one_winner_is_refused(tmp_path: Path, won: tuple[Any, ...]) -> None:
    path = write_lines(tmp_path / "votes.jsonl", vote(1, 0, 0), vote(*won))
    (problem,) = problems_of(lambda: read(path))
    assert problem.startswith("votes.jsonl:2: the winner's columns are winner_model_a")


def test_votes_come_back_from_csv(tmp_path: Path) -> None:
    battles = [
        fight(winner, source="human", question_id=f"p{index}")
        for index, winner in enumerate(("model_a", "model_b", "tie"))
    ]
    path = tmp_path / "votes.csv"
    write_battles(path, make_battle_table(battles), format_name="one-hot")
    assert read_all(path) == battles
