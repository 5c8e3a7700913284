"""Who is above whom: shares of resamples, intervals of ranks, and groups that are not separated.

Two entrants judged on the same prompts share the prompts' luck, so the difference of their ratings
is known better than either rating: their intervals may overlap although one is surely better.
Everything here therefore looks at differences within resamples. Source of the groups: Piepho, "An
algorithm for a letter-based representation of all-pairwise comparisons",
https://doi.org/10.1198/1061860043515.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.corrected_intervals import can_tell, expanded_confidence
from tournament_assets.ratings.intervals import BootstrapRatings, percentile_interval
from tournament_assets.ratings.options import require_confidence
from tournament_assets.tournament.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseOrder:
    """How often each entrant stood above each other one when prompts were drawn anew.

    A share of resamples, not a probability that one is better: 97.5 % and more on both
    sides of an interval is what a 95 % interval of the difference that excludes 0 looks like.

    Attributes:
        entrants: Rows and columns.
        above: Share of the resamples in which the row's entrant rated above the column's, equal
            ratings as halves, shape (n, n); NaN where no resample says, and for an entrant
            against itself.
        n_undetermined: Resamples that do not say which of the two is above, shape (n, n); they are
            in no share.
    """

    entrants: tuple[str, ...]
    above: NDArray[np.float64]
    n_undetermined: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankInterval:
    """The places that an entrant may have.

    Attributes:
        entrant: Who is ranked.
        best: One more than the number of entrants shown to be above it; 1 is first.
        worst: The number of ranked entrants less those shown to be below it.
    """

    entrant: str
    best: int
    worst: int


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedEntrants:
    """Which entrants are told apart, two by two.

    Attributes:
        entrants: Rows and columns.
        is_above: Whether the row's entrant is shown to be above the column's: the interval of
            the difference lies above 0. Shape (n, n).
        ranks: Best rating first; without the unranked.
        groups: Largest sets of entrants of whom no two are told apart; an entrant may be in
            several. Best first, each in the order of `ranks`.
        unranked: Entrants without a rating, or whose rating more than half of the resamples
            leave unknown.
    """

    entrants: tuple[str, ...]
    is_above: NDArray[np.bool_]
    ranks: tuple[RankInterval, ...]
    groups: tuple[tuple[str, ...], ...]
    unranked: tuple[str, ...]


def pairwise_order(bootstrap: BootstrapRatings) -> PairwiseOrder:
    """Count how often each entrant rated above each other one.

    Args:
        bootstrap: Ratings of resamples. Infinite ratings are above, or below, all finite ones;
            two of the same sign, unknown ones, and resamples of a single prompt say nothing.
    """
    ratings = bootstrap.ratings
    n = len(bootstrap.entrants)
    above = np.full((n, n), np.nan)
    undetermined = np.zeros((n, n), dtype=np.int64)
    for row in range(n):
        for column in range(row):
            difference = _differences(ratings[:, row], ratings[:, column])
            if bootstrap.n_prompts < 2:
                difference = np.full(difference.size, np.nan)
            known = difference[~np.isnan(difference)]
            missing = difference.size - known.size
            undetermined[row, column] = undetermined[column, row] = missing
            if known.size:
                share = float((known > 0).mean() + (known == 0).mean() / 2)
                above[row, column], above[column, row] = share, 1 - share
    return PairwiseOrder(bootstrap.entrants, above, undetermined)


def separate_entrants(
    bootstrap: BootstrapRatings, *, ratings: Sequence[float | None], confidence: float
) -> SeparatedEntrants:
    """Tell which entrants the resamples hold apart.

    With so few prompts that even all of them favouring one entrant would be no rarity (5 and fewer
    at 95 %), nobody is told apart.

    Each pair is decided for itself. Among 10 entrants there are 45 pairs, so at 95 % one or two of
    them may be told apart by chance where all are alike.

    Args:
        bootstrap: Ratings of resamples of the prompts.
        ratings: Ratings on all prompts, in the order of the columns; None where there is none.
        confidence: Coverage of the interval of each difference.

    Raises:
        InputError: If `confidence` is not between 0 and 1, or there is not one rating per column.
    """
    require_confidence(confidence)
    samples, entrants = bootstrap.ratings, bootstrap.entrants
    n = len(entrants)
    if len(ratings) != n:
        raise InputError(f"there are {len(ratings)} ratings; expected one for each of {n} entrants")
    has_rating = np.array([rating is not None for rating in ratings], dtype=np.bool_)
    is_ranked = has_rating & (np.isnan(samples).mean(axis=0) <= 0.5)
    is_above = np.zeros((n, n), dtype=np.bool_)
    tells = can_tell(confidence, n_units=bootstrap.n_prompts)
    held = expanded_confidence(confidence, n_units=bootstrap.n_prompts) if tells else confidence
    for row in np.flatnonzero(is_ranked & tells):
        differences = np.stack(
            [_differences(samples[:, row], samples[:, column]) for column in range(n)], axis=1
        )
        interval = percentile_interval(differences, confidence=held)
        is_above[row] = (interval.low > 0) & is_ranked
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
        entrants=entrants,
        is_above=is_above,
        ranks=tuple(
            RankInterval(
                entrant=entrants[index],
                best=1 + int(is_above[:, index].sum()),
                worst=len(ordered) - int(is_above[index].sum()),
            )
            for index in ordered
        ),
        groups=tuple(tuple(entrants[ordered[rank]] for rank in group) for group in groups),
        unranked=tuple(entrants[index] for index in np.flatnonzero(~is_ranked)),
    )


def _differences(ratings: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    # Infinite on the same side is unknown, as inf - inf is NaN.
    with np.errstate(invalid="ignore"):
        return ratings - others


def _cliques(alike: dict[int, set[int]]) -> list[set[int]]:
    # Bron and Kerbosch with a pivot, https://doi.org/10.1145/362342.362367.
    found: list[set[int]] = []
    open_cases = [(set[int](), set(alike), set[int]())]
    while open_cases:
        group, candidates, done = open_cases.pop()
        if not candidates and not done:
            if group:
                found.append(group)
            continue
        pivot = max(candidates | done, key=lambda index: len(candidates & alike[index]))
        for index in sorted(candidates - alike[pivot]):
            open_cases.append((group | {index}, candidates & alike[index], done & alike[index]))
            candidates = candidates - {index}
            done = done | {index}
    return found
