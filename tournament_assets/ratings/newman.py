"""Newman's fast iteration for strengths and a tie parameter.

Chances of a win, a loss and a tie between strengths p and q stand in the proportions p : q : 2 v
sqrt(p q). That is Davidson's model with twice the letter, so both must give the same ratings; an
iteration and Newton's method that agree check each other. Source: Newman, "Efficient computation of
rankings from pairwise comparisons", https://www.jmlr.org/papers/v24/22-1086.html.
"""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.davidson import TieModelFit, describe, rated_group
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.tournament.errors import RatingError

_MAX_ROUNDS = 100_000
_TOLERANCE = 1e-11


def fit_newman(preferences: Preferences, *, initial_rating: float = 1400.0) -> TieModelFit:
    """Rate the entrants that the battles connect by Newman's iteration.

    Newman also offers a prior that gives every entrant a rating. It is not used here: a rating that
    the battles do not determine is absent, as in the other models.

    Args:
        preferences: Wins, losses and ties.
        initial_rating: What the ratings average to, in Elo points.

    Returns:
        The fit, with the tie parameter as Davidson writes it: twice Newman's.

    Raises:
        InputError: If a preference is not 0, 1/2 or 1.
        RatingError: If the iteration does not settle.
    """
    group = rated_group(preferences, model="Newman's model")
    if group.reason is not None:
        return describe(group, None, group.tie_parameter, initial_rating=initial_rating)
    strengths, tie_parameter = iterate(group.wins, group.ties)
    return describe(group, strengths, 2 * tie_parameter, initial_rating=initial_rating)


def iterate(
    wins: NDArray[np.float64], ties: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Iterate until no strength changes by more than one part in 10^11.

    Args:
        wins: Outright wins of the row's entrant over the column's, shape (n, n).
        ties: Ties, shape (n, n), symmetric.

    Returns:
        Natural logarithms of the strengths, averaging to 0, and Newman's tie parameter.

    Raises:
        RatingError: If the iteration does not settle.
    """
    scored, conceded = wins + ties / 2, wins.T + ties / 2
    strengths = np.ones(wins.shape[0])
    tie_parameter = 0.5 if ties.any() else 0.0
    for _ in range(_MAX_ROUNDS):
        before, tie_before = strengths.copy(), tie_parameter
        # One after the other, each seeing those before it: all at once, two entrants would trade
        # places for ever.
        for index in range(strengths.size):
            own = strengths[index]
            between = np.sqrt(own * strengths)
            scale = own + strengths + 2 * tie_parameter * between
            gained = scored[index] @ ((strengths + tie_parameter * between) / scale)
            lost = conceded[index] @ ((1 + tie_parameter * between / own) / scale)
            strengths[index] = gained / lost
        strengths /= np.exp(np.log(strengths).mean())
        both = strengths[:, None] + strengths[None, :]
        between = np.sqrt(np.outer(strengths, strengths))
        scale = both + 2 * tie_parameter * between
        tie_parameter = float((ties * both / scale).sum() / 4 / (wins * between / scale).sum())
        change = np.abs(np.log(strengths / before)).max()
        if max(change, abs(tie_parameter - tie_before) / (1 + tie_parameter)) < _TOLERANCE:
            return np.log(strengths), tie_parameter
    raise RatingError(
        f"Newman's iteration still changes the strengths after {_MAX_ROUNDS} rounds; "
        "use Davidson's model, which has the same maximum"
    )
