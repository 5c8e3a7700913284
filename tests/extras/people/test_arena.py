from pathlib import Path
from typing import Any

import pytest

from tests.battles.builders import fight, problems_of
from tournament_assets.battles.columns import battles_of, battles_per_model, make_battle_table
from tournament_assets.battles.rating import rate_table
from tournament_assets.battles.registry import write_battles
from tournament_assets.extras.people.arena import (
    OWN_SCALE,
    ArenaPlaces,
    HumanBattles,
    _find_anchors,
    battles_that_count,
    join_battles,
    on_prompts,
    place_in_arena,
    read_human_battles,
    without_models,
)
from tournament_assets.extras.people.config_keys import HumanBattlesConfig
from tournament_assets.tournament.battles import Battle, RatingSettings
from tournament_assets.tournament.places import Location


def arena(folder: Path, battles: list[Battle]) -> Path:
    path = folder / "arena.jsonl"
    write_battles(path, make_battle_table(battles), format_name="tournament")
    return path


def read(path: Path, *, min_battles: int = 1, **keys: Any) -> HumanBattles:
    return read_human_battles(
        path, HumanBattlesConfig(file=Location(path=str(path)), min_battles=min_battles, **keys)
    )


def human(a: str, b: str, question_id: str | None = None) -> Battle:
    return fight("tie", model_a=a, model_b=b, source="human", question_id=question_id)


