import numpy as np
import pytest

from tournament_assets.ratings.elo import compute_elo_permutation, compute_soft_elo_permutation
from tournament_assets.ratings.matches import (
    Preferences,
    code_columns,
    code_decisive,
    code_preferences,
)
from tournament_assets.tournament.errors import InputError

from .builders import ENTRANTS, simulate_judgments

JUDGMENTS = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=12, seed=4)


def soft_battles(n: int = 60) -> Preferences:
    generator = np.random.default_rng(2)
    first = generator.integers(4, size=n)
    second = (first + generator.integers(1, 4, size=n)) % 4
    return code_columns(
        [ENTRANTS[index] for index in first],
        [ENTRANTS[index] for index in second],
        ["p"] * n,
        (generator.integers(0, 5, size=n) / 4).tolist(),
        entrants=ENTRANTS,
    )


def rate_in_python(preferences: Preferences, *, seed: int, count_ties: bool) -> list[float]:
    battles = [
        (first, second, score)
        for first, second, score in zip(
            preferences.first, preferences.second, preferences.preference, strict=True
        )
        if count_ties or score != 0.5
    ]
    ratings = [1400.0] * 4
    for index in np.random.default_rng(seed).permutation(len(battles)):
        first, second, score = battles[index]
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / 400))
        ratings[first] += 16 * (score - expected)
        ratings[second] -= 16 * (score - expected)
    return ratings


def test_wins_and_losses_alone_give_elo_to_the_bit() -> None:
    expected = compute_elo_permutation(
        code_decisive(JUDGMENTS, entrants=ENTRANTS), k_factor=16, n_permutations=5, seed=7
    )
    found = compute_soft_elo_permutation(
        code_preferences(JUDGMENTS, entrants=ENTRANTS), k_factor=16, n_permutations=5, seed=7
    )
    np.testing.assert_array_equal(found.ratings, expected.ratings)
    np.testing.assert_array_equal(found.matches_per_entrant, expected.matches_per_entrant)


@pytest.mark.parametrize("count_ties", [False, True])
def test_shares_of_wins_agree_with_a_loop(count_ties: bool) -> None:
    preferences = soft_battles()
    found = compute_soft_elo_permutation(
        preferences, k_factor=16, n_permutations=1, seed=3, count_ties=count_ties
    ).ratings[0]
    expected = rate_in_python(preferences, seed=3, count_ties=count_ties)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_share_moves_its_part_of_k() -> None:
    preferences = code_columns(["ada"], ["bob"], ["p"], [0.75], entrants=("ada", "bob"))
    traces = compute_soft_elo_permutation(preferences, k_factor=16, n_permutations=1, seed=0)
    np.testing.assert_allclose(traces.ratings, [[1404.0, 1396.0]])


def test_points_are_conserved() -> None:
    traces = compute_soft_elo_permutation(soft_battles(), k_factor=32, n_permutations=20, seed=0)
    np.testing.assert_allclose(traces.ratings.sum(axis=1), 4 * 1400.0)


def test_weights_are_refused() -> None:
    weighted = code_columns(
        ["ada", "ada"], ["bob", "bob"], ["p", "q"], [1, 0], entrants=ENTRANTS, weight=[1, 3]
    )
    with pytest.raises(InputError, match=r"battle 1 has weight 3.0.*use Bradley-Terry"):
        compute_soft_elo_permutation(weighted, k_factor=16, n_permutations=1, seed=0)
