"""Whether wins connect the entrants well enough to rate them against each other.

A maximum-likelihood rating exists exactly when a chain of wins leads from every entrant to every
other one: Ford, "Solution of a ranking problem from binary comparisons",
https://doi.org/10.1080/00029890.1957.11989117.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Which entrants can be rated against each other, and where the others stand.

    All arrays have shape (n_entrants,). An entrant that is in none of them is undetermined.

    Attributes:
        rated: The largest group in which a chain of wins leads from everyone to everyone; empty
            if no two entrants make one, or if there are several of the same size.
        unbounded_above: Those that never lost to the rated group, directly or through others.
            Without a rated group: those that won every match.
        unbounded_below: Those that never won against it. Without one: those that lost every match.
    """

    rated: NDArray[np.bool_]
    unbounded_above: NDArray[np.bool_]
    unbounded_below: NDArray[np.bool_]


def are_strongly_connected(wins: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say of each table of wins whether chains of wins connect everyone in both directions.

    Args:
        wins: How often the row's entrant beat the column's, shape (n_tables, n, n).

    Returns:
        Shape (n_tables,).
    """
    beats = (wins > 0).astype(np.float32)
    return _all_reached(beats) & _all_reached(beats.transpose(0, 2, 1))


def _all_reached(beats: NDArray[np.float32]) -> NDArray[np.bool_]:
    n_tables, n_entrants, _ = beats.shape
    reached = np.zeros((n_tables, 1, n_entrants), dtype=np.float32)
    reached[:, :, :1] = 1
    for _ in range(n_entrants - 1):
        further = ((reached + reached @ beats) > 0).astype(np.float32)
        if np.array_equal(further, reached):
            break
        reached = further
    return np.asarray((reached > 0).all(axis=(1, 2)))


def find_standing(wins: NDArray[np.float64]) -> Standing:
    """Find the entrants that can be rated against each other, and where the others stand.

    Args:
        wins: How often the row's entrant beat the column's, shape (n_entrants, n_entrants).
    """
    reaches = chains_of_wins(wins)
    connected = reaches & reaches.T
    sizes = connected.sum(axis=1)
    size = sizes.max(initial=0)
    rated = sizes == size
    if size >= 2 and rated.sum() == size:
        member = int(np.argmax(rated))
        return Standing(
            rated=rated,
            unbounded_above=reaches[:, member] & ~rated,
            unbounded_below=reaches[member, :] & ~rated,
        )
    won, lost = wins.sum(axis=1) > 0, wins.sum(axis=0) > 0
    return Standing(
        rated=np.zeros_like(rated), unbounded_above=won & ~lost, unbounded_below=lost & ~won
    )


def chains_of_wins(wins: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say whether wins lead from the row's entrant to the column's, through others or directly.

    Args:
        wins: How often the row's entrant beat the column's, shape (n_entrants, n_entrants).
    """
    # Squaring doubles the length of the chains found, so few rounds reach everyone.
    reaches = (wins > 0) | np.eye(wins.shape[0], dtype=np.bool_)
    while True:
        steps = reaches.astype(np.float32)
        longer = (steps @ steps) > 0
        if np.array_equal(longer, reaches):
            return reaches
        reaches = longer
