"""Elo ratings averaged over random orderings of the decisive matches.

Elo depends on the order of the matches, and judged pairs have none, so every ordering is as good
as another: Boubdir et al., "Elo Uncovered", https://arxiv.org/abs/2311.17295.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.elo_lanes import LANES, pack, rate_exactly, rate_fast
from tournament_assets.ratings.intervals import percentile_interval
from tournament_assets.ratings.matches import DecisiveMatches
from tournament_assets.ratings.options import require_count, require_k_factor
from tournament_assets.ratings.orderings import Orderings
from tournament_assets.ratings.traces import EloResult, EloTraces
from tournament_assets.tournament.errors import InputError


def compute_elo_permutation(
    matches: DecisiveMatches,
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
        matches: Who beat whom; ties and inconsistent judgments are already left out.
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
    matches: DecisiveMatches,
    *,
    k_factors: Sequence[float],
    n_permutations: int,
    seed: int,
    initial_rating: float = 1400.0,
    exact: bool = True,
) -> tuple[EloTraces, ...]:
    """Rate every entrant with several K-factors on the same orderings.

    Args:
        matches: Who beat whom.
        k_factors: The K-factors, in Elo points.
        n_permutations: Number of orderings.
        seed: Seeds the orderings.
        initial_rating: Rating before the first match, in Elo points.
        exact: Round every operation as the textbook's loop in Python does. Otherwise the ratings
            of the same orderings come five times as fast, and differ by the rounding of numbers
            of their size: by less than 1.4e-12 points around 1400.

    Returns:
        One trace per K-factor, in their order; where `exact`, each is bit for bit what
        `compute_elo_permutation` gives for it.

    Raises:
        InputError: If `n_permutations` is less than 1 or a K-factor is not positive.
    """
    require_count("n_permutations", n_permutations)
    if not k_factors:
        raise InputError("k_factors is empty; expected at least one K-factor")
    for k_factor in k_factors:
        require_k_factor(k_factor)
    ratings = _rate_orderings(
        matches,
        np.array(k_factors, dtype=np.float64),
        n_permutations=n_permutations,
        seed=seed,
        initial_rating=float(initial_rating),
        exact=exact,
    )
    return tuple(
        EloTraces(
            entrants=matches.entrants,
            ratings=ratings[index],
            matches_per_entrant=matches.matches_per_entrant,
            k_factor=float(k_factor),
            seed=seed,
            initial_rating=float(initial_rating),
        )
        for index, k_factor in enumerate(k_factors)
    )


def _rate_orderings(
    matches: DecisiveMatches,
    k_factors: NDArray[np.float64],
    *,
    n_permutations: int,
    seed: int,
    initial_rating: float,
    exact: bool,
) -> NDArray[np.float64]:
    n_entrants = len(matches.entrants)
    orderings = Orderings(pack(matches.winners, matches.losers), seed=seed)
    rows = np.zeros((LANES, matches.n_matches), dtype=np.int64)
    ratings = np.empty((k_factors.size, n_permutations, n_entrants))
    for start in range(0, n_permutations, LANES):
        n_rows = min(LANES, n_permutations - start)
        orderings.fill(rows[:n_rows])
        if exact:
            rated = rate_exactly(rows[:n_rows], k_factors, n_entrants, initial_rating, 10.0)
        else:
            # The last group may fill only some lanes; the others rate what was there before.
            rated = rate_fast(rows, k_factors, n_entrants, initial_rating)[:, :n_rows]
        ratings[:, start : start + n_rows] = rated
    return ratings


def summarise_elo(traces: EloTraces, *, confidence: float) -> tuple[EloResult, ...]:
    """Return every entrant's mean rating with its order noise, in the order of the columns.

    Args:
        traces: The ratings of single orderings.
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
            EloResult(
                entrant=entrant,
                mean=float(samples.mean()),
                sem=float(samples.std(ddof=1)) / math.sqrt(n_permutations) if has_spread else None,
                order_low=float(interval.low[column]) if has_spread else None,
                order_high=float(interval.high[column]) if has_spread else None,
                n_matches=n_matches,
            )
        )
    return tuple(results)
