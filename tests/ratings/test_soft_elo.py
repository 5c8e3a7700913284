from dataclasses import replace

import numpy as np

from tests.ratings.builders import code_columns
from tournament_assets.ratings.elo import compute_elo_permutation, k_factor_sweep
from tournament_assets.ratings.matches import Matches, code_judgments

from .builders import ENTRANTS, simulate_judgments

JUDGMENTS = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=12, seed=4)


def soft_battles(n: int = 60) -> Matches:
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


def rate_in_python(matches: Matches, *, seed: int) -> list[float]:
    battles = [
        (first, second, score)
        for first, second, score in zip(
            matches.first, matches.second, matches.preference, strict=True
        )
        if score != 0.5
    ]
    ratings = [1400.0] * 4
    for index in np.random.default_rng(seed).permutation(len(battles)):
        first, second, score = battles[index]
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / 400))
        ratings[first] += 16 * (score - expected)
        ratings[second] -= 16 * (score - expected)
    return ratings


def test_shares_of_wins_agree_with_a_loop() -> None:
    matches = soft_battles()
    found = compute_elo_permutation(matches, k_factor=16, n_permutations=1, seed=3).ratings[0]
    np.testing.assert_allclose(found, rate_in_python(matches, seed=3), rtol=1e-13)


def test_a_share_next_to_a_win_is_next_to_elo_of_wins() -> None:
    wins = code_judgments(JUDGMENTS, entrants=ENTRANTS)
    nearly = np.where(wins.preference == 1.0, 1.0 - 1e-15, wins.preference)
    one, other = (
        k_factor_sweep(each, k_factors=[4.0, 16.0], n_permutations=5, seed=7)
        for each in (wins, replace(wins, preference=nearly))
    )
    for exact, near in zip(one, other, strict=True):
        np.testing.assert_allclose(near.ratings, exact.ratings, rtol=1e-13)
        np.testing.assert_array_equal(near.matches_per_entrant, exact.matches_per_entrant)


def test_a_share_moves_its_part_of_k() -> None:
    matches = code_columns(["ada"], ["bob"], ["p"], [0.75], entrants=("ada", "bob"))
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=1, seed=0)
    np.testing.assert_allclose(traces.ratings, [[1404.0, 1396.0]])


def test_points_are_conserved() -> None:
    traces = compute_elo_permutation(soft_battles(), k_factor=32, n_permutations=20, seed=0)
    np.testing.assert_allclose(traces.ratings.sum(axis=1), 4 * 1400.0)


def test_a_match_of_any_weight_is_played_once() -> None:
    weighted = replace(soft_battles(), weight=np.full(60, 3.0))
    one, other = (
        compute_elo_permutation(each, k_factor=16, n_permutations=2, seed=0).ratings
        for each in (soft_battles(), weighted)
    )
    np.testing.assert_array_equal(one, other)
