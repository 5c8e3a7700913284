"""Entrants ranked on one set of judgments, and which gaps between neighbours are within noise.

Ratings are Bradley-Terry with ties as half wins, so their order does not depend on the order of the
judgments. Gaps are told from noise by `ratings.separated_entrants`, as on the leaderboard.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry, fit_bradley_terry
from tournament_assets.ratings.corrected_intervals import sampling_intervals
from tournament_assets.ratings.pair_cells import code_cells
from tournament_assets.ratings.separated_entrants import SeparatedEntrants, separate_judged
from tournament_assets.tournament.rating_settings import RatingSettings
from tournament_assets.tournament.verdicts import Judgment, Outcome


@dataclass(frozen=True, slots=True)
class Gap:
    """How far an entrant is above the one rated next below it.

    Attributes:
        below: Who that is.
        points: Elo points between the two.
        low: Lower end of the interval of the difference, which holds together with those of all
            other pairs; None where the prompts set no bound.
        high: Upper end.
        is_beyond_noise: Whether the two are told apart.
    """

    below: str
    points: float
    low: float | None
    high: float | None
    is_beyond_noise: bool


@dataclass(frozen=True, slots=True)
class FairPlace:
    """An entrant's place among the others.

    Attributes:
        entrant_id: Who.
        points: Wins and half the ties; an inconsistent pair is a tie.
        pairs: What the share is of.
        share: Points over pairs; None if there are no pairs.
        share_rank: 1 for the highest share, equal shares sharing the better place.
        rating: Elo points; None where the judgments do not determine it.
        rank: 1 for the highest rating.
        low: Lower end of the rating's sampling interval.
        high: Upper end.
        note: Why there is no rating.
        gap: How far it is above its neighbour; None for the last and the unrated.
    """

    entrant_id: str
    points: float
    pairs: int
    share: float | None
    share_rank: int | None
    rating: float | None = None
    rank: int | None = None
    low: float | None = None
    high: float | None = None
    note: str | None = None
    gap: Gap | None = None


_POINTS: Mapping[Outcome, tuple[float, float]] = {
    Outcome.A_WINS: (1.0, 0.0),
    Outcome.B_WINS: (0.0, 1.0),
    Outcome.TIE: (0.5, 0.5),
    Outcome.SAME_TEXT: (0.5, 0.5),
    Outcome.INCONSISTENT: (0.5, 0.5),
}


def rank_by_rating(
    judgments: Sequence[Judgment], *, entrants: Sequence[str], settings: RatingSettings
) -> tuple[FairPlace, ...]:
    """Rate and rank everyone on some judgments; unjudged pairs count as nothing.

    Args:
        judgments: Settled pairs of one dimension.
        entrants: Everyone who may appear.
        settings: How the resamples are drawn and how wide the intervals are.

    Returns:
        In the order of the entrants.

    Raises:
        InputError: If a judgment names somebody else.
        RatingError: If a likelihood could not be maximised.
    """
    points, pairs = _count(judgments)
    shares = {each: points[each] / pairs[each] if pairs[each] else None for each in entrants}
    cells = code_cells(judgments, entrants=entrants)
    results = fit_bradley_terry(cells, initial_rating=settings.initial_rating)
    bootstrap = bootstrap_bradley_terry(
        cells,
        n_bootstraps=settings.n_bootstraps,
        seed=settings.bootstrap_seed,
        initial_rating=settings.initial_rating,
    )
    intervals = (
        sampling_intervals(bootstrap, confidence=settings.confidence) if cells.prompts else None
    )
    ratings = {each.entrant: each.rating for each in results}
    separated = separate_judged(
        cells,
        ratings=[ratings[each] for each in entrants],
        n_bootstraps=settings.n_bootstraps,
        seed=settings.bootstrap_seed,
        confidence=settings.confidence,
    )
    gaps = _gaps(separated, ratings)
    share_ranks, ranks = _ranks(shares), _ranks(ratings)
    return tuple(
        FairPlace(
            entrant_id=result.entrant,
            points=points[result.entrant],
            pairs=pairs[result.entrant],
            share=shares[result.entrant],
            share_rank=share_ranks[result.entrant],
            rating=result.rating,
            rank=ranks[result.entrant],
            low=intervals[index].low if intervals and result.rating is not None else None,
            high=intervals[index].high if intervals and result.rating is not None else None,
            note=result.note,
            gap=gaps.get(result.entrant),
        )
        for index, result in enumerate(results)
    )


def rank_by_planned_share(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], planned_prompts: int
) -> tuple[FairPlace, ...]:
    """Rank everyone by points over planned pairs: whatever is missing counts as nothing.

    Args:
        judgments: Settled pairs of one dimension.
        entrants: Everyone who may appear.
        planned_prompts: Prompts on which everyone was to meet everyone else.

    Returns:
        In the order of the entrants.
    """
    points, _ = _count(judgments)
    planned = planned_prompts * (len(entrants) - 1)
    shares = {each: points[each] / planned if planned else None for each in entrants}
    ranks = _ranks(shares)
    return tuple(
        FairPlace(each, points[each], planned, shares[each], ranks[each]) for each in entrants
    )


def _count(
    judgments: Iterable[Judgment],
) -> tuple[defaultdict[str, float], defaultdict[str, int]]:
    # Halves are exact, so the order of the judgments leaves no trace in the sums.
    points: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[str, int] = defaultdict(int)
    for judgment in judgments:
        if judgment.outcome is Outcome.UNJUDGED:
            continue
        for entrant, gained in zip(
            (judgment.entrant_a, judgment.entrant_b), _POINTS[judgment.outcome], strict=True
        ):
            points[entrant] += gained
            pairs[entrant] += 1
    return points, pairs


_LEVEL = 1e-6
"""Differences below what a fit stops at are none; shares are quotients of small numbers."""


def _ranks(values: Mapping[str, float | None]) -> dict[str, int | None]:
    known = [value for value in values.values() if value is not None]
    return {
        name: None if value is None else 1 + sum(other > value + _LEVEL for other in known)
        for name, value in values.items()
    }


def _gaps(separated: SeparatedEntrants, ratings: Mapping[str, float | None]) -> dict[str, Gap]:
    rated = sorted(
        ((rating, name) for name, rating in ratings.items() if rating is not None),
        key=lambda each: (-each[0], each[1]),
    )
    index_of = {name: index for index, name in enumerate(separated.entrants)}
    gaps = {}
    for (rating, name), (lower, below) in pairwise(rated):
        pair = index_of[name], index_of[below]
        low, high = float(separated.low[pair]), float(separated.high[pair])
        gaps[name] = Gap(
            below,
            rating - lower,
            low if isfinite(low) else None,
            high if isfinite(high) else None,
            is_beyond_noise=bool(separated.is_above[pair]),
        )
    return gaps
