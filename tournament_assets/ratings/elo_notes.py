"""What an Elo rating of thin or divided matches does not say.

Elo always gives a number: to an entrant that only won, to one that never met the others, to one
that never played. The number is then not what it looks like, and these notes say so.
"""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import DecisiveMatches

NO_MATCH = "no decisive match: the rating is where everyone starts"
APART = (
    "no chain of decisive matches connects it to the largest group: it compares only within its own"
)
DIVIDED = "the decisive matches fall into separate groups: it compares only within its own"
WON_ALL = "won every decisive match: the rating grows with their number and is no bound"
LOST_ALL = "lost every decisive match: the rating falls with their number and is no bound"


def elo_notes(matches: DecisiveMatches) -> tuple[str | None, ...]:
    """Say of every entrant why its Elo rating is not to be read like the others'.

    Args:
        matches: Who beat whom.

    Returns:
        One note per entrant, in the order of the tables; None for an ordinary rating.
    """
    n = len(matches.entrants)
    won = np.bincount(matches.winners, minlength=n)
    lost = np.bincount(matches.losers, minlength=n)
    islands = island_notes(matches.winners, matches.losers, n)
    notes: list[str | None] = []
    for entrant in range(n):
        if islands[entrant] is not None:
            notes.append(islands[entrant])
        elif not lost[entrant]:
            notes.append(WON_ALL)
        else:
            notes.append(None if won[entrant] else LOST_ALL)
    return tuple(notes)


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
