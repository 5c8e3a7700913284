"""Elo ratings averaged over random orderings of the decisive matches.

Elo depends on the order of the matches, and judged pairs have none, so every ordering is as good
as another: Boubdir et al., "Elo Uncovered", https://arxiv.org/abs/2311.17295.

Elo always yields a number, even for an entrant that only won, never met the others or never played.
The rating of an entrant that won everything rises with every further match, so it only counts
matches; and ratings of groups that never met share no scale. As for Bradley-Terry, ratings are
therefore given only among entrants that chains of wins connect in both directions; Elo ignores
ties.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Rating
from tournament_assets.ratings.bradley_terry import chains_of_wins, find_groups, find_standing
from tournament_assets.ratings.elo_kernels import LANES, pack, rate_exactly, rate_few
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.intervals import percentile_interval
from tournament_assets.ratings.matches import Matches, require_count, require_k_factor

_FEW_UPDATES = 4_000_000
"""What Python updates in the time in which numba is loaded; compiling takes 2 s more."""


def compute_elo_permutation(
    matches: Matches,
    *,
    k_factor: float,
    n_permutations: int,
    seed: int,
    initial_rating: float = 1400.0,
) -> EloTraces:
    """Rate every entrant once per random ordering of the decisive matches.

    The orderings are those of `numpy.random.default_rng(seed).permutation(n_matches)`, called
    once per ordering. The spread down a column shows only how much order matters; for the error
    that comes from having judged a sample of prompts, see `intervals`.

    Args:
        matches: Who beat whom. Ties are left out; for a share of a win the preferred entrant gets K
            * (share - expected share). Weights are ignored: every match counts once.
        k_factor: The most one match can change a rating by, in Elo points.
        n_permutations: Number of orderings.
        seed: Seeds the orderings; the same seed gives the same orderings for any K.
        initial_rating: Rating before the first match, in Elo points.

    Returns:
        One row of ratings per ordering; every row sums to n_entrants * initial_rating.

    Raises:
        InputError: If `n_permutations` is less than 1 or `k_factor` is not positive.
    """
    (traces,) = k_factor_sweep(
        matches,
        k_factors=[k_factor],
        n_permutations=n_permutations,
        seed=seed,
        initial_rating=initial_rating,
    )
    return traces


def k_factor_sweep(
    matches: Matches,
    *,
    k_factors: Sequence[float],
    n_permutations: int,
    seed: int,
    initial_rating: float = 1400.0,
) -> tuple[EloTraces, ...]:
    """Rate every entrant with several K-factors on the same orderings.

    Arguments and errors as for `compute_elo_permutation`.

    Returns:
        One trace per K-factor, in their order.
    """
    require_count("n_permutations", n_permutations)
    if not k_factors:
        raise InputError("k_factors is empty; expected at least one K-factor")
    for k_factor in k_factors:
        require_k_factor(k_factor)
    won, n_entrants = matches.decisive(), len(matches.entrants)
    are_few = len(k_factors) * n_permutations * won.n_matches <= _FEW_UPDATES
    rate = rate_few if are_few else rate_exactly
    shares, codes = np.unique(won.preference, return_inverse=True)
    items = pack(won.first, won.second, codes)
    generator, factors = np.random.default_rng(seed), np.array(k_factors, dtype=np.float64)
    rows = np.empty((LANES, won.n_matches), dtype=np.int64)
    ratings = np.empty((len(k_factors), n_permutations, n_entrants))
    for start in range(0, n_permutations, LANES):
        lanes = rows[: n_permutations - start]
        for lane in lanes:
            lane[:] = items[generator.permutation(items.size)]
        ratings[:, start : start + LANES] = rate(
            lanes, shares, factors, n_entrants, float(initial_rating), 10.0
        )
    return tuple(
        EloTraces(
            entrants=matches.entrants,
            ratings=ratings[index],
            matches_per_entrant=won.matches_per_entrant,
            k_factor=float(k_factor),
            seed=seed,
            initial_rating=float(initial_rating),
        )
        for index, k_factor in enumerate(k_factors)
    )


def summarise_elo(traces: EloTraces, *, confidence: float) -> tuple[Rating, ...]:
    """Return every entrant's mean rating with its order noise, in the order of the columns.

    This does not say how certain a rating is: for the error that comes from having judged a sample
    of prompts, see `intervals`. The standard error is that of the mean, and vanishes as orderings
    are added; the interval holds the ratings of single orderings. Both are absent where one
    ordering, or no match, shows no spread. An entrant without a match (n is 0) keeps the initial
    rating.

    Args:
        confidence: Share of the single-ordering ratings that the order interval holds.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    interval = percentile_interval(traces.ratings, confidence=confidence)
    n_permutations = traces.ratings.shape[0]
    results = []
    for column, entrant in enumerate(traces.entrants):
        samples = traces.ratings[:, column]
        n_matches = int(traces.matches_per_entrant[column])
        has_spread = n_permutations > 1 and n_matches > 0
        results.append(
            Rating(
                float(samples.mean()),
                low=float(interval.low[column]) if has_spread else None,
                high=float(interval.high[column]) if has_spread else None,
                n=n_matches,
                entrant=entrant,
                standard_error=float(samples.std(ddof=1)) / math.sqrt(n_permutations)
                if has_spread
                else None,
            )
        )
    return tuple(results)


