from pathlib import Path

from tests.battles.builders import fight, problems_of, read, read_all
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import write_battles


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
    assert read(path, source="human").left_out == {"no verdict: the winner is empty": 1}
    wrong = write_csv(tmp_path, "left,right,winner", "ada,bob,draw", "ada,ada,tie", "ada", ",b,tie")
    problems = problems_of(lambda: read(wrong, source="human"))
    assert [problem.split(": ")[0] for problem in problems] == [
        f"pairs.csv:{number}" for number in (2, 3, 4, 5)
    ]


def test_pairs_come_back_without_what_csv_has_no_column_for(tmp_path: Path) -> None:
    battles = [fight(winner, source="human") for winner in ("model_a", "tie", "model_b")]
    battles.append(fight("tie", source="human", model_a='"q", r', model_b="two\nlines"))
    path = tmp_path / "pairs.csv"
    report = write_battles(path, make_battle_table(battles), format_name="evalica")
    assert (report.n_written, report.left_out, report.lost) == (4, {}, {"source": 4})
    assert read_all(path, source="human") == battles
    table = make_battle_table([fight(question_id="q")])
    lost = write_battles(tmp_path / "b.csv", table, format_name="evalica").lost
    assert lost == {"question_id": 1, "source": 1}


def test_a_column_of_prompts_is_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "id,prompt,winner,left,right", "0,8,left,ada,bob", "1,,tie,ada,bob")
    assert [battle.question_id for battle in read_all(path, source="human")] == ["8", None]
