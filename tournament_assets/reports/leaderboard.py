"""The leaderboard, also in LaTeX: who leads on a dimension, and how certain that is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace

import pandas as pd

from tournament_assets.audits.first_place import NOT_FIRST, FirstPlaceSupport
from tournament_assets.ratings.comparison_bars import comparison_bars
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, WIN_SHARE
from tournament_assets.reports.claims import Statements, pair_records
from tournament_assets.reports.report_tables import (
    Cell,
    Console,
    ReportSection,
    ReportTable,
    print_table,
    print_text,
    table_csv,
    table_latex,
)
from tournament_assets.reports.statements import verdict_sentence
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    LeaderboardRow,
    RatingRow,
    WinRateRow,
    by_dimension,
)
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_interval,
    format_rating,
    format_share,
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
        judge_label: The kind of judge.
        stops: The goal at which judging of a pair stops; None where every pair is judged.
        support: What the first place rests on.

    Raises:
        ValueError: If the tables hold more than one dimension.
    """
    elo = {row.entrant_id: row for row in rows_of(EloRow, elo_ratings) if row.is_primary}
    everything = list(rows_of(RatingRow, ratings))
    strengths = [row for row in everything if row.method == BRADLEY_TERRY]
    pairs = list(rows_of(WinRateRow, win_rates))
    dimensions = {
        *(row.dimension for row in elo.values()),
        *(row.dimension for row in strengths),
        *(row.dimension for row in pairs),
    }
    if len(dimensions) > 1:
        raise ValueError(
            f"the tables are of dimensions {sorted(dimensions)!r}; expected one; "
            "build one leaderboard per dimension"
        )
    records = pair_records(pairs)
    copies = {
        row.entrant_id: tuple(
            other
            for (entrant, other), record in records.items()
            if entrant == row.entrant_id and record.is_all_same_text
        )
        for row in strengths
    }
    first = next((row.entrant_id for row in strengths if row.rank == 1), None)
    shares = {row.entrant_id: row for row in everything if row.method == WIN_SHARE}
    settled = Counter[str]()
    for pair in pairs:
        for name in (pair.entrant_a, pair.entrant_b):
            settled[name] += pair.judged + pair.same_text
    rows = [
        LeaderboardRow(
            dimension=row.dimension,
            rank=row.rank,
            entrant_id=row.entrant_id,
            rating=row.rating,
            low=row.low,
            high=row.high,
            rank_best=row.rank_best,
            rank_worst=row.rank_worst,
            shown_above=row.shown_above,
            group=row.group,
            win_rate=shares[row.entrant_id].rating if row.entrant_id in shares else None,
            n=settled[row.entrant_id],
            elo=elo[row.entrant_id].mean,
            elo_sem=elo[row.entrant_id].sem,
            note=row.note,
            same_answers_as=copies[row.entrant_id],
            lead_rests_on=own.prompts,
            lead_rests_on_at_least=own.at_least or None,
            judge_model=judge_model,
            judge=judge_label,
            stops=stops,
        )
        for row in strengths
        for own in (support if row.entrant_id == first else NOT_FIRST,)
    ]
    return _with_bars(rows, pairs)


def _with_bars(
    rows: Sequence[LeaderboardRow], win_rates: Sequence[WinRateRow]
) -> list[LeaderboardRow]:
    """Return the rows with comparison bars, for entrants that an interval says something of."""
    found = Statements.of(rows, win_rates, dimension=rows[0].dimension if rows else "")
    ratings = {
        row.entrant_id: row.rating
        for row in found.placed
        if row.rating is not None and row.low is not None and row.high is not None
    }
    if not ratings:
        return list(rows)
    pairs = {names: pair for names, pair in found.pairs.items() if {*names} <= ratings.keys()}
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
    columns = {name: cell for name, cell in _CELLS.items() if name not in _LATEX_ONLY}
    return _cells_of(rows, {**columns, **(beside or {})})


def _cells_of(
    rows: Sequence[LeaderboardRow], columns: Mapping[str, Cell[LeaderboardRow]]
) -> ReportTable:
    spare = tuple(place for place, name in enumerate(columns) if name == "Elo ± SEM")
    return replace(ReportTable.of(rows, columns, n_labels=2), spare=spare)


def format_places(row: LeaderboardRow) -> str:
    """Return the range of an entrant's possible ranks, such as 2–5; nothing without one."""
    best, worst = row.rank_best, row.rank_worst
    return "" if best is None else f"{best}" if best == worst else f"{best}–{worst}"


_MOST_LETTERS = 3
"""More letters than these tell less than the places beside them."""


def _places(row: LeaderboardRow) -> str:
    letters = (row.group or "").split()
    shown = letters if len(letters) <= _MOST_LETTERS else ()
    return " ".join((format_places(row), *shown)) or ABSENT


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}"


_CELLS: Mapping[str, Cell[LeaderboardRow]] = {
    "rank": lambda row: row.rank,
    "entrant": lambda row: row.entrant_id,
    "rating": lambda row: "not rated" if row.rating is None else format_rating(row.rating),
    "interval": lambda row: (
        None if row.rating is None else format_interval(row.low, row.high, absent="unbounded")
    ),
    "places and group": _places,
    "group": lambda row: row.group or None,
    "win rate": lambda row: format_share(row.win_rate),
    "win rate, %": lambda row: _number(None if row.win_rate is None else 100 * row.win_rate),
    "pairs": lambda row: row.n,
    "Elo ± SEM": lambda row: None if row.elo is None else f"{row.elo:.1f} ± {_number(row.elo_sem)}",
}
"""The columns of a leaderboard."""
_LATEX_ONLY = ("group", "win rate, %")


