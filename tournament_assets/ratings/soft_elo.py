"""Elo ratings where a battle's outcome is a share of a win.

The update is the textbook's, K times (score - expected score), with any score between 0 and 1. With
wins and losses alone this is `elo.compute_elo_permutation`, bit for bit.
"""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compiling import compiled
from tournament_assets.ratings.options import require_count, require_k_factor
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.ratings.traces import EloTraces
from tournament_assets.tournament.errors import InputError


def compute_soft_elo_permutation(
    preferences: Preferences,
    *,
    k_factor: float,
    n_permutations: int,
    seed: int,
    initial_rating: float = 1400.0,
    count_ties: bool = False,
) -> EloTraces:
    """Rate every entrant once per random ordering of the battles.

    Args:
        preferences: Battles; weights other than 1 have no meaning for Elo and are refused.
        k_factor: The most one battle can change a rating by, in Elo points.
        n_permutations: Number of orderings.
        seed: Seeds the orderings as in `compute_elo_permutation`.
        initial_rating: Rating before the first battle, in Elo points.
        count_ties: Play battles with a preference of exactly one half as half a win each;
            otherwise they are left out, as ties are in `compute_elo_permutation`.

    Returns:
        One row of ratings per ordering; every row sums to n_entrants * initial_rating.

    Raises:
        InputError: If `n_permutations` is less than 1, `k_factor` is not positive, or a battle
            has another weight than 1.
    """
    require_count("n_permutations", n_permutations)
    require_k_factor(k_factor)
    if (preferences.weight != 1).any():
        row = int(np.argmax(preferences.weight != 1))
        raise InputError(
            f"battle {row} has weight {preferences.weight[row].item()!r}; expected 1, because Elo "
            "has no weights: use Bradley-Terry"
        )
    kept = np.full(preferences.n_battles, True) if count_ties else preferences.preference != 0.5
    # The preferred entrant stands first, as the winner does in `elo`, so that rounding agrees.
    is_swapped = preferences.preference[kept] < 0.5
    first, second = preferences.first[kept], preferences.second[kept]
    ahead = np.where(is_swapped, second, first)
    behind = np.where(is_swapped, first, second)
    score = np.maximum(preferences.preference[kept], 1 - preferences.preference[kept])
    n_entrants = len(preferences.entrants)
    generator = np.random.default_rng(seed)
    ratings = np.empty((n_permutations, n_entrants))
    for permutation in range(n_permutations):
        order = generator.permutation(score.size)
        ratings[permutation] = _rate_ordering(
            order, ahead, behind, score, float(k_factor), n_entrants, float(initial_rating), 10.0
        )
    fought = np.bincount(np.concatenate([ahead, behind]), minlength=n_entrants)
    return EloTraces(
        entrants=preferences.entrants,
        ratings=ratings,
        matches_per_entrant=fought.astype(np.int64),
        k_factor=float(k_factor),
        seed=seed,
        initial_rating=float(initial_rating),
    )


@compiled
def _rate_ordering(
    order: NDArray[np.int64],
    ahead: NDArray[np.int64],
    behind: NDArray[np.int64],
    score: NDArray[np.float64],
    k_factor: float,
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    # `base` is an argument for the reason given in `elo`: the compiler must not know it.
    ratings = np.full(n_entrants, initial_rating)
    for battle in order:
        gap = ratings[behind[battle]] - ratings[ahead[battle]]
        expected = 1.0 / (1.0 + base ** (gap / 400.0))
        change = k_factor * (score[battle] - expected)
        ratings[ahead[battle]] += change
        ratings[behind[battle]] -= change
    return ratings
