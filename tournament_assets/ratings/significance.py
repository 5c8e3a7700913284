"""Which entrants are significantly above which: places and groups.

Two entrants judged on the same prompts share the prompts' luck, so the difference of their ratings
is known more precisely than either rating: their intervals may overlap although one is clearly
better. Everything here therefore uses differences within resamples.

The intervals of all differences are simultaneous: ten entrants have 45 differences, and of 45
separate 95 % intervals about two would miss. Each difference is divided by its spread over the
resamples, and the largest over all pairs of one resample says how far the worst of them strays: the
simultaneous intervals of Tukey's method with the resamples in place of his distribution; Romano and
Wolf, "Exact and approximate stepdown methods for multiple hypothesis testing",
https://doi.org/10.1198/016214504000000539, of which this is the first step, the one that yields
intervals. Places that follow from such intervals are simultaneous, too: Mogstad, Romano, Shaikh and
Wilhelm, "Inference for ranks", https://doi.org/10.1093/restud/rdad006. Source of the groups:
Piepho, "An algorithm for a letter-based representation of all-pairwise comparisons",
https://doi.org/10.1198/1061860043515.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.intervals import (
    BootstrapRatings,
    PercentileInterval,
    can_tell,
    student_quantile,
)
from tournament_assets.ratings.matches import require_confidence

_SMALL = 1e-6
"""Elo points. Fits stop within a small part of this, so smaller differences count as 0."""


@dataclass(frozen=True, slots=True)
class RankedEntrant:
    """The range of places that an entrant may have, 1 being first, and its groups.

    Attributes:
        best: One more than the number of entrants shown to be above it.
        worst: The number of ranked entrants less those shown to be below it.
        shown_above: Whom it is shown to be above, in the order of the tables.
        letters: One for each of its groups: `a` for the first, separated by spaces.
    """

    entrant: str
    best: int
    worst: int
    shown_above: tuple[str, ...]
    letters: str


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedEntrants:
    """Which entrants are separated; all statements hold together at the chosen confidence.

    Attributes:
        differences: The row's rating less the column's, shape (n, n) each.
        is_above: Whether the row's entrant is shown to be above the column's: the interval of
            the difference lies above 0, or enough prompts were resampled and the difference was
            the same above 0 every time. Shape (n, n).
        ranks: Best rating first; without entrants that have no rating, or whose rating more than
            half of the resamples leave unknown.
        groups: Largest sets of entrants no two of which are separated; an entrant may be in
            several. Best first, each in the order of `ranks`.
    """

    differences: PercentileInterval
    is_above: NDArray[np.bool_]
    ranks: tuple[RankedEntrant, ...]
    groups: tuple[tuple[str, ...], ...]


def separate_entrants(
    bootstrap: BootstrapRatings, *, ratings: Sequence[float | None], confidence: float
) -> SeparatedEntrants:
    """Find which entrants the resamples separate, all pairs together.

    Where prompts that all agree would not be rare among so many pairs, nobody is separated: at 95 %
    that is up to 5 prompts for two entrants, 7 for four and 10 for ten.

    Args:
        bootstrap: Ratings, or any other scores, of resamples. Non-finite ones say nothing; a pair
            with more than a share of (1 - confidence) / 2 of them is not separated.
        ratings: Ratings by which entrants are ordered, in the order of the columns; None for
            unranked ones.
        confidence: Probability with which all statements hold together.

    Raises:
        InputError: If `confidence` is not between 0 and 1, or there is not one rating per column.
    """
    entrants = bootstrap.entrants
    n = len(entrants)
    if len(ratings) != n:
        raise InputError(f"there are {len(ratings)} ratings; expected one for each of {n} entrants")
    has_rating = np.array([rating is not None for rating in ratings], dtype=np.bool_)
    is_ranked = has_rating & (np.isnan(bootstrap.ratings).mean(axis=0) <= 0.5)
    differences, is_above = joint_differences(bootstrap, is_ranked, confidence=confidence)
    return arrange(entrants, differences, is_above, ratings=ratings, is_ranked=is_ranked)


def joint_differences(
    bootstrap: BootstrapRatings, is_compared: NDArray[np.bool_], *, confidence: float
) -> tuple[PercentileInterval, NDArray[np.bool_]]:
    """Return the simultaneous intervals of all differences, and who is shown to be above whom.

    Args:
        is_compared: The entrants whose differences are asked about, shape (n,).
        confidence: Probability with which all statements hold together.

    Returns:
        The row's rating less the column's, shape (n, n), infinite where nothing is known; and
        whether the row's entrant is above the column's, shape (n, n).

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    require_confidence(confidence)
    samples, n = bootstrap.ratings, len(bootstrap.entrants)
    low, high = np.full((n, n), -np.inf), np.full((n, n), np.inf)
    is_above = np.zeros((n, n), dtype=np.bool_)
    first, second = (
        np.flatnonzero(is_compared)[side] for side in np.triu_indices(is_compared.sum(), 1)
    )
    if first.size and can_tell(confidence, n_units=bootstrap.n_prompts, n_pairs=first.size):
        band, agreed = _simultaneous(
            samples, first, second, n_units=bootstrap.n_prompts, confidence=confidence
        )
        low[first, second], high[first, second] = band.low, band.high
        low[second, first], high[second, first] = -band.high, -band.low
        is_above[first, second] = (band.low > 0) | (agreed > 0)
        is_above[second, first] = (band.high < 0) | (agreed < 0)
    return PercentileInterval(low, high), is_above


