from pathlib import Path

import pytest

from tests.battles.builders import fight, problems_of
from tournament_assets.battles.columns import battles_of, battles_per_model, make_battle_table
from tournament_assets.battles.human import (
    battles_that_count,
    join_battles,
    on_prompts,
    read_human_battles,
    without_models,
)
from tournament_assets.battles.rating import rate_battles
from tournament_assets.battles.registry import write_battles
from tournament_assets.tournament.battles import Battle, RatingSettings


def arena(folder: Path, battles: list[Battle]) -> Path:
    path = folder / "arena.jsonl"
    write_battles(path, make_battle_table(battles), format_name="tournament")
    return path


def human(a: str, b: str, question_id: str | None = None) -> Battle:
    return fight("tie", model_a=a, model_b=b, source="human", question_id=question_id)


def test_battles_that_models_decided_are_left_out_and_counted(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob"), fight(), fight()])
    found = read_human_battles(path)
    assert list(battles_of(found.table)) == [human("ada", "bob")]
    assert found.left_out == {"decided by a model": 2}
    assert found.entrants == {"ada": 1, "bob": 1}


def test_entrants_with_few_battles_are_left_out_round_after_round(tmp_path: Path) -> None:
    # dee has one battle; without it cyd has one; ada and bob keep enough of their own.
    path = arena(
        tmp_path,
        [*[human("ada", "bob")] * 3, human("bob", "cyd"), human("cyd", "dee")],
    )
    found = read_human_battles(path, min_battles=2)
    assert found.entrants == {"ada": 3, "bob": 3}
    assert found.too_few == {"cyd": 2, "dee": 1}
    assert found.n_with_too_few == 2
    assert found.table.num_rows == 3
    assert read_human_battles(path, min_battles=1).too_few == {}


@pytest.mark.parametrize("least", [0, 4])
def test_a_minimum_nobody_reaches_is_refused(tmp_path: Path, least: int) -> None:
    path = arena(tmp_path, [human("ada", "bob")] * 3)
    (problem,) = problems_of(lambda: read_human_battles(path, min_battles=least))
    assert "expected" in problem


def test_files_that_do_not_say_who_decided_are_taken_as_human(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner\nada,bob,left\n")
    assert list(battles_of(read_human_battles(path).table)) == [fight(source="human")]


def test_the_minimum_counts_battles_under_the_new_names(tmp_path: Path) -> None:
    path = arena(tmp_path, [*[human("ada-7b", "bob")] * 2, human("ada-7b", "cyd")])
    found = read_human_battles(path, min_battles=2, names={"ada-7b": "ada"})
    assert found.entrants == {"ada": 2, "bob": 2}
    assert found.too_few == {"cyd": 1}
    assert list(battles_of(found.table)) == [human("ada", "bob")] * 2


def test_two_models_may_swap_names_and_nobody_may_share_one(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob", "p"), human("bob", "cyd", "q")])
    swapped = read_human_battles(path, names={"ada": "bob", "bob": "ada"})
    assert list(battles_of(swapped.table)) == [human("bob", "ada", "p"), human("ada", "cyd", "q")]
    problems = problems_of(lambda: read_human_battles(path, names={"ada": "cyd", "bobb": "eve"}))
    assert "'ada' is the name of 'cyd', and another entrant" in problems[0]
    assert "'bobb'" in problems[1]
    assert "is in no human battle" in problems[1]
    assert "did you mean 'bob'?" in problems[1]


def test_a_name_that_only_a_judges_battle_has_is_free(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob"), fight(model_a="eve")])
    found = read_human_battles(path, names={"ada": "eve"})
    assert list(battles_of(found.table)) == [human("eve", "bob")]


def test_battles_on_another_dimension_of_the_tournament_do_not_count() -> None:
    asked = [
        fight(source="human", dimension=name) for name in ("factuality", "calibration", "charm")
    ]
    general = fight(source="human")
    found = battles_that_count(
        make_battle_table([*asked, general]),
        "factuality",
        dimensions=("calibration", "factuality"),
    )
    assert list(battles_of(found)) == [asked[0], asked[2], general]


def test_battles_on_some_prompts_and_without_some_models() -> None:
    battles = [human("ada", "bob", "p"), human("ada", "cyd", "q"), human("bob", "cyd")]
    table = make_battle_table(battles)
    assert list(battles_of(on_prompts(table, {"q", "z"}))) == [battles[1]]
    assert list(battles_of(without_models(table, {"bob"}))) == [battles[1]]
    # The names of the others stay in the dictionaries, but they have no battle.
    assert battles_per_model(without_models(table, {"bob"})) == {"ada": 1, "cyd": 1}


def test_a_judged_model_is_placed_among_those_of_the_arena() -> None:
    # People say that bob beats cyd three times of four; the judge, that eve beats bob as often.
    people = [
        fight("model_b" if n == 3 else "model_a", model_a="bob", model_b="cyd", source="human")
        for n in range(4)
    ]
    judged = [
        fight("model_b" if n == 3 else "model_a", model_a="eve", question_id=f"p{n}", dimension="x")
        for n in range(4)
    ]
    other = fight(dimension="y", model_a="eve", model_b="zoe")
    joined = join_battles(
        make_battle_table([*judged, other]), make_battle_table(people), dimension="x"
    )
    assert [battle.source for battle in battles_of(joined)] == ["llm-judge"] * 4 + ["human"] * 4
    settings = RatingSettings(n_bootstraps=2)
    (found,) = rate_battles(joined, settings=settings, methods=["bradley-terry"])
    ratings = {row.entrant_id: row.rating or 0.0 for row in found.bradley_terry}
    # Three to one is 400 * log10(3) points, along the chain from cyd over bob to eve.
    assert ratings["eve"] - ratings["bob"] == pytest.approx(190.848, abs=1e-3)
    assert ratings["bob"] - ratings["cyd"] == pytest.approx(190.848, abs=1e-3)
    assert sum(ratings.values()) == pytest.approx(3 * 1400)