def test_battles_that_models_decided_are_left_out_and_counted(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob"), fight(), fight()])
    found = read(path)
    assert list(battles_of(found.table)) == [human("ada", "bob")]
    assert list(found.left_out.values()) == [2]
    assert not found.note
    assert found.entrants == {"ada": 1, "bob": 1}


def test_entrants_with_few_battles_are_left_out_round_after_round(tmp_path: Path) -> None:
    # dee has one battle; without it cyd has one; ada and bob keep enough of their own.
    path = arena(
        tmp_path,
        [*[human("ada", "bob")] * 3, human("bob", "cyd"), human("cyd", "dee")],
    )
    found = read(path, min_battles=2)
    assert found.entrants == {"ada": 3, "bob": 3}
    assert found.too_few == {"cyd": 2, "dee": 1}
    assert found.n_with_too_few == 2
    assert found.table.num_rows == 3
    assert read(path, min_battles=1).too_few == {}


def test_a_minimum_nobody_reaches_is_refused(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob")] * 3)
    (problem,) = problems_of(lambda: read(path, min_battles=4))
    assert "expected" in problem


def test_files_that_do_not_say_who_decided_are_taken_as_human(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner\nada,bob,left\n")
    assert list(battles_of(read(path).table)) == [fight(source="human")]


def test_the_minimum_counts_battles_under_the_new_names(tmp_path: Path) -> None:
    path = arena(tmp_path, [*[human("ada-7b", "bob")] * 2, human("ada-7b", "cyd")])
    found = read(path, min_battles=2, names={"ada-7b": "ada"})
    assert found.entrants == {"ada": 2, "bob": 2}
    assert found.too_few == {"cyd": 1}
    assert list(battles_of(found.table)) == [human("ada", "bob")] * 2


def test_two_models_may_swap_names_and_nobody_may_share_one(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob", "p"), human("bob", "cyd", "q")])
    swapped = read(path, names={"ada": "bob", "bob": "ada"})
    assert list(battles_of(swapped.table)) == [human("bob", "ada", "p"), human("ada", "cyd", "q")]
    problems = problems_of(lambda: read(path, names={"ada": "cyd", "bobb": "eve"}))
    assert len(problems) == 2
    assert "'ada'" in problems[0]
    assert "'cyd'" in problems[0]
    assert "'bobb'" in problems[1]
    assert "'bob'?" in problems[1]


def test_a_name_that_only_a_judges_battle_has_is_free(tmp_path: Path) -> None:
    path = arena(tmp_path, [human("ada", "bob"), fight(model_a="eve")])
    found = read(path, names={"ada": "eve"})
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
    (found,) = rate_table(joined, settings=settings, methods=["bradley-terry"])
    ratings = {row.entrant_id: row.rating or 0.0 for row in found.ratings}
    # Three to one is 400 * log10(3) points, along the chain from cyd over bob to eve.
    assert ratings["eve"] - ratings["bob"] == pytest.approx(190.848, abs=1e-3)
    assert ratings["bob"] - ratings["cyd"] == pytest.approx(190.848, abs=1e-3)
    assert sum(ratings.values()) == pytest.approx(3 * 1400)


THREE_TO_ONE = 190.848501
SETTINGS = RatingSettings(entrants=("eve", "kim"), n_bootstraps=20)


def three_to_one(a: str, b: str, source: str) -> list[Battle]:
    """Let a beat b on three prompts of four, which is 400 * log10(3) points."""
    return [
        fight(
            "model_b" if number == 3 else "model_a",
            model_a=a,
            model_b=b,
            source=source,
            question_id=f"{a}-{b}-{number}",
            dimension="x" if source == "llm-judge" else None,
        )
        for number in range(4)
    ]


def place(judged: list[Battle], human: list[Battle]) -> ArenaPlaces:
    return place_in_arena(
        make_battle_table(judged), make_battle_table(human), dimension="x", settings=SETTINGS
    )


def ratings(places: ArenaPlaces, basis: str) -> dict[str, float | None]:
    return {row.entrant_id: row.rating for row in places.rows if row.basis == basis}


def test_the_place_of_a_model_that_people_never_saw_follows_from_one_they_did() -> None:
    places = place(three_to_one("kim", "eve", "llm-judge"), three_to_one("eve", "old", "human"))
    human, both = ratings(places, "human"), ratings(places, "both")
    assert human["kim"] is None
    assert both["kim"] == pytest.approx(1400 + 1.5 * THREE_TO_ONE)
    for name in ("eve", "old"):
        assert both[name] == pytest.approx(human[name])
    assert places.anchors == {"judge": "eve", "human": None, "both": "eve"}
    assert places.n_battles == {"judge": 4, "human": 4, "both": 8}


def test_without_anybody_in_common_the_judge_keeps_a_scale_of_its_own() -> None:
    people = [*three_to_one("ann", "bob", "human"), *three_to_one("bob", "cyd", "human")]
    places = place(three_to_one("kim", "eve", "llm-judge"), people)
    assert places.anchors == {"judge": None, "human": None, "both": "bob"}
    assert {row.basis for row in places.rows if row.note == OWN_SCALE} == {"judge"}
    # Nothing connects the two groups: no place in the arena, and it says why.
    assert (ratings(places, "both")["kim"], ratings(places, "both")["eve"]) == (None, None)
    assert all(row.note for row in places.rows if row.basis == "both" and not row.rating)


def test_no_human_battle_on_the_dimension_leaves_the_judges_ratings() -> None:
    places = place(three_to_one("kim", "eve", "llm-judge"), [])
    assert ratings(places, "human") == {"eve": None, "kim": None}
    judge, both = ratings(places, "judge"), ratings(places, "both")
    assert judge == both
    assert judge["kim"] == pytest.approx(1400 + THREE_TO_ONE / 2)


def test_no_judged_pair_leaves_the_arena() -> None:
    places = place([], three_to_one("eve", "old", "human"))
    assert ratings(places, "judge") == {"eve": None, "kim": None}
    assert ratings(places, "both") == pytest.approx(ratings(places, "human"))


@pytest.mark.parametrize(
    ("judge", "human", "both", "expected"),
    [
        ("ek", "eko", "eko", ("kim", "kim")),
        ("e", "eko", "eko", ("eve", "eve")),
        ("ek", "o", "eko", (None, "old")),
        ("e", "ek", "k", ("eve", "kim")),
        ("ek", "", "ek", (None, None)),
    ],
)
def test_the_anchor_is_rated_by_all_if_there_is_one_and_best_known_to_people(
    judge: str, human: str, both: str, expected: tuple[str | None, str | None]
) -> None:
    names = {"e": "eve", "k": "kim", "o": "old"}
    rated = {
        "judge": {names[letter]: 1.0 for letter in judge},
        "human": {names[letter]: 2.0 for letter in human},
        "both": {names[letter]: 3.0 for letter in both},
    }
    found = _find_anchors(rated, n_human={"eve": 5, "kim": 9, "old": 50})  # type: ignore[arg-type]
    assert (found["judge"], found["both"]) == expected


def test_among_those_equally_well_known_the_anchor_is_the_first_by_name() -> None:
    rated = {"kim": 1.0, "eve": 2.0}
    found = _find_anchors({"judge": rated, "human": rated, "both": rated}, n_human={})
    assert found["judge"] == "eve"
