"""The order of the entrants and what is claimed of every two of them, from one quantity.

That quantity is the Bradley-Terry rating on the shares of the judged pairs, ties as halves, with
whole prompts resampled. It orders the entrants, and the joint intervals of its differences decide
what is claimed: one of two is *better* if the interval of their difference excludes 0, the two are
*equivalent* if it lies within a margin that does not matter, and otherwise they are *undecided*.
The claims of a dimension hold together at the chosen confidence, and none contradicts the order.

Where judging stopped early, its own decisions take the place of the intervals, which ignore when a
pair stopped. A decision is about its two entrants and nobody else: two that are undecided stay so,
whoever stands between them. The order follows the decisions, so it may differ from the ratings.

An entrant's best place is one more than the number of those that are better than it, its worst the
number of entrants less those that it is better than. Nobody in a circle of decisions is first.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.estimates import Estimate, Rating
from tournament_assets.ratings.bradley_terry import (
    ELO_PER_NAT,
    ResampledWins,
    chains_of_wins,
    find_groups,
    find_standing,
    log_strengths,
    rate_resamples,
    rate_wins,
)
from tournament_assets.ratings.intervals import PercentileInterval, sampling_intervals
from tournament_assets.ratings.significance import (
    SeparatedEntrants,
    arrange,
    joint_differences,
)

_DECIMALS = 1
"""Decimals with which ratings are shown; ratings that are then equal share a rank."""
_SMALL = 1e-6
"""Elo points. Fits stop within a small part of this, so smaller differences count as 0."""
_LEAST_GAP = 1e-4
"""Elo points. A smaller lead counts as 0; this is far above the error of a fit."""
NO_INTERVAL = "no interval was made, since judging stopped early"
"""The note on a difference that has a decision and no interval."""


class Claim(StrEnum):
    """What is known about the first of two entrants and the second."""

    FIRST_BETTER = "a_better"
    SECOND_BETTER = "b_better"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


_TURNED = {
    Claim.FIRST_BETTER: Claim.SECOND_BETTER,
    Claim.SECOND_BETTER: Claim.FIRST_BETTER,
}


@dataclass(frozen=True, slots=True)
class PairClaim:
    """What is claimed of two entrants, and the difference it rests on.

    Attributes:
        difference: The first's rating less the second's in Elo points, with its joint interval;
            without a value where one is not rated. A note says where no interval was made.
    """

    first: str
    second: str
    claim: Claim
    difference: Estimate

    @property
    def turned(self) -> "PairClaim":
        """The same of the second and the first."""
        value, low, high = (
            # Not a minus sign, which would turn 0 into -0.
            None if each is None else 0.0 - each
            for each in (self.difference.value, self.difference.high, self.difference.low)
        )
        return PairClaim(
            self.second,
            self.first,
            _TURNED.get(self.claim, self.claim),
            replace(self.difference, value=value, low=low, high=high),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing(Rating):
    """An entrant's rating, and its place among the others.

    Attributes:
        best: Best possible rank: one more than the number of entrants shown to be above it.
        worst: Worst possible rank: the number of entrants less those shown to be below it.
        shown_above: The entrants that it is better than, in the order of the tables.
    """

    best: int | None = None
    worst: int | None = None
    shown_above: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Standings:
    """All entrants of a dimension.

    Attributes:
        entrants: Everyone, in the order of the tables.
        differences: The row's rating less the column's, shape (n, n) each.
        is_better: Whether the row's entrant is better than the column's, shape (n, n).
        equivalent_within: The largest difference that does not matter, in Elo points; None if
            nobody can be equivalent.
        confidence: Of all claims together.
    """

    entrants: tuple[Standing, ...]
    differences: PercentileInterval
    is_better: NDArray[np.bool_]
    equivalent_within: float | None
    confidence: float

    @cached_property
    def claims(self) -> tuple[PairClaim, ...]:
        """Every two entrants with a rank, the first before the second in their order."""
        is_placed = [standing.rank is not None for standing in self.entrants]
        pairs = list(combinations(np.flatnonzero(is_placed).tolist(), 2))
        return tuple(
            _claim(
                (self.entrants[first], self.entrants[second]),
                self.differences.ends((first, second)),
                int(self.is_better[first, second]) - int(self.is_better[second, first]),
                within=self.equivalent_within,
            )
            for first, second in pairs
        )


def stand_entrants(
    tables: ResampledWins,
    *,
    equivalent_within: float = 20.0,
    initial_rating: float = 1400.0,
    decided: Collection[tuple[str, str]] | None = None,
) -> Standings:
    """Rate, order and compare the entrants of a dimension.

    An entrant that won everything is not rated, for no finite rating fits, and is first. Entrants
    that matches do not connect to a rated one have no rank; if nobody is rated, the largest group
    that matches connect has ranks. Equal ratings share one.

    Args:
        tables: Who beat whom, and how often in resamples of the prompts; their confidence is that
            of all claims together.
        equivalent_within: The largest difference that does not matter, in Elo points.
        initial_rating: Mean of the ratings, in Elo points.
        decided: Who was decided to be above whom while judging, where pairs stopped early; the
            claims then rest on this alone, and no two are equivalent.

    Raises:
        InputError: If the confidence is not between 0 and 1, or no resample is asked for.
    """
    tables = tables.drawn_once()
    rated = _rate(tables, initial_rating=initial_rating)
    order = _order(tables.wins, [each.value for each in rated])
    if decided is not None:
        no_end = np.full(order.above.shape, np.inf)
        differences = PercentileInterval(-no_end, no_end)
        is_better = _as_table(tables.entrants, decided) & order.is_placed[:, None]
        is_better &= order.is_placed
        ranks = _ranks_after(is_better, order)
    else:
        differences, is_separated = _compare(tables, rated, order)
        is_better, ranks = is_separated & order.above, order.ranks
    separated = arrange(
        tables.entrants,
        differences,
        is_better,
        # Within a rank, letters come in the order of the ratings, as rows do.
        ratings=(-(ranks + order.ranks / (1 + len(rated)))).tolist(),
        is_ranked=order.is_placed,
    )
    return Standings(
        _standings(rated, separated, ranks),
        differences,
        is_better,
        equivalent_within=equivalent_within if decided is None else None,
        confidence=tables.resampling.confidence,
    )


def _standings(
    rated: Sequence[Rating],
    separated: SeparatedEntrants,
    ranks: NDArray[np.int64],
) -> tuple[Standing, ...]:
    """Return everyone's rating and place; ranks have shape (n,), 0 for an entrant without one."""
    places = {rating.entrant: rating for rating in separated.ranks}
    standings = []
    for index, rating in enumerate(rated):
        standing = Standing(
            rating.value, rating.low, rating.high, rating.n, rating.note, entrant=rating.entrant
        )
        if (place := places.get(rating.entrant)) is not None:
            standing = replace(
                standing,
                rank=int(ranks[index]),
                best=place.best,
                worst=place.worst,
                shown_above=place.shown_above,
                group=place.letters,
            )
        standings.append(standing)
    return tuple(standings)


