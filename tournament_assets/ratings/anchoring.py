"""Ratings moved so that one model stands where it is known to stand.

The Elo scale has differences and no zero: 400 points are odds of 10 to 1, whatever is added to
everyone. Ratings of two tournaments can be read side by side only once a model that took part in
both is put at the same place.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.tournament.errors import InputError, Problems


def elo_from_strength(log_strength: float) -> float:
    """Return Elo points, 400 log10 of the strength, from the natural logarithm of the strength."""
    return ELO_PER_NAT * log_strength


def expected_share(difference: float) -> float:
    """Return the share of wins, ties as halves, expected of a lead of so many Elo points."""
    return 1.0 / (1.0 + math.exp(-difference / ELO_PER_NAT))


def anchor_shift(
    entrants: Sequence[str], ratings: Sequence[float | None], *, model: str, rating: float
) -> float:
    """Return what to add to every rating and every bound so that a model has a given rating.

    One number moves the table: differences, intervals' widths and ranks stay as they are. The
    interval of the model itself moves too. It says how far the model is known relative to
    the others, and the anchor removes none of that.

    Args:
        entrants: Everyone in the table.
        ratings: Their ratings in Elo points, None where there is none.
        model: Who is to have the given rating.
        rating: The rating in Elo points.

    Raises:
        InputError: If the model is not in the table or has no rating there, or the rating is not
            a finite number.
    """
    problems = Problems()
    if not math.isfinite(rating):
        problems.add(f"the anchor's rating is {rating!r}; expected a finite number of Elo points")
    known = dict(zip(entrants, ratings, strict=True))
    found = known.get(model)
    if model not in known:
        names = ", ".join(map(repr, known)) or "nobody"
        problems.add(f"the anchor is {model!r}; expected one of {names}")
    elif found is None or not math.isfinite(found):
        problems.add(
            f"the anchor {model!r} has no rating; expected an entrant that the battles rate"
        )
    problems.raise_if_any()
    return rating - float(found if found is not None else math.nan)


def anchor_samples(
    samples: NDArray[np.float64], *, column: int, rating: float
) -> NDArray[np.float64]:
    """Shift every resample so that one entrant has a given rating in all of them.

    Intervals of the result say how well an entrant is known *relative to the anchor*, whose own
    interval has no width. Use it to place a model into an arena whose ratings are taken as given.

    Args:
        samples: Ratings of resamples in Elo points, shape (n_samples, n_entrants).
        column: The anchor's column.
        rating: The anchor's rating in Elo points.

    Returns:
        Same shape; NaN throughout a resample that does not rate the anchor.

    Raises:
        InputError: If there is no such column.
    """
    if not 0 <= column < samples.shape[1]:
        raise InputError(f"the anchor is column {column!r}; expected one of {samples.shape[1]}")
    anchor = samples[:, column, None]
    shift = np.where(np.isfinite(anchor), rating - anchor, np.nan)
    moved: NDArray[np.float64] = samples + shift
    return moved
