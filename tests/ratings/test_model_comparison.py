import numpy as np
import pytest

from tests.ratings.builders import code_columns
from tournament_assets.ratings.elo import DIVIDED, NO_MATCH, WON_ALL
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.rating_methods import ModelComparison, compare_models

from .builders import ENTRANTS, simulate_judgments, tie, wins

MODELS = ("elo", "bradley_terry", "davidson", "newman")


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
    # bob beat ada more often than not. But ada tied cyd, who beats bob, twenty times: that is half
    # wins over a strong entrant to Bradley-Terry, and nothing to Elo.
    table = {
        ("ada", "bob"): 4,
        ("bob", "ada"): 8,
        ("bob", "cyd"): 1,
        ("cyd", "ada"): 1,
        ("cyd", "bob"): 8,
    }
    judgments = [*wins(table), *[tie("ada", "bob")] * 4, *[tie("ada", "cyd")] * 20]
    found = compare(code_judgments(judgments, entrants=ENTRANTS[:3]))
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
    assert found.disagreements[0].a_above == ("bradley_terry", "davidson", "newman")
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
    assert columns["davidson"].notes == ("knows only wins, losses and ties",) * 2
    assert columns["newman"].ratings == (None, None)
    assert columns["bradley_terry"].ranks == (1, 2)
    assert columns["elo"].ranks == (1, 2)
    weighted = code_columns(
        ["ada", "ada"], ["bob", "bob"], ["p", "q"], [1, 0], entrants=ENTRANTS[:2], weight=[3, 1]
    )
    columns = {column.model: column for column in compare(weighted).columns}
    assert columns["elo"].notes[0] == "the battles are weighted, and Elo has no weights"
    assert columns["davidson"].ranks == (1, 2)


def test_an_entrant_that_some_model_cannot_rate_is_compared_by_the_others() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "bob"): 4}
    found = compare(code_judgments(wins(table), entrants=ENTRANTS))
    columns = {column.model: column for column in found.columns}
    assert columns["elo"].notes[2] == WON_ALL
    assert columns["elo"].ratings[2] is None
    assert columns["bradley_terry"].notes[2] == "won every match: no upper bound"
    assert columns["elo"].notes[3] == NO_MATCH
    assert columns["elo"].ranks[3] is None


def test_elo_ratings_of_separate_groups_are_not_ranked_against_each_other() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "dee"): 2, ("dee", "cyd"): 1}
    found = compare(code_judgments(wins(table), entrants=ENTRANTS))
    assert found.columns[0].notes == (DIVIDED,) * 4
    assert found.columns[0].ranks == (None,) * 4


def test_the_tie_parameter_stands_with_its_models() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=30, seed=2)
    found = compare(code_judgments(judgments, entrants=ENTRANTS))
    parameters = [column.tie_parameter for column in found.columns]
    assert parameters[:2] == [None, None]
    assert parameters[2] == pytest.approx(parameters[3])
