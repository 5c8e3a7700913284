"""The pairs of entrants between which the judgments do not decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.reports.separation import PairRecord, is_rated, pair_records

MOST_PAIRS = 12
"""The most pairs that are listed; of many entrants, the closest."""


@dataclass(frozen=True, slots=True)
class UnseparatedPair:
    """Two entrants whose difference could be none.

    Attributes:
        upper: The one with the higher mean.
        lower: The other.
        gap: Elo points between their means; None where one of them has no rating.
        record: How the upper one fared against the lower.
    """

    upper: str
    lower: str
    gap: float | None
    record: PairRecord


_NEVER_MET = PairRecord(0, 0, 0, 0, 0, 0)


def unseparated_pairs(
    rows: Sequence[Mapping[str, Any]], win_rates: Sequence[Mapping[str, Any]]
) -> list[UnseparatedPair]:
    """Return the pairs that are not separated, closest first.

    Two entrants are separated when one of them is shown to be above the other; see
    `ratings.separated_entrants`.

    Args:
        rows: Rows of table "leaderboard" of one dimension.
        win_rates: Rows of table "win_rates" of the same dimension.
    """
    records = pair_records(win_rates)
    rated = sorted(
        (row for row in rows if row["n_entrant_matches"] and row["rank"] is not None),
        key=lambda row: (row["rank"], row["entrant_id"]),
    )
    pairs = [
        UnseparatedPair(
            upper["entrant_id"],
            lower["entrant_id"],
            upper["mean"] - lower["mean"] if is_rated(upper) and is_rated(lower) else None,
            records.get((upper["entrant_id"], lower["entrant_id"]), _NEVER_MET),
        )
        for index, upper in enumerate(rated)
        for lower in rated[index + 1 :]
        if lower["entrant_id"] not in upper["shown_above"]
        and upper["entrant_id"] not in lower["shown_above"]
    ]
    return sorted(
        pairs, key=lambda pair: (pair.gap is None, pair.gap or 0.0, pair.upper, pair.lower)
    )


def unseparated_sentence(n_unseparated: int, n_rated: int) -> str:
    """Say how many pairs of entrants are not separated."""
    n_pairs = n_rated * (n_rated - 1) // 2
    if not n_pairs:
        return "Fewer than two entrants are rated, so there is nothing to separate."
    if not n_unseparated:
        return (
            f"Every two entrants are separated, all {n_pairs} pairs."
            if n_pairs > 1
            else ("The two entrants are separated.")
        )
    verb = "is" if n_unseparated == 1 else "are"
    more = f" The {MOST_PAIRS} closest are listed." if n_unseparated > MOST_PAIRS else ""
    return f"{n_unseparated} of {n_pairs} pairs of entrants {verb} not separated.{more}"
