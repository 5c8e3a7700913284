import numpy as np
import pytest

from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import DIVIDED, NO_MATCH, WON_ALL
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.rating_methods import (
    ModelComparison,
    compare_models,
    comparison_rows,
    style_control_rows,
)
from tournament_assets.ratings.sandwich import SamplingUnit, sandwich_bradley_terry
from tournament_assets.tournament.battles import RatingSettings

from .builders import ENTRANTS, code_columns, simulate_judgments, tie, win, wins

MODELS = ("elo", "bradley_terry", "davidson")
# bob beat ada more often than not. But ada tied cyd, who beats bob, twenty times: that is half
# wins over a strong entrant to Bradley-Terry, and nothing to Elo.
DISPUTED = [
    *wins(
        {
            ("ada", "bob"): 4,
            ("bob", "ada"): 8,
            ("bob", "cyd"): 1,
            ("cyd", "ada"): 1,
            ("cyd", "bob"): 8,
        }
    ),
    *[tie("ada", "bob")] * 4,
    *[tie("ada", "cyd")] * 20,
]


def compare(preferences: Matches) -> ModelComparison:
    return compare_models(preferences, k_factor=16, n_permutations=200, seed=0)


def test_models_agree_on_a_clear_order() -> None:
    preferences = code_judgments(
        simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=60, seed=0), entrants=ENTRANTS
    )
    found = compare(preferences)
    assert tuple(column.model for column in found.columns) == MODELS
    for column in found.columns:
        assert column.ranks == (4, 3, 2, 1)
        assert column.notes == (None,) * 4
        np.testing.assert_allclose(np.mean(column.ratings), 1400)  # type: ignore[arg-type]
    assert found.disagreements == ()


def test_a_tie_that_means_two_things_is_reported() -> None:
    found = compare(code_judgments(DISPUTED, entrants=ENTRANTS[:3]))
    by_model = {column.model: column for column in found.columns}
    for disagreement in found.disagreements:
        a, b = (ENTRANTS.index(name) for name in (disagreement.entrant_a, disagreement.entrant_b))
        for model in disagreement.a_above:
            assert by_model[model].ranks[a] < by_model[model].ranks[b]  # type: ignore[operator]
        for model in disagreement.b_above:
            assert by_model[model].ranks[a] > by_model[model].ranks[b]  # type: ignore[operator]
        assert disagreement.a_above
        assert disagreement.b_above
    assert [(each.entrant_a, each.entrant_b) for each in found.disagreements] == [("ada", "bob")]
    assert found.disagreements[0].a_above == ("bradley_terry", "davidson")
    assert found.disagreements[0].b_above == ("elo",)


def test_ratings_within_elos_order_noise_are_level() -> None:
    # ada is one win in 41 ahead. Five orderings may well put bob first, and mean nothing by it.
    table = {("ada", "bob"): 21, ("bob", "ada"): 20}
    preferences = code_judgments(wins(table), entrants=("ada", "bob"))
    comparisons = [
        compare_models(preferences, k_factor=32, n_permutations=5, seed=seed) for seed in range(20)
    ]
    assert {found.columns[1].ranks for found in comparisons} == {(1, 2)}
    assert {found.columns[0].ranks for found in comparisons} == {(1, 2), (2, 1)}
    assert all(found.disagreements == () for found in comparisons)


def test_equal_ratings_share_the_better_rank() -> None:
    table = {("ada", "bob"): 2, ("bob", "ada"): 2}
    found = compare(code_judgments(wins(table), entrants=("ada", "bob")))
    assert found.columns[1].ranks == (1, 1)
    assert found.disagreements == ()


def test_models_that_cannot_rate_say_why() -> None:
    soft = code_columns(
        ["ada", "ada", "bob"],
        ["bob", "bob", "ada"],
        ["p", "q", "r"],
        [0.8, 0.9, 0.4],
        entrants=("ada", "bob"),
    )
    columns = {column.model: column for column in compare(soft).columns}
    assert all("losses" in str(note) for note in columns["davidson"].notes)
    assert columns["davidson"].ratings == (None, None)
    assert columns["bradley_terry"].ranks == (1, 2)
    assert columns["elo"].ranks == (1, 2)
    weighted = code_columns(
        ["ada", "ada"], ["bob", "bob"], ["p", "q"], [1, 0], entrants=ENTRANTS[:2], weight=[3, 1]
    )
    columns = {column.model: column for column in compare(weighted).columns}
    assert "weights" in str(columns["elo"].notes[0])
    assert columns["davidson"].ranks == (1, 2)


def test_an_entrant_that_some_model_cannot_rate_is_compared_by_the_others() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "bob"): 4}
    found = compare(code_judgments(wins(table), entrants=ENTRANTS))
    columns = {column.model: column for column in found.columns}
    assert columns["elo"].notes[2] == WON_ALL
    assert columns["elo"].ratings[2] is None
    assert "upper bound" in str(columns["bradley_terry"].notes[2])
    assert columns["elo"].notes[3] == NO_MATCH
    assert columns["elo"].ranks[3] is None


def test_elo_ratings_of_separate_groups_are_not_ranked_against_each_other() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "dee"): 2, ("dee", "cyd"): 1}
    found = compare(code_judgments(wins(table), entrants=ENTRANTS))
    assert found.columns[0].notes == (DIVIDED,) * 4
    assert found.columns[0].ranks == (None,) * 4


def test_the_tie_parameter_stands_with_its_model() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=30, seed=2)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    parameters = [column.tie_parameter for column in compare(matches).columns]
    assert parameters == [None, None, fit_davidson(matches).tie_parameter]


SETTINGS = RatingSettings(n_permutations=50, k_factor=24, shuffle_seed=4, initial_rating=1000)


def test_every_dispute_stands_with_the_model_that_takes_a_side() -> None:
    preferences = code_judgments(DISPUTED, entrants=ENTRANTS[:3])
    rows = comparison_rows(preferences, dimension="factuality", settings=SETTINGS)
    disputed = {
        (row.entrant_id, row.model): row.disputed_below for row in rows if row.disputed_below
    }
    assert disputed == {
        ("bob", "elo"): ("ada",),
        ("ada", "bradley_terry"): ("bob",),
        ("ada", "davidson"): ("bob",),
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
    errors = {each.entrant: each for each in sandwich.ratings}
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
    assert "upper bound" in str(strengths[3].note)
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
    assert [row.rating for row in strengths] == pytest.approx([1000.0, 1000.0])
    assert all(row.standard_error is None for row in strengths)
    assert all("no spread" in str(row.note) for row in strengths)
