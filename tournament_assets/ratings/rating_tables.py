"""Ratings as rows of tables, the same from a run's verdicts and from a file of battles alone.

Ratings can be shifted so that one model has a known rating. The Elo scale has no zero: 400 points
are odds of 10 to 1, whatever is added to everyone. Ratings of two tournaments can be compared only
after a model that took part in both is given the same rating.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

from tournament_assets.ratings.elo import (
    EloStanding,
    compute_elo_permutation,
    elo_standing,
    k_factor_sweep,
    summarise_elo,
)
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.intervals import (
    BootstrapRatings,
    bootstrap_elo,
    sampling_intervals,
)
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.places import RatedPlace, places_of
from tournament_assets.ratings.significance import (
    SeparatedEntrants,
    separate_decided,
    separate_judged,
)
from tournament_assets.tournament.asset_rows import (
    EloRow,
)
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import Problems
from tournament_assets.tournament.estimates import Rating


def trace_elo(matches: Matches, settings: RatingSettings) -> EloTraces:
    """Rate the matches in many orderings, as the settings say."""
    return compute_elo_permutation(
        matches,
        k_factor=settings.k_factor,
        n_permutations=settings.n_permutations,
        seed=settings.shuffle_seed,
        initial_rating=settings.initial_rating,
    )


def elo_rows(
    matches: Matches,
    traces: EloTraces,
    *,
    shares: Matches | None = None,
    told_apart: Collection[tuple[str, str]] | None = None,
    dimension: str,
    settings: RatingSettings,
) -> list[EloRow]:
    """Return the rows of table "elo_ratings" for one dimension.

    Args:
        matches: Who beat whom; Elo leaves ties out.
        traces: What `trace_elo` returned for them.
        shares: The same with shares of a win, if significance rests on those.
        told_apart: Who was decided to be above whom, if significance rests on that instead.

    Returns:
        By K-factor and then best first, entrants without a place last; only rows of the primary K
        have intervals and places from resamples. An entrant whose rating the matches do not
        determine has no rating but a note that says why, and the place that chains of wins give it,
        if any.
    """
    other_k = [k_factor for k_factor in settings.k_sweep if k_factor != settings.k_factor]
    sweep = (
        k_factor_sweep(
            matches,
            k_factors=other_k,
            n_permutations=settings.n_permutations,
            seed=settings.shuffle_seed,
            initial_rating=settings.initial_rating,
        )
        if other_k
        else ()
    )
    bootstrap = bootstrap_elo(
        matches,
        k_factor=settings.k_factor,
        resampling=settings.resampling,
        initial_rating=settings.initial_rating,
    )
    won = matches.decisive()
    standing = elo_standing(won)
    notes = dict(zip(matches.entrants, standing.notes, strict=True))
    rows: list[EloRow] = []
    for swept in sorted((traces, *sweep), key=lambda each: each.k_factor):
        results = summarise_elo(swept, confidence=settings.confidence)
        resampled = (
            _what_resamples_say(
                bootstrap,
                _separate(
                    shares or matches, results, standing, told_apart=told_apart, settings=settings
                ),
                confidence=settings.confidence,
            )
            if swept is traces
            else {}
        )
        ranks = _elo_ranks(results, standing)
        rows.extend(
            _elo_row(
                EloRow(
                    dimension=dimension,
                    k_factor=swept.k_factor,
                    is_primary=swept is traces,
                    rank=ranks[result.entrant],
                    entrant_id=result.entrant,
                    shown_above=(),
                    n_decisive_matches=won.n_matches,
                    n_entrant_matches=result.n,
                    note=notes[result.entrant],
                ),
                result,
                resampled.get(result.entrant),
            )
            for result in sorted(
                results,
                key=lambda each: (ranks[each.entrant] or len(results) + 1, -(each.value or 0.0)),
            )
        )
    return rows


def _elo_ranks(results: Sequence[Rating], standing: EloStanding) -> dict[str, int | None]:
    """Return the places: by chains of wins, and among rated entrants by mean rating."""
    means = [result.value or 0.0 for result in results]
    rated = [mean for mean, note in zip(means, standing.notes, strict=True) if note is None]
    ranks: dict[str, int | None] = {}
    for index, (result, note) in enumerate(zip(results, standing.notes, strict=True)):
        n_above = int(standing.n_above[index])
        if note is None:
            n_above += sum(mean > means[index] for mean in rated)
        ranks[result.entrant] = 1 + n_above if standing.is_placed[index] else None
    return ranks


def _elo_row(row: EloRow, result: Rating, resampled: "_Resampled | None") -> EloRow:
    """Return a row with its place and, where it has no note, its rating and intervals."""
    if row.note is None:
        row = replace(
            row,
            mean=result.value,
            sem=result.standard_error,
            order_low=result.low,
            order_high=result.high,
        )
    if resampled is None:
        return row
    has_number = row.note is None
    return replace(
        row,
        sampling_low=resampled.interval.low if has_number else None,
        sampling_high=resampled.interval.high if has_number else None,
        **asdict(resampled.place),
    )


@dataclass(frozen=True, slots=True)
class _Resampled:
    interval: Rating
    place: RatedPlace


def _separate(
    matches: Matches,
    results: Sequence[Rating],
    standing: EloStanding,
    *,
    told_apart: Collection[tuple[str, str]] | None,
    settings: RatingSettings,
) -> SeparatedEntrants:
    """Separate the entrants, without those that have no place among the others."""
    ratings = [
        result.value if placed else None
        for result, placed in zip(results, standing.is_placed, strict=True)
    ]
    if told_apart is not None:
        return separate_decided(matches.entrants, told_apart, ratings=ratings)
    return separate_judged(
        matches,
        ratings=ratings,
        resampling=settings.resampling,
    )


def _what_resamples_say(
    bootstrap: BootstrapRatings, separated: SeparatedEntrants, *, confidence: float
) -> dict[str, _Resampled]:
    """Return intervals, places, entrants below and group letters, by entrant."""
    places = places_of(separated)
    return {
        interval.entrant: _Resampled(interval, places.get(interval.entrant, RatedPlace()))
        for interval in sampling_intervals(bootstrap, confidence=confidence)
    }


def anchor_shift(
    entrants: Sequence[str], ratings: Sequence[float | None], *, model: str, rating: float
) -> float:
    """Return the number to add to every rating and bound so that a model gets a given rating.

    Differences, widths of intervals and ranks do not change. The model's own interval moves too: it
    is the uncertainty relative to the others, which the anchor does not remove.

    Args:
        entrants: Everyone in the table.
        ratings: Their ratings in Elo points; None for an unrated entrant.
        model: The model to be given the rating.
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
