"""A rating by wins alone."""

import numpy as np

from tournament_assets.extension import Evidence, Rating, RatingMethod, RatingRow, rows_of_ratings


def _wins(evidence: Evidence) -> list[RatingRow]:
    matches = evidence.by_sample
    won = np.bincount(matches.first, matches.preference, len(matches.entrants))
    won += np.bincount(matches.second, 1 - matches.preference, len(matches.entrants))
    pairs = zip(matches.entrants, won.tolist(), strict=True)
    return rows_of_ratings([Rating(float(n), entrant=name) for name, n in pairs], "wins")


ROWS = (RatingMethod("wins", "Wins", "pairs won", _wins, counts="counts a tie as half a win"),)
