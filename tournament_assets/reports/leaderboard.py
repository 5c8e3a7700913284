"""The leaderboard, also in LaTeX: who leads on a dimension, and how certain that is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from tournament_assets.audits.first_place import NOT_FIRST, FirstPlaceSupport
from tournament_assets.foundation.formatting import ABSENT, format_confidence
from tournament_assets.ratings.comparison_bars import comparison_bars
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, WIN_SHARE
from tournament_assets.reports.claims import Statements, pair_records
from tournament_assets.reports.report_tables import (
    Cell,
    ReportSection,
    ReportTable,
    select_columns,
    table_latex,
)
from tournament_assets.reports.statements import verdict_sentence
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    LeaderboardRow,
    OfDimension,
    RatingRow,
    WinRateRow,
    by_dimension,
)


def build_leaderboard(
    *,
    elo_ratings: pd.DataFrame,
    ratings: pd.DataFrame,
    win_rates: pd.DataFrame,
    judge_model: str,
    judge_label: str,
    stops: str | None = None,
    support: FirstPlaceSupport = NOT_FIRST,
) -> list[LeaderboardRow]:
    """Return the rows of table "leaderboard" for one dimension, best entrant first.

    Args:
        elo_ratings: Table "elo_ratings"; only the primary K-factor is used.
        ratings: Table "ratings", whose Bradley-Terry ratings order the entrants and whose win
            shares stand beside them.
        win_rates: Table "win_rates".
        judge_model: The models that judged; empty if none did.
        judge_label: The kind of judge.
        stops: The goal at which judging of a pair stops; None where every pair is judged.
        support: What the first place rests on.

    Raises:
        ValueError: If the tables hold more than one dimension.
    """
    elo = {row.entrant_id: row for row in rows_of(EloRow, elo_ratings) if row.is_primary}
    rated = list(rows_of(RatingRow, ratings))
    strengths = [row for row in rated if row.method == BRADLEY_TERRY]
    pairs = list(rows_of(WinRateRow, win_rates))
    every_row: tuple[OfDimension, ...] = (*elo.values(), *strengths, *pairs)
    dimensions = {row.dimension for row in every_row}
    if len(dimensions) > 1:
        raise ValueError(
            f"the tables are of dimensions {sorted(dimensions)!r}; expected one; "
            "build one leaderboard per dimension"
        )
    records = pair_records(pairs)
    shares = {row.entrant_id: row.rating for row in rated if row.method == WIN_SHARE}
    first = next((row.entrant_id for row in strengths if row.rank == 1), None)
    rows = []
    for row in strengths:
        name = row.entrant_id
        met = {other: record for (entrant, other), record in records.items() if entrant == name}
        lead = support if name == first else NOT_FIRST
        rows.append(
            LeaderboardRow(
                **{column: getattr(row, column) for column in _OF_RATINGS},
                win_rate=shares.get(name),
                n=sum(record.settled for record in met.values()),
                elo=elo[name].mean,
                elo_sem=elo[name].sem,
                same_answers_as=tuple(
                    other for other, record in met.items() if record.is_all_same_text
                ),
                lead_rests_on=lead.prompts,
                lead_rests_on_at_least=lead.at_least or None,
                judge_model=judge_model or None,
                judge=judge_label,
                stops=stops,
            )
        )
    return _with_bars(rows, pairs)


_OF_RATINGS = (
    *("dimension", "rank", "entrant_id", "rating", "low", "high", "rank_best", "rank_worst"),
    *("shown_above", "group", "note"),
)
"""Columns that tables "ratings" and "leaderboard" share."""


def _with_bars(
    rows: Sequence[LeaderboardRow], win_rates: Sequence[WinRateRow]
) -> list[LeaderboardRow]:
    """Return the rows with comparison bars, for entrants that an interval says something of."""
    statements = Statements.of(rows, win_rates, dimension=rows[0].dimension if rows else "")
    ratings = {
        row.entrant_id: row.rating
        for row in statements.placed
        if row.rating is not None and row.low is not None and row.high is not None
    }
    if not ratings:
        return list(rows)
    pairs = {names: pair for names, pair in statements.pairs.items() if {*names} <= ratings.keys()}
    bars = comparison_bars(
        ratings,
        better={names: pair.claim == "better" for names, pair in pairs.items()},
        reach={
            names: (pair.difference.high - pair.difference.low) / 2
            for names, pair in pairs.items()
            if pair.difference.low is not None and pair.difference.high is not None
        },
        own={
            row.entrant_id: (row.high - row.low) / 2
            for row in rows
            if row.high is not None and row.low is not None
        },
    )
    return [
        replace(row, bar_low=bars[row.entrant_id][0], bar_high=bars[row.entrant_id][1])
        if row.entrant_id in bars
        else row
        for row in rows
    ]


def leaderboard_cells(
    rows: Sequence[LeaderboardRow], beside: Mapping[str, Cell[LeaderboardRow]] | None = None
) -> ReportTable:
    """Return the rows as text, for every target.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        beside: Further columns.
    """
    columns = select_columns(LeaderboardRow, *_COLUMNS)
    return ReportTable.of(rows, {**columns, **(beside or {})}, n_labels=2)


_COLUMNS = ("rank", "entrant_id", "rating", "interval", "places_and_group", "win_rate", "n")


def leaderboard_sections(
    rows: Sequence[LeaderboardRow],
    win_rates: Sequence[WinRateRow] = (),
    *,
    confidence: float,
    equivalent_within: float,
    next_steps: Sequence[str] = (),
) -> list[ReportSection]:
    """Return the verdict, table and Elo ratings of each dimension, and notes on reading them.

    Args:
        rows: Rows of table "leaderboard", of one dimension or several.
        win_rates: Rows of table "win_rates" of the same dimensions; for the differences and
            records of every two.
        confidence: With which all claims of a dimension hold together.
        equivalent_within: The largest difference that does not matter, in Elo points.
        next_steps: What to do next, a sentence each.
    """
    share = format_confidence(confidence)
    sections = []
    for dimension, members in by_dimension(rows).items():
        verdict = verdict_sentence(
            members, win_rates, dimension=dimension, equivalent_within=equivalent_within
        )
        table = (dimension, leaderboard_cells(members))
        sections += [
            ReportSection("", (verdict,), (table,)),
            ReportSection("", _elo_sentences(members), is_note=True),
        ]
    notes = (
        *sorted({f"judge: {row.judge_title}; model: {row.judge_model or ABSENT}" for row in rows}),
        f"rating: Bradley-Terry in Elo points, ties as halves; interval ({share}): whole prompts "
        "resampled.",
        f"places and letters ({share}, all pairs together): within a letter neither of two is "
        "better.",
    )
    what_next = [ReportSection("What next", tuple(next_steps))] if next_steps else []
    return [*sections, *what_next, ReportSection("", notes, is_note=True)]


def _elo_sentences(rows: Sequence[LeaderboardRow]) -> tuple[str, ...]:
    """Name the mean Elo rating over orderings of each entrant that has one, and its order noise."""
    ratings = [
        f"{row.entrant_id} {row.elo:.1f}" + ("" if row.elo_sem is None else f" ± {row.elo_sem:.1f}")
        for row in rows
        if row.elo is not None
    ]
    return (f"Elo, mean over orderings ± SEM (order noise): {', '.join(ratings)}.",) * bool(ratings)


_NOTE = (
    "% Needs \\usepackage{booktabs,siunitx}. Rating: Bradley-Terry in Elo points, ties as halves.\n"
    "% Interval: whole prompts resampled. Of two entrants that share a letter neither is better.\n"
    "% In an article of one column the table needs \\footnotesize.\n"
)


def leaderboard_latex(leaderboard: Mapping[str, Sequence[LeaderboardRow]]) -> str:
    """Return one `tabular` for both columns of a page, with a block of lines for each dimension.

    Whatever comes from outside is escaped: the ten signs that LaTeX does not take literally.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
    """
    types = dict(_LATEX_COLUMNS)
    if any(len(row.entrant_id) > _LONG_NAME for rows in leaderboard.values() for row in rows):
        types["entrant_id"] = "p{6.6em}"
    columns = select_columns(LeaderboardRow, *types)
    tables = {name: ReportTable.of(rows, columns) for name, rows in leaderboard.items()}
    return _NOTE + table_latex(tables, columns=[*types.values()])


_LONG_NAME = 14
"""Characters of a name that fits beside the numbers."""
_LATEX_COLUMNS = {
    "rank": "r",
    "entrant_id": "l",
    "rating": "S[table-format=4.1]",
    "interval": "r",
    "group": "l",
    "n": "S[table-format=5.0]",
    "win_rate": "r",
}
