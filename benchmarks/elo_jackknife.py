"""Elo ratings with prompts left out, for the acceleration of BCa intervals."""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compilation import compiled
from tournament_assets.ratings.matches import Matches, require_count, require_k_factor

MAX_GROUPS = 200
"""More prompts than this are left out in groups of equal size, give or take one: skewness, all that
BCa wants to know, is known well enough from that many."""

_ROTATIONS = 32


def jackknife_elo(
    matches: Matches, *, k_factor: float, seed: int, initial_rating: float = 1400.0
) -> NDArray[np.float64]:
    """Rate every entrant without each prompt, or each group of prompts, in turn.

    All ratings are averaged over the same 64 balanced orderings, so that their differences show
    the prompts and not the order.

    Args:
        matches: Who beat whom, and on which prompt.
        k_factor: The most one match can change a rating by, in Elo points.
        seed: Seeds the ordering and, where there are groups, who is in which.
        initial_rating: Rating before the first match, in Elo points.

    Returns:
        Elo points, shape (n_groups, n_entrants); NaN for an entrant without any match.

    Raises:
        InputError: If `k_factor` is not positive or there is no prompt.
    """
    require_k_factor(k_factor)
    won = matches.decisive()
    n_prompts = len(matches.prompts)
    require_count("the number of prompts", n_prompts)
    n_groups = min(n_prompts, MAX_GROUPS)
    generator = np.random.default_rng(seed)
    order = generator.permutation(won.n_matches)
    group_of_prompt = np.arange(n_prompts) % n_groups
    if n_groups < n_prompts:
        group_of_prompt = generator.permutation(group_of_prompt)
    ratings = _rate_without_each(
        order,
        won.first,
        won.second,
        group_of_prompt[won.prompt_index],
        n_groups,
        float(k_factor),
        _ROTATIONS,
        len(matches.entrants),
        float(initial_rating),
    )
    ratings[:, won.matches_per_entrant == 0] = np.nan
    return ratings


@compiled
def _rate_without_each(
    order: NDArray[np.int64],
    winners: NDArray[np.int64],
    losers: NDArray[np.int64],
    group: NDArray[np.int64],
    n_groups: int,
    k_factor: float,
    n_rotations: int,
    n_entrants: int,
    initial_rating: float,
) -> NDArray[np.float64]:
    # The groups are lanes that advance together through one ordering, each skipping its own
    # matches: independent chains keep the processor busy while it waits for exp().
    n_matches = order.size
    scale = np.log(10.0) / 400.0
    total = np.zeros((n_entrants, n_groups))
    for ordering in range(2 * n_rotations):
        ratings = np.full((n_entrants, n_groups), initial_rating)
        start = ordering // 2 * n_matches // n_rotations
        for step in range(n_matches):
            position = start + step if ordering % 2 == 0 else start - 1 - step
            match = order[position % n_matches]
            winner = winners[match]
            loser = losers[match]
            left_out = group[match]
            before_winner = ratings[winner, left_out]
            before_loser = ratings[loser, left_out]
            for lane in range(n_groups):
                gap = ratings[winner, lane] - ratings[loser, lane]
                change = k_factor / (1.0 + np.exp(scale * gap))
                ratings[winner, lane] += change
                ratings[loser, lane] -= change
            ratings[winner, left_out] = before_winner
            ratings[loser, left_out] = before_loser
        total += ratings
    return total.T / (2 * n_rotations)
