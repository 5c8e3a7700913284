"""From rows of ratings to the leaderboard that other tools read.

The shape is that of `elo_ratings.json`: an arena, who judged, and one entry for each model.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tournament_assets.tournament.battles import EloReport, RatingEntry


def elo_entries(
    rows: Iterable[Mapping[str, Any]], *, known_from_humans: Collection[str] = ()
) -> tuple[RatingEntry, ...]:
    """Turn rows of table "elo_ratings" into entries, best first; only the primary K is used.

    Args:
        rows: Rows of one dimension.
        known_from_humans: Models that are known from human battles and not under test.
    """
    return _sorted(
        RatingEntry(
            model=row["entrant_id"],
            rating=row["mean"],
            ci_low=row["sampling_low"],
            ci_high=row["sampling_high"],
            n_battles=row["n_entrant_matches"],
            source="human" if row["entrant_id"] in known_from_humans else "evaluated",
        )
        for row in rows
        if row["is_primary"]
    )


def bradley_terry_entries(
    rows: Iterable[Mapping[str, Any]],
    *,
    n_battles: Mapping[str, int],
    known_from_humans: Collection[str] = (),
) -> tuple[RatingEntry, ...]:
    """Turn rows of table "bradley_terry_ratings" into entries, best first.

    A model that the battles do not determine a rating of is last and has none.

    Args:
        rows: Rows of one dimension.
        n_battles: Battles each model fought, ties among them; 0 for whom it does not name.
        known_from_humans: Models that are known from human battles and not under test.
    """
    return _sorted(
        RatingEntry(
            model=row["entrant_id"],
            rating=row["rating"],
            ci_low=row["sampling_low"],
            ci_high=row["sampling_high"],
            n_battles=n_battles.get(row["entrant_id"], 0),
            source="human" if row["entrant_id"] in known_from_humans else "evaluated",
        )
        for row in rows
    )


def build_elo_report(
    ratings: Iterable[RatingEntry],
    *,
    arena: str,
    judge_model: str | None,
    n_bootstraps: int,
    seed: int,
) -> EloReport:
    """Build a leaderboard, best first.

    Args:
        ratings: One entry for each model.
        arena: What the battles are from.
        judge_model: The model that judged; None if only people did.
        n_bootstraps: Resamples behind the intervals.
        seed: Seeded the resampling.
    """
    entries = _sorted(ratings)
    evaluated = [entry.model for entry in entries if entry.source == "evaluated"]
    return EloReport(
        arena=arena,
        model=evaluated[0] if len(evaluated) == 1 else None,
        judge_model=judge_model,
        n_bootstraps=n_bootstraps,
        seed=seed,
        ratings=entries,
    )


def _sorted(entries: Iterable[RatingEntry]) -> tuple[RatingEntry, ...]:
    # The sort is stable, so equal ratings keep the order of the tables.
    return tuple(sorted(entries, key=lambda entry: (entry.rating is None, -(entry.rating or 0.0))))
