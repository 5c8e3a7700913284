"""Elo over many orderings at once, as compiled loops.

An update must wait for the previous one in its ordering, and its power and division dominate the
time. So the kernel advances many orderings (lanes) by one match each before it goes on: the
processor works on one while another waits. A match is one number, see `pack`, so that an ordering
is one array to shuffle.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compilation import compiled

LANES = 16
"""Orderings that advance together: enough to keep the processor busy, few enough for the cache."""

_ENTRANT_BITS, _SHARE_BITS = 16, 31
_ENTRANT, _SHARE = 2**_ENTRANT_BITS - 1, 2**_SHARE_BITS - 1


def pack(
    ahead: NDArray[np.int64], behind: NDArray[np.int64], share_codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Code matches as one number each, shape (n_matches,).

    Args:
        ahead: Who won, or has the larger share of the win; of at most 65,536 entrants.
        behind: The other one.
        share_codes: The place of the first one's share among all different shares.
    """
    return ((ahead << _ENTRANT_BITS | behind) << _SHARE_BITS) | share_codes


@compiled
def rate_exactly(
    orderings: NDArray[np.int64],
    shares: NDArray[np.float64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate with the textbook's arithmetic, operation for operation.

    Args:
        orderings: Packed matches, shape (n_orderings, n_matches).
        shares: Of a win, by their codes; only 1 if all matches were won outright.
        k_factors: In Elo points, shape (n_k_factors,).
        n_entrants: How many columns the ratings have.
        initial_rating: In Elo points.
        base: Always 10. As an argument the compiler cannot turn base ** x into exp10(x), which
            rounds differently from the pow() of Python.

    Returns:
        Shape (n_k_factors, n_orderings, n_entrants).
    """
    n_lanes, n_matches = orderings.shape
    ratings = np.full((k_factors.size, n_lanes, n_entrants), initial_rating)
    for step in range(n_matches):
        for lane in range(n_lanes):
            match = orderings[lane, step]
            ahead = match >> (_ENTRANT_BITS + _SHARE_BITS)
            behind = (match >> _SHARE_BITS) & _ENTRANT
            share = shares[match & _SHARE]
            for index in range(k_factors.size):
                gap = ratings[index, lane, behind] - ratings[index, lane, ahead]
                expected = 1.0 / (1.0 + base ** (gap / 400.0))
                change = k_factors[index] * (share - expected)
                ratings[index, lane, ahead] += change
                ratings[index, lane, behind] -= change
    return ratings


def rate_few(
    orderings: NDArray[np.int64],
    shares: NDArray[np.float64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate as `rate_exactly`, bit for bit, without numba: sooner than that is loaded, for few.

    Plain floats: numpy takes longer for one match than Python does, and its power of an array
    rounds as the processor likes.
    """
    ratings = np.empty((k_factors.size, len(orderings), n_entrants))
    columns = (
        orderings >> (_ENTRANT_BITS + _SHARE_BITS),
        (orderings >> _SHARE_BITS) & _ENTRANT,
        shares[orderings & _SHARE],
    )
    for lane, matches in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        for index, k_factor in enumerate(k_factors.tolist()):
            rated = [initial_rating] * n_entrants
            for ahead, behind, share in zip(*matches, strict=True):
                exponent = (rated[behind] - rated[ahead]) / 400.0
                power = math.pow(base, exponent) if exponent < _LARGEST_EXPONENT else math.inf
                change = k_factor * (share - 1.0 / (1.0 + power))
                rated[ahead] += change
                rated[behind] -= change
            ratings[index, lane] = rated
    return ratings


_LARGEST_EXPONENT = math.log10(sys.float_info.max)
"""From here on a power of 10 is infinite."""