NO_MATCH = "no decisive match"
APART = "no chain of decisive matches connects it to the largest group"
DIVIDED = "the decisive matches fall into separate groups of the same size"
WON_ALL = "won every decisive match: no upper bound"
LOST_ALL = "lost every decisive match: no lower bound"
ABOVE = "never lost to the rated entrants, directly or through others: no upper bound"
BELOW = "never beat the rated entrants, directly or through others: no lower bound"
NOT_BOTH = "no other entrant both beat it and lost to it, directly or through others"
SMALLER = "its group of entrants that have beaten and lost to one another is not the single largest"


@dataclass(frozen=True, slots=True, eq=False)
class EloStanding:
    """Which Elo ratings the matches determine, found before any is computed.

    Attributes:
        notes: Why an entrant has no rating; None where it has one.
        is_placed: Whether an entrant has a place among the others, shape (n_entrants,): it belongs
            to the largest group that matches connect.
        n_above: Number of entrants from which chains of wins lead to it but not back, shape
            (n_entrants,); equal for all rated entrants.
    """

    notes: tuple[str | None, ...]
    is_placed: NDArray[np.bool_]
    n_above: NDArray[np.int64]


def elo_standing(matches: Matches) -> EloStanding:
    """Find which Elo ratings the matches determine; ties are left out.

    Args:
        matches: Who beat whom; a shared win counts as a win for each side with a share.
    """
    won = matches.decisive()
    n_entrants = len(won.entrants)
    is_shared = won.preference < 1
    wins = np.zeros((n_entrants, n_entrants))
    wins[won.first, won.second] = 1.0
    wins[won.second[is_shared], won.first[is_shared]] = 1.0
    standing = find_standing(wins)
    reaches = chains_of_wins(wins)
    is_mutual = (reaches & reaches.T).sum(axis=1) > 1
    islands = _island_notes(wins)
    notes: list[str | None] = []
    for entrant, island in enumerate(islands):
        if island is not None:
            notes.append(island)
        elif standing.rated[entrant]:
            notes.append(None)
        elif not wins[:, entrant].any():
            notes.append(WON_ALL)
        elif not wins[entrant].any():
            notes.append(LOST_ALL)
        elif standing.unbounded_above[entrant]:
            notes.append(ABOVE)
        elif standing.unbounded_below[entrant]:
            notes.append(BELOW)
        else:
            notes.append(SMALLER if is_mutual[entrant] else NOT_BOTH)
    return EloStanding(
        notes=tuple(notes),
        is_placed=np.array([island is None for island in islands], dtype=np.bool_),
        n_above=(reaches & ~reaches.T).sum(axis=0),
    )


def _island_notes(met: NDArray[np.float64]) -> tuple[str | None, ...]:
    """Explain for every entrant why matches do not connect it to the largest group, or None."""
    n_islands, island = find_groups(met)
    sizes = np.bincount(island, minlength=n_islands)
    is_largest = sizes == sizes.max(initial=2)
    notes: list[str | None] = []
    for place in island:
        if sizes[place] < 2:
            notes.append(NO_MATCH)
        elif is_largest.sum() > 1:
            notes.append(DIVIDED)
        else:
            notes.append(None if is_largest[place] else APART)
    return tuple(notes)
