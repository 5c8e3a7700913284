"""Ratings as tables, whatever rates them, and what methods say side by side as sentences."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from tournament_assets.foundation.formatting import format_rating
from tournament_assets.ratings.rating_evidence import RatingMethod
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    METHODS,
    TIES,
    compared_methods,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import Cell, ReportTable, select_columns
from tournament_assets.tournament.asset_rows import EloRow, LeaderboardRow, RatingRow

_TEMPLATE = "rating_methods.jinja"
_LEVEL = 1e-6
"""Elo points; smaller differences are ignored."""


def _by_method(rows: Sequence[RatingRow]) -> dict[str, dict[str, RatingRow]]:
    """Return the rows over all judged pairs by method and entrant."""
    by_method: dict[str, dict[str, RatingRow]] = {}
    for row in rows:
        if (row.basis, row.stratum) == ("all", "all"):
            by_method.setdefault(row.method, {})[row.entrant_id] = row
    return by_method


AnyStanding = EloRow | RatingRow | LeaderboardRow
ONE_METHOD: Mapping[str, Cell[RatingRow]] = select_columns(
    RatingRow, "rank", "model", "rating", "interval", "note"
)
"""The columns of a table of one method's ratings, two of them labels."""


def beside(rows: Mapping[str, RatingRow], name: str) -> Cell[AnyStanding]:
    """Return a column of other ratings of the same entrants, as by another method or basis.

    Args:
        rows: The other ratings by entrant.
        name: The field or property that it shows.
    """
    (cell,) = select_columns(RatingRow, name).values()
    return lambda row: cell(rows[row.entrant_id]) if row.entrant_id in rows else None


def side_by_side_cells(rows: Sequence[RatingRow], order: Sequence[str]) -> ReportTable:
    """Return every model's rating and rank of every entrant, a row each.

    Args:
        rows: Rows of table "ratings" of one dimension.
        order: The entrants, in the order of the rows.
    """
    by_method = _by_method(rows)
    compared = [METHODS[name] for name in compared_methods() if name in by_method]
    return ReportTable.of(
        [by_method[BRADLEY_TERRY][entrant] for entrant in order],
        {
            **select_columns(RatingRow, "entrant_id"),
            **{each.title: _rating_and_rank(by_method[each.name]) for each in compared},
            **{
                f"{METHODS[each.interval].title} interval": beside(
                    by_method.get(each.interval, {}), "interval"
                )
                for each in compared
                if each.interval in METHODS
            },
        },
    )


def _rating_and_rank(rows: Mapping[str, RatingRow]) -> Cell[AnyStanding]:
    """Return a column of ratings with their ranks, which no claim or unrated entrant moves."""
    ratings = {name: row.rating for name, row in rows.items() if row.rating is not None}

    def cell(row: AnyStanding) -> str | None:
        rating = ratings.get(row.entrant_id)
        if rating is None:
            return None
        rank = 1 + sum(other - rating >= _LEVEL for other in ratings.values())
        return f"{format_rating(rating)} ({rank})"

    return cell


def _is_above(rows: Mapping[str, RatingRow], one: str, other: str) -> bool:
    """Whether a method ranks one entrant above another, beyond its noise if it has any."""
    upper, lower = rows[one].rating, rows[other].rating
    if upper is None or lower is None:
        return False
    if METHODS[rows[one].method].noise:
        return other in rows[one].shown_above
    return upper - lower >= _LEVEL


def disagreement_sentences(rows: Sequence[RatingRow]) -> list[str] | None:
    """Describe every two entrants that the models rank differently, with each model's order.

    Args:
        rows: Rows of table "ratings" of one dimension.

    Returns:
        One sentence per pair; None where no two models rate the same two entrants.
    """
    by_method = _by_method(rows)
    compared = [by_method[name] for name in compared_methods() if name in by_method]
    sentences, is_compared = list[str](), False
    for pair in combinations(compared[0] if compared else (), 2):
        rated = [rows for rows in compared if None not in {rows[name].rating for name in pair}]
        is_compared = is_compared or len(rated) > 1
        sides: dict[int, list[RatingMethod]] = {1: [], 0: [], -1: []}
        for of_entrant in rated:
            side = _is_above(of_entrant, *pair) - _is_above(of_entrant, *reversed(pair))
            sides[side].append(METHODS[of_entrant[pair[0]].method])
        if sides[1] and sides[-1]:
            sentences += render_part(_TEMPLATE, "disagreement", *pair, *sides.values())
    return sentences if is_compared else None


def in_words(disagreements: Sequence[str] | None) -> Sequence[str]:
    """Return the sentences, or one that says why there is none."""
    if disagreements is None:
        return ("No two models rate the same two entrants, so there is nothing to compare.",)
    return disagreements or ("No two models disagree on who is above whom.",)


def comparison_notes(rows: Sequence[RatingRow]) -> list[str]:
    """Name entrants without a rank or an interval by model, and why; then the rate of ties.

    Args:
        rows: Rows of table "ratings" of one dimension.
    """
    lacking: dict[tuple[str, bool, str], list[str]] = {}
    by_method = _by_method(rows)
    # The method that gives the interval has a note where there is none.
    for model in compared_methods():
        for row in by_method.get(METHODS[model].interval or model, {}).values():
            if row.note is not None:
                key = row.note, row.rating is None, METHODS[model].title
                lacking.setdefault(key, []).append(row.entrant_id)
    alike: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for (note, is_unrated, title), entrants in lacking.items():
        alike.setdefault((note, is_unrated, tuple(sorted(entrants))), []).append(title)
    notes = [
        line
        for why, titles in alike.items()
        for line in render_part(_TEMPLATE, "lacking", titles, *why)
    ]
    rate = next((row.rating for row in rows if row.method == TIES), None)
    return [*notes, *render_part(_TEMPLATE, "ties", rate, rate == math.inf)]
