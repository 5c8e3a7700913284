"""Which Elo ratings the matches determine, and why the others have no number.

Elo always gives a number: to an entrant that only won, to one that never met the others, to one
that never played. Whoever won everything rises with every further match, so the number counts
matches; and numbers of groups that never met share no scale. As for Bradley-Terry, ratings exist
among entrants that chains of wins lead to and from; Elo does not count ties.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.connectivity import chains_of_wins, find_standing
from tournament_assets.ratings.matches import DecisiveMatches

NO_MATCH = "no decisive match"
APART = "no chain of decisive matches connects it to the largest group"
DIVIDED = "the decisive matches fall into separate groups of the same size"
WON_ALL = "won every decisive match: no upper bound"
LOST_ALL = "lost every decisive match: no lower bound"
ABOVE = "never lost to the rated entrants, directly or through others: no upper bound"
BELOW = "never beat the rated entrants, directly or through others: no lower bound"
NOT_BOTH = "it is in no largest group of entrants that have both beaten and lost to one another"


@dataclass(frozen=True, slots=True, eq=False)
class EloStanding:
    """What matches say of Elo ratings before any is computed.

    Attributes:
        notes: Why an entrant has no rating; None where it has one.
        is_placed: Whether an entrant has a place among the others, shape (n_entrants,): it belongs
            to the largest group that matches connect.
        n_above: How many entrants chains of wins lead from to it and none back, shape
            (n_entrants,); whoever is rated shares this number with the other rated ones.
    """

    notes: tuple[str | None, ...]
    is_placed: NDArray[np.bool_]
    n_above: NDArray[np.int64]


def elo_standing(
    winners: NDArray[np.int64], losers: NDArray[np.int64], n_entrants: int
) -> EloStanding:
    """Tell which Elo ratings the matches determine.

    Args:
        winners: Who won each decisive match, shape (n_matches,).
        losers: Who lost it, shape (n_matches,).
        n_entrants: How many entrants there are.
    """
    wins = np.zeros((n_entrants, n_entrants))
    wins[winners, losers] = 1.0
    standing = find_standing(wins)
    islands = island_notes(winners, losers, n_entrants)
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
        else:
            notes.append(BELOW if standing.unbounded_below[entrant] else NOT_BOTH)
    reaches = chains_of_wins(wins)
    return EloStanding(
        notes=tuple(notes),
        is_placed=np.array([island is None for island in islands], dtype=np.bool_),
        n_above=(reaches & ~reaches.T).sum(axis=0),
    )


def elo_notes(matches: DecisiveMatches) -> tuple[str | None, ...]:
    """Say of every entrant why it has no Elo rating, or None, in the order of the tables."""
    return elo_standing(matches.winners, matches.losers, len(matches.entrants)).notes


def island_notes(
    first: NDArray[np.int64], second: NDArray[np.int64], n_entrants: int
) -> tuple[str | None, ...]:
    """Say of every entrant whether matches connect it, through others, to the largest group.

    Args:
        first: One side of each match, shape (n_matches,).
        second: The other side, shape (n_matches,).
        n_entrants: How many entrants there are.

    Returns:
        One note per entrant; None for the members of the largest group.
    """
    met = np.zeros((n_entrants, n_entrants), dtype=np.bool_)
    met[first, second] = met[second, first] = True
    island = np.full(n_entrants, -1)
    for entrant in range(n_entrants):
        if island[entrant] >= 0 or not met[entrant].any():
            continue
        reached = np.zeros(n_entrants, dtype=np.bool_)
        reached[entrant] = True
        while True:
            further = reached | met[reached].any(axis=0)
            if np.array_equal(further, reached):
                break
            reached = further
        island[reached] = entrant
    sizes = np.bincount(island[island >= 0], minlength=max(n_entrants, 1))
    largest = np.flatnonzero(sizes == sizes.max()) if sizes.any() else np.array([], dtype=np.int64)
    notes: list[str | None] = []
    for entrant in range(n_entrants):
        if island[entrant] < 0:
            notes.append(NO_MATCH)
        elif largest.size > 1:
            notes.append(DIVIDED)
        else:
            notes.append(None if island[entrant] == largest[0] else APART)
    return tuple(notes)