def arrange(
    entrants: tuple[str, ...],
    differences: PercentileInterval,
    is_above: NDArray[np.bool_],
    *,
    ratings: Sequence[float | None],
    is_ranked: NDArray[np.bool_],
) -> SeparatedEntrants:
    """Return the places and groups that follow from who is above whom."""
    ordered = sorted(np.flatnonzero(is_ranked).tolist(), key=lambda index: -(ratings[index] or 0.0))
    place = {index: rank for rank, index in enumerate(ordered)}
    alike = {
        index: {
            other
            for other in ordered
            if other != index and not is_above[index, other] and not is_above[other, index]
        }
        for index in ordered
    }
    groups = sorted(sorted(place[index] for index in group) for group in _cliques(alike))
    return SeparatedEntrants(
        differences=differences,
        is_above=is_above,
        ranks=tuple(
            RankedEntrant(
                entrant=entrants[index],
                best=1 + int(is_above[:, index].sum()),
                worst=len(ordered) - int(is_above[index].sum()),
                shown_above=tuple(entrants[below] for below in np.flatnonzero(is_above[index])),
                letters=" ".join(
                    _letter(number) for number, group in enumerate(groups) if place[index] in group
                ),
            )
            for index in ordered
        ),
        groups=tuple(tuple(entrants[ordered[rank]] for rank in group) for group in groups),
    )


def _letter(index: int) -> str:
    return ascii_lowercase[index] if index < len(ascii_lowercase) else str(index + 1)


_PAIRS_AT_ONCE = 1_024


def _simultaneous(
    ratings: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    *,
    n_units: int,
    confidence: float,
) -> tuple[PercentileInterval, NDArray[np.float64]]:
    """Return intervals of the differences of pairs of columns, from the largest |t| of each sample.

    They hold together and are infinite where there are none; with them, the difference on every
    resample where that is one and the same, and more than a rounding, otherwise 0, shape
    (n_pairs,).

    The quantile is widened from the normal distribution to Student's t, and the spread by
    sqrt(n / (n - 1)), as `expanded_percentile_interval` does for one rating.
    """
    n_samples, n_pairs = len(ratings), first.size
    middle, spread, agreed = np.zeros(n_pairs), np.zeros(n_pairs), np.zeros(n_pairs)
    largest = np.zeros(n_samples)
    # The differences of all pairs of 250 entrants would take a quarter of a gigabyte.
    for start in range(0, n_pairs, _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        values = _differences(ratings[:, first[part]], ratings[:, second[part]])
        is_finite = np.isfinite(values)
        columns = np.arange(start, start + values.shape[1])
        if not is_finite.all():
            tells = (~is_finite).mean(axis=0) <= (1 - confidence) / 2
            values, columns = np.where(is_finite, values, np.nan)[:, tells], columns[tells]
        # NumPy's median that skips NaN is many times slower.
        has_gaps = bool(np.isnan(values).any())
        centre = np.nanmedian(values, axis=0) if has_gaps else np.median(values, axis=0)
        width = np.nanstd(values, axis=0)
        # Solving the same battles twice may differ in the last digits, and that is no spread.
        spreads = width > 1e-9 * np.maximum(1.0, np.abs(centre))
        agreed[columns] = np.where(spreads | (np.abs(centre) <= _SMALL), 0.0, centre)
        columns, centre, width = columns[spreads], centre[spreads], width[spreads]
        middle[columns], spread[columns] = centre, width
        strayed = np.abs(values[:, spreads] - centre) / width
        largest = np.fmax(largest, np.fmax.reduce(strayed, axis=1, initial=0.0))
    low, high = np.full(n_pairs, -np.inf), np.full(n_pairs, np.inf)
    rank, spreads = math.ceil(confidence * (n_samples + 1)), spread > 0
    if spreads.any() and rank <= n_samples:
        tail = math.erfc(np.sort(largest)[rank - 1] / math.sqrt(2)) / 2
        quantile = student_quantile(tail, n_units - 1)
        reach = quantile * math.sqrt(n_units / (n_units - 1)) * spread
        low[spreads], high[spreads] = (middle - reach)[spreads], (middle + reach)[spreads]
    return PercentileInterval(low, high), agreed


def _differences(ratings: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    # Infinite on the same side is unknown, as inf - inf is NaN.
    with np.errstate(invalid="ignore"):
        return ratings - others


def _cliques(alike: dict[int, set[int]]) -> list[set[int]]:
    # Bron and Kerbosch with a pivot, https://doi.org/10.1145/362342.362367.
    groups: list[set[int]] = []
    open_cases = [(set[int](), set(alike), set[int]())]
    while open_cases:
        group, candidates, done = open_cases.pop()
        if not candidates and not done:
            if group:
                groups.append(group)
            continue
        pivot = max(candidates | done, key=lambda index: len(candidates & alike[index]))
        for index in sorted(candidates - alike[pivot]):
            open_cases.append((group | {index}, candidates & alike[index], done & alike[index]))
            candidates = candidates - {index}
            done = done | {index}
    return groups