def interval_notes(*, confidence: float) -> tuple[str, ...]:
    """Return notes that explain ratings, intervals, places and groups."""
    share = format_confidence(confidence)
    return (
        f"rating: Bradley-Terry in Elo points, ties as halves; interval ({share}): whole prompts "
        "resampled.",
        f"places and letters ({share}, all pairs together): within a letter neither of two is "
        "better.",
        "Elo ± SEM: the mean over orderings of the decisive pairs, and its order noise.",
    )


def leaderboard_sections(
    rows: Sequence[LeaderboardRow],
    win_rates: Sequence[WinRateRow] = (),
    *,
    confidence: float,
    equivalent_within: float,
) -> list[ReportSection]:
    """Return a section per dimension, its verdict first, and one with notes on reading them.

    Args:
        rows: Rows of table "leaderboard", of one dimension or several.
        win_rates: Rows of table "win_rates" of the same dimensions; for the leader's record against
            the next.
        confidence: With which all claims of a dimension hold together.
        equivalent_within: The largest difference that does not matter, in Elo points.
    """
    terms = {"confidence": confidence, "equivalent_within": equivalent_within}
    notes = (*_judge_lines(rows), *interval_notes(confidence=confidence))
    return [
        *(
            ReportSection(
                dimension,
                (verdict_sentence(members, win_rates, dimension=dimension, **terms),),
                ((dimension, leaderboard_cells(members)),),
            )
            for dimension, members in by_dimension(rows).items()
        ),
        ReportSection("", notes),
    ]


def print_leaderboard(
    frame: pd.DataFrame,
    console: Console,
    *,
    win_rates: Sequence[WinRateRow] = (),
    confidence: float,
    equivalent_within: float,
    title: str = "",
    question: str = "",
    first_lines: Sequence[str] = (),
) -> None:
    """Print a table and a verdict per dimension, and what the intervals cover.

    Args:
        frame: Table "leaderboard".
        title: The title above the tables; none if empty.
        question: The question that it answers, if one is given.
        win_rates: Rows of table "win_rates" of the same dimensions.
        confidence: With which all claims of a dimension hold together.
        equivalent_within: The largest difference that does not matter, in Elo points.
        first_lines: What a reader must know before the first table, such as a judge outage.
    """
    rows = list(rows_of(LeaderboardRow, frame))
    for line in first_lines:
        print_text(line, console, style="bold red")
        console.print()
    for heading, style in ((title, "bold underline"), (question, "italic")):
        if heading:
            print_text(heading, console, style=style)
    for dimension, members in by_dimension(rows).items():
        print_table(dimension, _for_terminal(leaderboard_cells(members)), console)
        console.print()
        sentence = verdict_sentence(
            members,
            win_rates,
            dimension=dimension,
            confidence=confidence,
            equivalent_within=equivalent_within,
        )
        print_text(sentence, console)
    console.print()
    for line in (*_judge_lines(rows), *interval_notes(confidence=confidence)):
        print_text(line, console, style="dim")


_TERMINAL_HEADERS = {"rank": "#", "places and group": "places\ngroup", "Elo ± SEM": "Elo\n± SEM"}
"""Headers shorter than the table's own."""


def _for_terminal(table: ReportTable) -> ReportTable:
    return replace(
        table, headers=tuple(_TERMINAL_HEADERS.get(each, each) for each in table.headers)
    )


def _judge_lines(rows: Sequence[LeaderboardRow]) -> list[str]:
    return sorted({f"judge: {row.judge_title}; model: {row.judge_model}" for row in rows})


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
    rows = [row for rows in leaderboard.values() for row in rows]
    table = _cells_of(rows, {name: _CELLS[name] for name in _LATEX_COLUMNS})
    is_long = max((len(row.entrant_id) for row in rows), default=0) > _LONG_NAME
    return _NOTE + table_latex(
        table,
        columns=[
            *({**_LATEX_COLUMNS, "entrant": "p{6.6em}"} if is_long else _LATEX_COLUMNS).values()
        ],
        blocks=[(dimension, len(rows)) for dimension, rows in leaderboard.items()],
    )


def leaderboard_csv(leaderboard: Mapping[str, Sequence[LeaderboardRow]]) -> bytes:
    """Return every column of table "leaderboard" as CSV; names in a list are separated by spaces.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
    """
    rows = [asdict(row) for rows in leaderboard.values() for row in rows]
    columns = [field.name for field in fields(LeaderboardRow)]
    return table_csv(
        columns,
        (
            [" ".join(row[name]) if isinstance(row[name], tuple) else row[name] for name in columns]
            for row in rows
        ),
    )


_LONG_NAME = 14
"""Characters of a name that fits beside the numbers."""
_LATEX_COLUMNS = {
    "rank": "r",
    "entrant": "l",
    "rating": "S[table-format=4.1]",
    "interval": "r",
    "group": "l",
    "pairs": "S[table-format=5.0]",
    "win rate, %": "S[table-format=3.1]",
}
