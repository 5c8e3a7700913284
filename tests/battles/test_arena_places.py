import pytest

from tests.battles.builders import fight
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.human import ArenaPlaces, _find_anchors, place_in_arena
from tournament_assets.tournament.battles import Battle, RatingSettings

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
    scales = {(row.basis, row.scale) for row in places.rows}
    assert scales == {("judge", "own"), ("human", "arena"), ("both", "arena")}
    # Nothing connects the two groups: no place in the arena, and it says why.
    assert (ratings(places, "both")["kim"], ratings(places, "both")["eve"]) == (None, None)
    notes = {row.note for row in places.rows if row.basis == "both" and not row.rating}
    assert notes == {"no wins or losses connect it to the rated entrants"}


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
