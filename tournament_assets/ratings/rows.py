"""Ratings as rows of tables, the same from a run's verdicts and from a file of battles alone."""

from typing import Any

from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry, fit_bradley_terry
from tournament_assets.ratings.elo import compute_elo_permutation, k_factor_sweep, summarise_elo
from tournament_assets.ratings.intervals import bootstrap_elo, bootstrap_intervals
from tournament_assets.ratings.matches import DecisiveMatches
from tournament_assets.ratings.pair_cells import PairCells
from tournament_assets.ratings.traces import EloTraces
from tournament_assets.tournament.rating_settings import RatingSettings


def trace_elo(matches: DecisiveMatches, settings: RatingSettings) -> EloTraces:
    """Rate the matches in many orderings, as the settings say."""
    return compute_elo_permutation(
        matches,
        k_factor=settings.k_factor,
        n_permutations=settings.n_permutations,
        seed=settings.shuffle_seed,
        initial_rating=settings.initial_rating,
    )


def elo_rows(
    matches: DecisiveMatches,
    traces: EloTraces,
    *,
    dimension: str | None,
    settings: RatingSettings,
) -> list[dict[str, Any]]:
    """Return the rows of table "elo_ratings" for one dimension.

    Args:
        matches: The decisive matches.
        traces: What `trace_elo` made of them.
        dimension: The quality that was judged.
        settings: How they are rated.

    Returns:
        By K-factor and then best first; only those of the primary K have sampling intervals.
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
        n_bootstraps=settings.n_bootstraps,
        seed=settings.bootstrap_seed,
        initial_rating=settings.initial_rating,
    )
    bounds = {
        interval.entrant: (interval.low, interval.high)
        for interval in bootstrap_intervals(bootstrap, confidence=settings.confidence)
    }
    rows = []
    for swept in sorted((traces, *sweep), key=lambda each: each.k_factor):
        results = summarise_elo(swept, confidence=settings.confidence)
        for result in sorted(results, key=lambda each: -each.mean):
            low, high = bounds[result.entrant] if swept is traces else (None, None)
            rows.append(
                {
                    "dimension": dimension,
                    "k_factor": swept.k_factor,
                    "is_primary": swept is traces,
                    "rank": 1 + sum(other.mean > result.mean for other in results),
                    "entrant_id": result.entrant,
                    "mean": result.mean,
                    "sem": result.sem,
                    "order_low": result.order_low,
                    "order_high": result.order_high,
                    "sampling_low": low,
                    "sampling_high": high,
                    "n_decisive_matches": matches.n_matches,
                    "n_entrant_matches": result.n_matches,
                }
            )
    return rows


def bradley_terry_rows(
    cells: PairCells, *, dimension: str | None, settings: RatingSettings
) -> list[dict[str, Any]]:
    """Return the rows of table "bradley_terry_ratings" for one dimension, best first.

    Args:
        cells: Wins of each over each by prompt, ties as half wins.
        dimension: The quality that was judged.
        settings: How they are rated.
    """
    bootstrap = bootstrap_bradley_terry(
        cells,
        n_bootstraps=settings.n_bootstraps,
        seed=settings.bootstrap_seed,
        initial_rating=settings.initial_rating,
    )
    intervals = bootstrap_intervals(bootstrap, confidence=settings.confidence)
    results = fit_bradley_terry(cells, initial_rating=settings.initial_rating)
    best_first = sorted(
        zip(results, intervals, strict=True),
        key=lambda pair: (pair[0].rating is None, -(pair[0].rating or 0.0)),
    )
    return [
        {
            "dimension": dimension,
            "entrant_id": result.entrant,
            "rating": result.rating,
            "sampling_low": interval.low,
            "sampling_high": interval.high,
            "note": result.note,
            "n_bootstraps": settings.n_bootstraps,
            "n_degenerate": bootstrap.n_degenerate,
        }
        for result, interval in best_first
    ]
