"""Elo ratings over many orderings, as `elo` computes them and tables store them.

Nothing here is compiled, so that tables and files of ratings load without numba.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class EloTraces:
    """Every entrant's rating after each of many orderings of the same matches.

    Attributes:
        entrants: The columns.
        ratings: Elo points, shape (n_permutations, n_entrants). Every row sums to n_entrants *
            initial_rating. An entrant without a match keeps the initial rating.
        matches_per_entrant: Decisive matches each entrant fought, shape (n_entrants,).
        k_factor: The most one match could change a rating by, in Elo points.
        initial_rating: Everyone's rating before the first match, in Elo points.
    """

    entrants: tuple[str, ...]
    ratings: NDArray[np.float64]
    matches_per_entrant: NDArray[np.int64]
    k_factor: float
    seed: int
    initial_rating: float

    @property
    def n_matches(self) -> int:
        """How many decisive matches were rated; with none, the ratings say nothing."""
        return int(self.matches_per_entrant.sum()) // 2
