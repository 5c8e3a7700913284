"""Files of votes: Evalica, Kaggle's one-hot tables and orq-arena."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.battles.builders import fight, problems_of, read, read_all, write_lines
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import write_battles
from tournament_assets.tournament.battles import Battle


def write_csv(folder: Path, *lines: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_rows_are_battles_without_a_prompt(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path, "left,right,winner", "ada,bob,left", '"a, b",ada,tie', "ada,bob,right"
    )
    assert read(path, source="human").format == "evalica"
    assert read_all(path, source="human") == [
        fight("model_a", source="human"),
        fight("tie", source="human", model_a="a, b", model_b="ada"),
        fight("model_b", source="human"),
    ]


def test_columns_may_stand_in_any_order_beside_others(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "note,winner,right,left", "x,left,bob,ada")
    assert read_all(path, source="human") == [fight("model_a", source="human")]


def test_who_decided_has_to_be_said(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "left,right,winner", "ada,bob,left")
    assert "--source" in problems_of(lambda: read(path))[0]


def test_an_empty_winner_is_no_verdict_and_another_word_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "left,right,winner", "ada,bob,", "ada,bob,tie")
    assert list(read(path, source="human").left_out.values()) == [1]
    wrong = write_csv(tmp_path, "left,right,winner", "ada,bob,draw", "ada,ada,tie", "ada", ",b,tie")
    problems = problems_of(lambda: read(wrong, source="human"))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"pairs.csv:{number}" for number in (2, 4, 5)
    ]


def test_plain_csv_comes_back_but_for_what_it_has_no_column_for(tmp_path: Path) -> None:
    battles = [fight(each, source="human") for each in ("model_a", "tie", "model_b")]
    battles.append(fight("tie (bothbad)", source="human", model_a='"q", r', model_b="two\nlines"))
    path = tmp_path / "pairs.csv"
    assert write_battles(path, make_battle_table(battles), format_name="csv") == {"source": 4}
    assert path.read_text().startswith("model_a,model_b,winner\nada,bob,model_a\n")
    assert read(path, source="human").format == "csv"
    assert read_all(path, source="human") == battles
    table = make_battle_table([fight(question_id="q", weight=3.0)])
    lost = write_battles(tmp_path / "b.csv", table, format_name="csv")
    assert lost == {"question_id": 1, "source": 1, "weight": 1}


def test_plain_csv_is_read_with_its_prompts_and_refused_by_line(tmp_path: Path) -> None:
    head = "winner,model_b,model_a,prompt"
    path = write_csv(tmp_path, head, "model_a,bob,ada,8", ",bob,ada,8", "tie (bothbad),bob,ada,")
    assert list(read(path, source="human").left_out.values()) == [1]
    assert [(each.winner, each.question_id) for each in read_all(path, source="human")] == [
        *(("model_a", "8"), ("tie (bothbad)", None)),
    ]
    wrong = write_csv(tmp_path, head, "ada,bob,ada,8", "tie,ada,ada,8", "tie,bob,,8")
    problems = problems_of(lambda: read(wrong, source="human"))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"pairs.csv:{number}" for number in (2, 4)
    ]


def test_a_column_of_prompts_is_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "id,prompt,winner,left,right", "0,8,left,ada,bob", "1,,tie,ada,bob")
    assert [battle.question_id for battle in read_all(path, source="human")] == ["8", None]


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
    assert list(read(path).left_out.values()) == [1]
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
    assert problem.startswith("votes.jsonl:2: ")
    assert "winner_model_a" in problem


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
    assert list(file.left_out.values()) == [3]


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
    assert "schema_version is 2" in problems[0]


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
    assert problem.startswith("b.jsonl:1: ")
    assert "'tie'" in problem
