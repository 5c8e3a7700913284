"""The leaderboard, also in LaTeX: who leads on a dimension, and how certain that is."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace

import pandas as pd

from tournament_assets.ratings.rating_methods import BRADLEY_TERRY
from tournament_assets.reports.rating_method_tables import rating_table
from tournament_assets.reports.report_tables import (
    Console,
    ReportSection,
    ReportTable,
    print_table,
    print_text,
    table_csv,
    table_latex,
)
from tournament_assets.reports.separation import (
    is_rated,
    pair_records,
    verdict_sentence,
)
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    RatingRow,
    WinRateRow,
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
    lead_rests_on: Sequence[str] = (),
) -> list[EloRow]:
    """Return the rows of table "leaderboard" for one dimension, best entrant first.

    Args:
        elo_ratings: Table "elo_ratings"; only the primary K-factor is used.
        ratings: Table "ratings", of which Bradley-Terry is shown.
        win_rates: Table "win_rates".
        judge_label: The kind of judge.
        lead_rests_on: Prompts such that without any single one of them the leader would not be
            ahead.

    Raises:
        ValueError: If the tables hold more than one dimension.
    """
    elo_rows = list(rows_of(EloRow, elo_ratings))
    strength_rows = list(rows_of(RatingRow, ratings))
    pair_rows = list(rows_of(WinRateRow, win_rates))
    dimensions = {
        *(row.dimension for row in elo_rows),
        *(row.dimension for row in strength_rows),
        *(row.dimension for row in pair_rows),
    }
    if len(dimensions) > 1:
        raise ValueError(
            f"the tables are of dimensions {sorted(dimensions)!r}; expected one; "
            "build one leaderboard per dimension"
        )
    strengths = {row.entrant_id: row.rating for row in strength_rows if row.method == BRADLEY_TERRY}
    primary = [row for row in elo_rows if row.is_primary]
    records = pair_records(pair_rows)
    copies = {
        row.entrant_id: [
            other
            for (entrant, other), record in records.items()
            if entrant == row.entrant_id and record.is_all_same_text
        ]
        for row in primary
    }
    ranks = _shared_ranks(primary, copies)
    ordered = sorted(
        primary,
        key=lambda row: (
            ranks[row.entrant_id] is None,
            ranks[row.entrant_id],
            math.inf if row.mean is None else -row.mean,
            row.entrant_id,
        ),
    )
    placed = [
        row.entrant_id
        for row in ordered
        if row.n_entrant_matches and ranks[row.entrant_id] is not None
    ]
    leads = placed[0] if placed else None
    return [
        replace(
            row,
            rank=ranks[row.entrant_id],
            same_answers_as=tuple(copies[row.entrant_id]),
            lead_rests_on=tuple(lead_rests_on) if row.entrant_id == leads else (),
            win_rate=_overall_win_rate(row.entrant_id, pair_rows),
            bradley_terry=strengths.get(row.entrant_id),
            judge_model=judge_model,
            judge=judge_label,
        )
        for row in ordered
    ]


def _shared_ranks(
    rows: Sequence[EloRow], copies: Mapping[str, Sequence[str]]
) -> dict[str, int | None]:
    """Give equal displayed ratings, and entrants with equal responses, the better rank."""
    own = {row.entrant_id: row.rank for row in rows}
    shown = {
        row.entrant_id: round(row.mean, 1) for row in rows if is_rated(row) and row.mean is not None
    }
    ranks = {}
    for name, rank in own.items():
        alike = {name, *copies[name]}
        alike.update(other for other in shown if name in shown and shown[other] == shown[name])
        shared = [other for each in alike if (other := own[each]) is not None]
        ranks[name] = min(shared, default=rank)
    return ranks


def _overall_win_rate(entrant_id: str, pair_rows: Sequence[WinRateRow]) -> float | None:
    points = 0.0
    settled = 0
    for pair in pair_rows:
        level = pair.ties + pair.inconsistent + pair.same_text
        for entrant, wins in (("entrant_a", "wins_a"), ("entrant_b", "wins_b")):
            if getattr(pair, entrant) == entrant_id:
                points += getattr(pair, wins) + level / 2
                settled += pair.judged + pair.same_text
    return points / settled if settled else None


def elo_table(
    rows: Sequence[EloRow],
    columns: Sequence[str],
    more: Mapping[str, Callable[[EloRow], str]] | None = None,
) -> ReportTable:
    """Return some columns of Elo ratings as text, for every target.

    Args:
        columns: Names of `_CELLS`, in the order in which they are to stand.
        more: What stands in further columns at the right, by their headers.
    """
    spare = tuple(place for place, name in enumerate(columns) if name == "order interval")
    cells = {**{name: _CELLS[name] for name in columns}, **(more or {})}
    return replace(rating_table(rows, cells, n_labels=2), spare=spare)


def leaderboard_cells(rows: Sequence[EloRow], *, strengths: bool = False) -> ReportTable:
    """Return the rows as text, without the Elo columns if Elo rates nobody.

    Args:
        strengths: Also says what Bradley-Terry makes of them, which counts what nobody won, too.
    """
    elo = () if _has_order_only(rows) else ("mean ± SEM", "order interval", "sampling interval")
    names = ("rank", "entrant", *elo, "places and group", "decisive matches", "win rate")
    return elo_table(rows, (*names, *(("Bradley-Terry",) if strengths else ())))


def _has_order_only(rows: Sequence[EloRow]) -> bool:
    """Whether entrants have places but none has an Elo rating."""
    has_places = any(row.n_entrant_matches and row.rank is not None for row in rows)
    return has_places and not any(map(is_rated, rows))


def _known_cells(rows: Sequence[EloRow]) -> ReportTable:
    return leaderboard_cells(rows, strengths=_has_order_only(rows))


def _strength_notes(rows: Sequence[EloRow]) -> list[str]:
    if not any(map(_has_order_only, by_dimension(rows).values())):
        return []
    return ["Bradley-Terry, in Elo points: pairs without a winner count half a win for each."]


def _places(row: EloRow) -> str:
    if row.rank_best is None:
        return ABSENT
    best, worst = row.rank_best, row.rank_worst
    return f"{best if best == worst else f'{best}–{worst}'} {row.group}"


def _if_rated(cell: Callable[[EloRow], str], absent: str = ABSENT) -> Callable[[EloRow], str]:
    return lambda row: cell(row) if is_rated(row) else absent


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}"


def _sampling(row: EloRow) -> str:
    return format_interval(row.sampling_low, row.sampling_high, absent="unbounded")


_CELLS: Mapping[str, Callable[[EloRow], str]] = {
    "rank": lambda row: str(row.rank) if row.n_entrant_matches and row.rank else ABSENT,
    "entrant": lambda row: row.entrant_id,
    "mean ± SEM": _if_rated(lambda row: f"{row.mean:.1f} ± {_number(row.sem)}", "not rated"),
    "mean": _if_rated(lambda row: _number(row.mean)),
    "SEM": _if_rated(lambda row: _number(row.sem)),
    "order interval": _if_rated(
        lambda row: format_interval(row.order_low, row.order_high, absent=ABSENT)
    ),
    "sampling interval": _if_rated(_sampling),
    "places and group": _places,
    "group": lambda row: row.group or ABSENT,
    "decisive matches": lambda row: f"{row.n_entrant_matches} / {row.n_decisive_matches}",
    "matches": lambda row: str(row.n_entrant_matches),
    "win rate": lambda row: format_share(row.win_rate),
    "Bradley-Terry": lambda row: (
        format_rating(row.bradley_terry) if row.n_entrant_matches else ABSENT
    ),
    "win rate, %": lambda row: _number(None if row.win_rate is None else 100 * row.win_rate),
}
"""The columns of a table of Elo ratings."""


def by_dimension(rows: Sequence[EloRow]) -> dict[str, list[EloRow]]:
    """Return the rows by dimension, in the order of their first rows."""
    groups: dict[str, list[EloRow]] = {}
    for row in rows:
        groups.setdefault(row.dimension, []).append(row)
    return groups


def interval_notes(*, confidence: float) -> tuple[str, ...]:
    """Return notes that explain intervals, places and groups."""
    share = format_confidence(confidence)
    return (
        f"SEM and order interval ({share}): order noise, the same matches in other orders.",
        f"sampling interval ({share}): sampling error, whole prompts resampled; compare with this.",
        f"places and letters ({share}, all pairs together): no significant difference within a "
        "letter.",
    )


def leaderboard_sections(
    rows: Sequence[EloRow], win_rates: Sequence[WinRateRow] = (), *, confidence: float
) -> list[ReportSection]:
    """Return a section per dimension, its verdict first, and one with notes on reading them.

    Args:
        rows: Rows of table "leaderboard", of one dimension or several.
        win_rates: Rows of table "win_rates" of the same dimensions; for the leader's record against
            the next.
    """
    notes = (
        *_judge_lines(rows),
        *interval_notes(confidence=confidence),
        *_strength_notes(rows),
    )
    return [
        *(
            ReportSection(
                dimension,
                (verdict_sentence(members, win_rates, dimension=dimension, confidence=confidence),),
                ((dimension, _known_cells(members)),),
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
    confidence: float = 0.95,
    first_lines: Sequence[str] = (),
) -> None:
    """Print a table and a verdict per dimension, and what the intervals cover.

    Args:
        frame: Table "leaderboard".
        win_rates: Rows of table "win_rates" of the same dimensions.
        first_lines: What a reader must know before the first table, such as a judge outage.
    """
    rows = list(rows_of(EloRow, frame))
    for line in first_lines:
        print_text(line, console, style="bold red")
        console.print()
    for dimension, members in by_dimension(rows).items():
        cells = _known_cells(members)
        print_table(dimension, for_terminal(cells), console)
        console.print()
        sentence = verdict_sentence(members, win_rates, dimension=dimension, confidence=confidence)
        print_text(sentence, console)
    console.print()
    notes = (*interval_notes(confidence=confidence), *_strength_notes(rows))
    for line in (*_judge_lines(rows), *notes):
        print_text(line, console, style="dim")


_TERMINAL_HEADERS = {
    "rank": "#",
    "mean ± SEM": "mean\n± SEM",
    "order interval": "order\ninterval",
    "sampling interval": "sampling\ninterval",
    "places and group": "places\ngroup",
    "decisive matches": "decisive\nown / all",
    "matches": "decisive\nmatches",
}
"""Headers shorter than the table's own."""