def _rate(tables: ResampledWins, *, initial_rating: float) -> tuple[Rating, ...]:
    """Return everyone's Bradley-Terry rating with its own interval."""
    bootstrap = rate_resamples(tables, initial_rating=initial_rating)
    return tuple(
        replace(rating, low=interval.low, high=interval.high, n=tables.n_prompts)
        for rating, interval in zip(
            rate_wins(tables.entrants, tables.wins, initial_rating=initial_rating),
            sampling_intervals(bootstrap, confidence=tables.resampling.confidence),
            strict=True,
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """The order by the ratings alone.

    Attributes:
        above: Whether the row's entrant stands above the column's, shape (n, n): chains of wins
            lead to it alone, or they lead both ways and it is rated higher.
        ranks: Shape (n,), 0 for an entrant without one.
        is_placed: Who has a rank, shape (n,).
    """

    above: NDArray[np.bool_]
    ranks: NDArray[np.int64]
    is_placed: NDArray[np.bool_]


def _order(wins: NDArray[np.float64], ratings: Sequence[float | None]) -> _Order:
    is_placed = _are_placed(wins, [rating is not None for rating in ratings])
    reaches = chains_of_wins(wins)
    mutual = reaches & reaches.T
    printed = np.zeros(len(ratings))
    for index, rating in enumerate(ratings):
        if rating is not None:
            printed[index] = round(rating, _DECIMALS)
        elif (group := mutual[index]).sum() > 1:
            # A smaller group has no rating among the others, but an order within.
            within_group = log_strengths(wins[np.ix_(group, group)]) * ELO_PER_NAT
            printed[index] = round(float(within_group[int(group[:index].sum())]), _DECIMALS)
    above = (reaches & ~reaches.T) | (mutual & (printed[:, None] > printed))
    above &= is_placed & is_placed[:, None]
    return _Order(above, np.where(is_placed, 1 + above.sum(axis=0), 0), is_placed)


def stands_alone(wins: NDArray[np.float64], entrant: int) -> bool:
    """Return whether an entrant is above everybody else that has a rank, by the ratings alone.

    Args:
        wins: How often the row's entrant beat the column's, shape (n, n).
        entrant: Its row.
    """
    placed = _are_placed(wins, find_standing(wins).rated.tolist())
    reaches = chains_of_wins(wins)
    group = reaches[entrant] & reaches[:, entrant]
    is_above = reaches[entrant] & ~group
    if group.sum() > 1:
        strengths = log_strengths(wins[np.ix_(group, group)]) * ELO_PER_NAT
        is_above[group] = strengths[int(group[:entrant].sum())] - strengths > _LEAST_GAP
    is_above[entrant] = True
    return bool(placed[entrant] and is_above[placed].all())


def _are_placed(wins: NDArray[np.float64], is_rated: Sequence[bool]) -> NDArray[np.bool_]:
    """Return who has a rank, shape (n,): those that met the rated, or the most that met at all."""
    n_islands, island = find_groups(wins)
    if any(is_rated):
        return np.asarray(island == island[is_rated.index(True)])
    sizes = np.bincount(island, minlength=n_islands)
    largest = np.flatnonzero(sizes == sizes.max(initial=2))
    return np.isin(island, largest if largest.size == 1 else [])


def _compare(
    tables: ResampledWins, rated: Sequence[Rating], order: _Order
) -> tuple[PercentileInterval, NDArray[np.bool_]]:
    """Return the joint intervals of the ratings' differences, and who is shown to be above whom.

    The resamples are of strengths with half a win added to each side of every two entrants that
    met, so that an undefeated entrant has a finite one. The intervals are stretched to the scale of
    the ratings, which keeps 0 where it is, and hold the difference that is shown.
    """
    # Others would hide those that have a rank, where more entrants met among themselves.
    wins = np.where(order.is_placed & order.is_placed[:, None], tables.wins, 0.0)
    added = ((wins + wins.T) > 0) / 2
    bootstrap = rate_resamples(replace(tables, wins=wins).plus(added))
    is_compared = np.isnan(bootstrap.ratings).mean(axis=0) <= 0.5
    strengths = np.full(len(rated), np.nan)
    strengths[is_compared] = (
        log_strengths((wins + added)[np.ix_(is_compared, is_compared)]) * ELO_PER_NAT
    )
    band, is_above = joint_differences(
        bootstrap, is_compared, confidence=tables.resampling.confidence
    )
    # Resamples that all agree show who is above and measure no spread.
    low = np.where(is_above, np.maximum(band.low, 0.0), band.low)
    high = np.where(is_above.T, np.minimum(band.high, 0.0), band.high)
    ratings = np.array([math.nan if each.value is None else each.value for each in rated])
    low, high = _stretched(low, high, strengths, ratings)
    is_open = np.isnan(ratings[:, None] - ratings)
    return PercentileInterval(
        low=np.where(is_open & order.above.T, -np.inf, low),
        high=np.where(is_open & order.above, np.inf, high),
    ), is_above


def _stretched(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    strengths: NDArray[np.float64],
    ratings: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return intervals of differences of strengths, shape (n, n), on the scale of the ratings.

    Half a win added pulls strengths together, by a fiftieth at 50 prompts. Where a rating is NaN
    the interval stays as it is.
    """
    fitted, gaps = strengths[:, None] - strengths, ratings[:, None] - ratings
    agrees = np.isfinite(gaps) & (np.abs(fitted) > _SMALL) & (fitted * gaps > 0)
    factor = np.maximum(1.0, np.divide(gaps, fitted, out=np.ones_like(gaps), where=agrees))
    return np.fmin(low * factor, gaps), np.fmax(high * factor, gaps)


def _as_table(entrants: Sequence[str], decided: Collection[tuple[str, str]]) -> NDArray[np.bool_]:
    place = {name: index for index, name in enumerate(entrants)}
    table = np.zeros((len(place), len(place)), dtype=np.bool_)
    for first, second in decided:
        table[place[first], place[second]] = True
    return table


def _ranks_after(is_better: NDArray[np.bool_], order: _Order) -> NDArray[np.int64]:
    """Return ranks that follow the decisions, and the ratings where nothing is decided.

    Everyone comes after all that are decided to be better; only a circle cannot, and stands behind
    whoever may come before it. Equals of whom none is decided to be better share a rank, whatever
    the order of the tables. No rank is better than the best possible one.

    Args:
        is_better: Whether the row's entrant was decided to be better than the column's, shape
            (n, n).
    """
    circle = find_groups(is_better, connection="strong")[1]
    together = circle[:, None] == circle
    by_rating = np.where(together, order.ranks, np.iinfo(np.int64).max).min(axis=1)
    # A circle of decisions comes last of those that may be next.
    by_rating = by_rating + order.ranks.size * (together.sum(axis=1) > 1)
    ranks, waiting = np.zeros_like(order.ranks), order.is_placed.copy()
    while waiting.any():
        is_behind = (is_better & ~together)[waiting].any(axis=0)
        free = waiting & ~(together & is_behind).any(axis=1)
        level = free & (by_rating == by_rating[free].min())
        ranks[level] = 1 + (order.is_placed & ~waiting).sum()
        waiting &= ~level
    return np.maximum(ranks, np.where(order.is_placed, 1 + is_better.sum(axis=0), 0))


def _claim(
    pair: tuple[Rating, Rating],
    ends: tuple[float | None, float | None],
    sign: int,
    *,
    within: float | None,
) -> PairClaim:
    """Return what is claimed of two entrants.

    Args:
        ends: Of the joint interval of their difference, in Elo points.
        sign: 1 if the first is shown to be better, -1 if the second is, otherwise 0.
        within: The largest difference that does not matter; None if nobody can be equivalent.
    """
    first, second = pair
    has_value = first.value is not None and second.value is not None
    value = (first.value or 0.0) - (second.value or 0.0) if has_value else None
    low, high = ends
    if sign == 0:
        low = None if low is None else min(low, 0.0)
        high = None if high is None else max(high, 0.0)
    difference = Estimate(value, low, high, first.n, NO_INTERVAL if within is None else None)
    claim = {1: Claim.FIRST_BETTER, -1: Claim.SECOND_BETTER, 0: Claim.UNDECIDED}[sign]
    is_near = within is not None and all(
        end is not None and abs(end) <= within for end in (low, high)
    )
    if is_near and not sign:
        claim = Claim.EQUIVALENT
    return PairClaim(first.entrant, second.entrant, claim, difference)
