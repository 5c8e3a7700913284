"""Ratings as tables, whatever rates them, and what methods say side by side as sentences."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    METHODS,
    TIES,
    compared_methods,
)
from tournament_assets.reports.report_tables import Cell, ReportTable
from tournament_assets.tournament.asset_rows import EloRow, LeaderboardRow, RatingRow
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_interval,
    format_rating,
    format_share,
    join_names,
)

_LEVEL = 1e-6
"""Elo points; smaller differences are ignored."""


def _by_method(rows: Sequence[RatingRow]) -> dict[str, dict[str, RatingRow]]:
    """Return the rows over all judged pairs by method and entrant."""
    found: dict[str, dict[str, RatingRow]] = {}
    for row in rows:
        if (row.basis, row.stratum) == ("all", "all"):
            found.setdefault(row.method, {})[row.entrant_id] = row
    return found


AnyStanding = EloRow | RatingRow | LeaderboardRow


def beside(rows: Mapping[str, RatingRow], cell: Cell[RatingRow]) -> Cell[AnyStanding]:
    """Return a column of other ratings of the same entrants, as by another method or basis."""
    return lambda row: cell(rows[row.entrant_id]) if row.entrant_id in rows else None


def with_interval(*, unrated: str, unbounded: str) -> Cell[RatingRow]:
    """Return a column of ratings with their intervals, and what it says where they lack."""
    return lambda row: (
        unrated
        if row.rating is None
        else f"{format_rating(row.rating)} ({format_interval(row.low, row.high, absent=unbounded)})"
    )


CELLS: Mapping[str, Cell[RatingRow]] = {
    "entrant": lambda row: row.entrant_id,
    "rank": lambda row: row.rank,
    "rating": lambda row: format_rating(row.rating),
    "share": lambda row: format_share(row.rating),
    "interval": lambda row: format_interval(row.low, row.high, absent=ABSENT),
    "places": lambda row: None if row.rank is None else f"{row.rank_best}–{row.rank_worst}",
    "group": lambda row: row.group or None,
    "n": lambda row: row.n,
    "note": lambda row: row.note,
}
"""What can stand in a column of ratings."""
ONE_METHOD: Mapping[str, Cell[RatingRow]] = {
    "rank": CELLS["rank"],
    "model": CELLS["entrant"],
    "rating": CELLS["rating"],
    "interval": CELLS["interval"],
    "note": lambda row: row.note or "",
}
"""The columns of a table of one method's ratings, two of them labels."""


def side_by_side_cells(rows: Sequence[RatingRow], order: Sequence[str]) -> ReportTable:
    """Return every model's rating and rank of every entrant, a row each.

    Args:
        rows: Rows of table "ratings" of one dimension.
        order: The entrants, in the order of the rows.
    """
    found = _by_method(rows)
    compared = [each for each in compared_methods() if each in found]
    others = [METHODS[name] for each in compared if (name := METHODS[each].interval) in METHODS]
    return ReportTable.of(
        [found[BRADLEY_TERRY][entrant] for entrant in order],
        {
            "entrant": CELLS["entrant"],
            **{
                METHODS[each].title: beside(found[each], _rating_and_rank(found[each].values()))
                for each in compared
            },
            **{
                f"{each.title} interval": beside(found.get(each.name, {}), CELLS["interval"])
                for each in others
            },
        },
    )


def _rating_and_rank(rows: Collection[RatingRow]) -> Cell[RatingRow]:
    """Return a column of ratings with their ranks, which no claim or unrated entrant moves."""
    rated = [row.rating for row in rows if row.rating is not None]
    return lambda row: (
        None
        if (own := row.rating) is None
        else f"{format_rating(own)} ({1 + sum(each - own >= _LEVEL for each in rated)})"
    )


def _is_above(found: Mapping[str, RatingRow], one: str, other: str) -> bool:
    """Whether a method ranks one entrant above another, beyond its noise if it has any."""
    upper, lower = found[one].rating, found[other].rating
    if upper is None or lower is None:
        return False
    if METHODS[found[one].method].noise:
        return other in found[one].shown_above
    return upper - lower >= _LEVEL


def disagreement_sentences(rows: Sequence[RatingRow]) -> list[str] | None:
    """Describe every two entrants that the models rank differently, with each model's order.

    Args:
        rows: Rows of table "ratings" of one dimension.

    Returns:
        One sentence per pair; None where no two models rate the same two entrants.
    """
    found = _by_method(rows)
    compared = [name for name in compared_methods() if name in found]
    entrants = list(found[compared[0]]) if compared else []
    sentences = []
    is_compared = False
    for a, b in combinations(entrants, 2):
        models = [
            model
            for model in compared
            if found[model][a].rating is not None and found[model][b].rating is not None
        ]
        is_compared = is_compared or len(models) > 1
        a_above = [model for model in models if _is_above(found[model], a, b)]
        b_above = [model for model in models if _is_above(found[model], b, a)]
        if not a_above or not b_above:
            continue
        level = [model for model in models if model not in (*a_above, *b_above)]
        parts = [
            f"{_names(a_above)} {_verb(a_above, 'put')} {a} above {b}",
            f"{_names(b_above)} {_verb(b_above, 'put')} {b} above {a}",
        ]
        noisy = [model for model in level if METHODS[model].noise]
        parts += [
            f"{METHODS[model].title} tells no difference from {METHODS[model].noise}"
            for model in noisy
        ]
        if alike := [model for model in level if model not in noisy]:
            parts.append(f"{_names(alike)} {_verb(alike, 'rate')} them alike")
        sentences.append(f"{'; '.join(parts)}.")
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
    groups: dict[tuple[str, bool], dict[str, list[str]]] = {}
    found = _by_method(rows)
    # The method that gives the interval has a note where there is none.
    for model in compared_methods():
        for row in found.get(METHODS[model].interval or model, {}).values():
            if row.note is not None:
                group = groups.setdefault((row.note, row.rating is None), {})
                group.setdefault(model, []).append(row.entrant_id)
    notes: list[str] = []
    for (reason, is_unrated), by_model in groups.items():
        models_of: dict[tuple[str, ...], list[str]] = {}
        for model, entrants in by_model.items():
            models_of.setdefault(tuple(sorted(entrants)), []).append(model)
        lacking = "rank" if is_unrated else "give an interval to"
        notes.extend(
            f"{_names(models)} {_verb(models, 'do')} not {lacking} {join_names(entrants)}: "
            f"{reason}."
            for entrants, models in models_of.items()
        )
    return [*notes, tie_sentence(rows)]


def tie_sentence(rows: Sequence[RatingRow]) -> str:
    """Describe the judge's rate of ties, by Davidson's model.

    Args:
        rows: Rows of table "ratings" of one dimension.
    """
    found = next((row.rating for row in rows if row.method == TIES), None)
    if found is None:
        return "Davidson's tie parameter is not known, because no entrant is rated."
    if math.isinf(found):
        return "The battles set Davidson's tie parameter no upper bound."
    # Source: Davidson (1970); between equals the proportions are 1 : 1 : v.
    share = found / (2 + found)
    return (
        f"Davidson's tie parameter is {found:.3f}: two equals would tie in "
        f"{format_share(share, decimals=0)} of their "
        "battles."
    )


def _names(models: Sequence[str]) -> str:
    return join_names([METHODS[model].title for model in models])


def _verb(subjects: Sequence[str], verb: str) -> str:
    ending = "es" if verb == "do" else "s"
    return f"{verb}{ending}" if len(subjects) == 1 else verb