def for_terminal(table: ReportTable) -> ReportTable:
    """Return a table of ratings with headers short enough for a terminal."""
    return replace(
        table, headers=tuple(_TERMINAL_HEADERS.get(each, each) for each in table.headers)
    )


def _judge_lines(rows: Sequence[EloRow]) -> list[str]:
    return sorted({f"judge: {row.judge}; model: {row.judge_model}" for row in rows})


_NOTE = (
    "% Needs \\usepackage{booktabs,siunitx}. Mean, SEM and intervals are Elo points. Order: order\n"
    "% noise. Sampling: sampling error, whole prompts resampled. The difference of entrants\n"
    "% that share a letter is not significant. In an article of one column the table needs\n"
    "% \\footnotesize.\n"
)


def leaderboard_latex(leaderboard: Mapping[str, Sequence[EloRow]]) -> str:
    """Return one `tabular` for both columns of a page, with a block of lines for each dimension.

    Whatever comes from outside is escaped: the ten signs that LaTeX does not take literally.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
    """
    rows = [row for rows in leaderboard.values() for row in rows]
    table = elo_table(rows, tuple(_LATEX_COLUMNS))
    is_long = max((len(row.entrant_id) for row in rows), default=0) > _LONG_NAME
    return _NOTE + table_latex(
        replace(table, headers=tuple(each.removesuffix(" interval") for each in table.headers)),
        columns=[
            *({**_LATEX_COLUMNS, "entrant": "p{6.6em}"} if is_long else _LATEX_COLUMNS).values()
        ],
        blocks=[(dimension, len(rows)) for dimension, rows in leaderboard.items()],
    )


def leaderboard_csv(leaderboard: Mapping[str, Sequence[EloRow]]) -> bytes:
    """Return every column of table "leaderboard" as CSV; names in a list are separated by spaces.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
    """
    rows = [asdict(row) for rows in leaderboard.values() for row in rows]
    columns = [field.name for field in fields(EloRow)]
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
    "mean": "S[table-format=4.1]",
    "SEM": "S[table-format=3.1]",
    "order interval": "r",
    "sampling interval": "r",
    "group": "l",
    "matches": "S[table-format=5.0]",
    "win rate, %": "S[table-format=3.1]",
}
