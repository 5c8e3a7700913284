from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_methods import (
    compare_models,
    comparison_rows,
    style_control_rows,
)
from tournament_assets.ratings.sandwich import SamplingUnit, sandwich_bradley_terry
from tournament_assets.tournament.battles import RatingSettings

from .builders import ENTRANTS, simulate_judgments, tie, win, wins

SETTINGS = RatingSettings(n_permutations=50, k_factor=24, shuffle_seed=4, initial_rating=1000)


def test_every_dispute_stands_with_the_model_that_takes_a_side() -> None:
    # As in test_model_comparison: only Elo puts bob above ada.
    table = {
        ("ada", "bob"): 4,
        ("bob", "ada"): 8,
        ("bob", "cyd"): 1,
        ("cyd", "ada"): 1,
        ("cyd", "bob"): 8,
    }
    judgments = [*wins(table), *[tie("ada", "bob")] * 4, *[tie("ada", "cyd")] * 20]
    preferences = code_judgments(judgments, entrants=ENTRANTS[:3])
    rows = comparison_rows(preferences, dimension="factuality", settings=SETTINGS)
    disputed = {
        (row.entrant_id, row.model): row.disputed_below for row in rows if row.disputed_below
    }
    assert disputed == {
        ("bob", "elo"): ("ada",),
        ("ada", "bradley_terry"): ("bob",),
        ("ada", "davidson"): ("bob",),
        ("ada", "newman"): ("bob",),
    }


def test_rows_are_the_models_numbers_under_the_settings_best_first() -> None:
    preferences = code_judgments(
        simulate_judgments([0.0, 1.0, 0.5, 2.0], n_prompts=40, seed=1), entrants=ENTRANTS
    )
    rows = comparison_rows(preferences, dimension="factuality", settings=SETTINGS)
    found = compare_models(
        preferences, k_factor=24, n_permutations=50, seed=4, initial_rating=1000.0
    )
    sandwich = sandwich_bradley_terry(
        preferences, unit=SamplingUnit.PROMPT, confidence=0.95, initial_rating=1000.0
    )
    errors = {each.entrant: each for each in sandwich.intervals}
    for column in found.columns:
        own = [row for row in rows if row.model == column.model]
        assert [row.rank for row in own] == [1, 2, 3, 4]
        for row in own:
            assert row.rating == column.ratings[ENTRANTS.index(row.entrant_id)]
            assert row.tie_parameter == column.tie_parameter
            if column.model == "bradley_terry":
                interval = errors[row.entrant_id]
                assert row.low == interval.low
                assert row.high == interval.high
                assert row.standard_error == interval.standard_error
            else:
                assert row.standard_error is None


def test_entrants_without_a_rating_come_last_and_say_why() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "bob"): 4}
    preferences = code_judgments(wins(table), entrants=("dee", "cyd", "bob", "ada"))
    rows = comparison_rows(preferences, dimension="factuality", settings=SETTINGS)
    strengths = [row for row in rows if row.model == "bradley_terry"]
    assert [row.entrant_id for row in strengths[2:]] == ["dee", "cyd"]
    assert strengths[3].note == "won every match: no upper bound"
    assert strengths[3].rank is None
    style = style_control_rows(
        preferences,
        {(e, f"p{i}"): "word " * (i + len(e) * (e > "b")) for e in ENTRANTS for i in range(9)},
        dimension="factuality",
        penalty=0.5,
        settings=SETTINGS,
    )
    assert [row.kind for row in style] == ["entrant"] * 4 + ["feature"] * 4
    assert [row.name for row in style[2:4]] == ["dee", "cyd"]
    assert {row.penalty for row in style} == {0.5}
    assert all(row.note for row in style if row.points is None)


def test_a_rating_without_spread_between_prompts_says_so() -> None:
    rows = comparison_rows(
        code_judgments([win("ada", "bob"), win("bob", "ada")], entrants=ENTRANTS[:2]),
        dimension="factuality",
        settings=SETTINGS,
    )
    strengths = [row for row in rows if row.model == "bradley_terry"]
    assert [row.rating for row in strengths] == [1000.0, 1000.0]
    assert all(row.standard_error is None for row in strengths)
    assert all("no spread between prompts" in str(row.note) for row in strengths)
