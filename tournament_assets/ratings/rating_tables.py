"""Ratings as rows of tables, the same from a run's verdicts and from a file of battles alone.

Ratings can be shifted so that one model has a known rating. The Elo scale has no zero: 400 points
are odds of 10 to 1, whatever is added to everyone. Ratings of two tournaments can be compared only
after a model that took part in both is given the same rating.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tournament_assets.foundation.errors import Problems
from tournament_assets.foundation.estimates import Rating
from tournament_assets.foundation.formatting import expect_one_of
from tournament_assets.ratings.elo import (
    EloStanding,
    compute_elo_permutation,
    elo_standing,
    k_factor_sweep,
    summarise_elo,
)
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.standings import Standings
from tournament_assets.tournament.asset_rows import EloRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings

LEVEL = 1e-6
"""Elo points. Fits stop within a small part of this, so smaller differences are ignored."""


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
    matches: Matches, traces: EloTraces, *, dimension: str, settings: RatingSettings
) -> list[EloRow]:
    """Return the rows of table "elo_ratings" for one dimension.

    Args:
        matches: Who beat whom; Elo leaves ties out.
        traces: What `trace_elo` returned for them.

    Returns:
        By K-factor and then best first, entrants without a place last. An entrant whose rating the
        matches do not determine has no rating but a note that says why, and the place that chains
        of wins give it, if any.
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
    won = matches.decisive()
    standing = elo_standing(won)
    notes = dict(zip(matches.entrants, standing.notes, strict=True))
    rows: list[EloRow] = []
    for swept in sorted((traces, *sweep), key=lambda each: each.k_factor):
        results = summarise_elo(swept, confidence=settings.confidence)
        ranks = _elo_ranks(results, standing)
        rows.extend(
            EloRow(
                dimension=dimension,
                k_factor=swept.k_factor,
                is_primary=swept is traces,
                rank=ranks[result.entrant],
                entrant_id=result.entrant,
                n_decisive_matches=won.n_matches,
                n_entrant_matches=result.n,
                **_elo_numbers(result, note=notes[result.entrant]),
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


def _elo_numbers(result: Rating, *, note: str | None) -> dict[str, Any]:
    if note is not None:
        return {"note": note}
    return {
        "mean": result.value,
        "sem": result.standard_error,
        "order_low": result.low,
        "order_high": result.high,
    }


def rows_of_ratings(ratings: Iterable[Rating], method: str) -> list[RatingRow]:
    """Return rows best first, those without a rating last; equal ratings share the better rank.

    What a processor rounds differently does not change the order: equal ones stay as they come.
    """
    listed = list(ratings)
    values = [rating.value for rating in listed if rating.value is not None]
    rows = [
        replace(
            row_of_rating(each, method),
            rank=None
            if each.value is None
            else 1 + sum(other > each.value + LEVEL for other in values),
        )
        for each in listed
    ]
    return sorted(rows, key=lambda row: (row.rating is None, -round(row.rating or 0.0, 9)))


def row_of_rating(rating: Rating, method: str) -> RatingRow:
    """Return the row of a rating, or of another number, without a rank."""
    return RatingRow(
        dimension="",
        method=method,
        entrant_id=rating.entrant,
        rating=rating.value,
        standard_error=rating.standard_error,
        low=rating.low,
        high=rating.high,
        n=rating.n,
        note=rating.note,
    )


def anchor_shift(ratings: Mapping[str, float | None], *, model: str, rating: float) -> float:
    """Return the number to add to every rating and bound so that a model gets a given rating.

    Differences, widths of intervals and ranks do not change. The model's own interval moves too: it
    is the uncertainty relative to the others, which the anchor does not remove.

    Args:
        ratings: Everyone's rating in Elo points, by name; None for an unrated entrant.
        rating: The rating in Elo points.

    Raises:
        InputError: If the model is not in the table or has no rating there, or the rating is not
            a finite number.
    """
    problems = Problems()
    if not math.isfinite(rating):
        problems.add(f"the anchor's rating is {rating!r}; expected a finite number of Elo points")
    value = ratings.get(model)
    if model not in ratings:
        problems.add(f"the anchor is {model!r}; {expect_one_of(model, ratings)}")
    elif value is None or not math.isfinite(value):
        problems.add(
            f"the anchor {model!r} has no rating; expected an entrant that the battles rate"
        )
    problems.raise_if_any()
    return rating - float(value if value is not None else math.nan)


def claimed(pairs: Sequence[WinRateRow], standings: Standings) -> list[WinRateRow]:
    """Return rows of table "win_rates" with what is claimed of every two entrants.

    Args:
        pairs: The two of each sorted by name.
        standings: Those of the same dimension. Two that never met have no row.
    """
    claims = {frozenset((claim.first, claim.second)): claim for claim in standings.claims}
    rows = []
    for row in pairs:
        claim = claims.get(frozenset((row.entrant_a, row.entrant_b)))
        if claim is not None and claim.first != row.entrant_a:
            claim = claim.turned
        rows.append(
            row
            if claim is None
            else replace(
                row,
                claim=claim.claim.value,
                difference=claim.difference.value,
                difference_low=claim.difference.low,
                difference_high=claim.difference.high,
            )
        )
    return rows
