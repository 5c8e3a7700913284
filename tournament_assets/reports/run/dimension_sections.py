"""What the report says about one dimension, ready to be filled into the templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.figures.figures import WinRate, win_rate_matrix
from tournament_assets.reports.formatting import ABSENT, format_count_of, format_gap
from tournament_assets.reports.leaderboard import (
    by_dimension,
    leaderboard_cells,
    with_strengths,
)
from tournament_assets.reports.rating_method_tables import (
    comparison_notes,
    disagreement_sentences,
    scale_sentence,
    side_by_side_cells,
    sweep_sentence,
    sweep_table,
)
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.reports.run.report_contents import ReportContents
from tournament_assets.reports.separation import (
    MOST_PAIRS,
    UnseparatedPair,
    separation,
    unseparated_pairs,
    unseparated_sentence,
    verdict_sentence,
)
from tournament_assets.storage.tables import table_rows

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WinCell:
    """One cell of a win grid: whose it is, what it says, and how it is shaded."""

    entrant: str
    other: str
    text: str
    count: str
    rate: float | None


@dataclass(frozen=True, slots=True)
class DimensionSection:
    """What the page says about one dimension."""

    name: str
    verdict: str
    scale_sentence: str | None
    price: str
    ladder: ReportTable
    notes: tuple[str, ...]
    order: tuple[str, ...]
    unseparated: tuple[UnseparatedPair, ...]
    unseparated_sentence: str
    win_cells: tuple[tuple[WinCell, ...], ...]
    k_sweep: ReportTable
    k_sentence: str
    models: ReportTable
    model_sentences: tuple[str, ...]
    model_notes: tuple[str, ...]


def dimension_sections(contents: ReportContents) -> list[DimensionSection]:
    """Return what the page says about every dimension, in the order of the leaderboard."""
    rows = table_rows("leaderboard", contents.leaderboard)
    return [
        _section(contents, dimension, members) for dimension, members in by_dimension(rows).items()
    ]


def overview_table(contents: ReportContents) -> ReportTable:
    """Return one row a dimension: who is first, how clearly, on how much, and at what price."""
    rows = table_rows("leaderboard", contents.leaderboard)
    return ReportTable(
        headers=(
            "dimension",
            "first",
            "gap to the next",
            "separated from",
            "decisive pairs of those judged",
            "inconsistent",
            "same text of all",
            "judging cost",
        ),
        rows=tuple(
            _overview_row(contents, dimension, members)
            for dimension, members in by_dimension(rows).items()
        ),
        n_labels=2,
    )


def _overview_row(contents: ReportContents, dimension: str, rows: Rows) -> tuple[str, ...]:
    found = separation(rows)
    pairs = table_rows("win_rates", contents.win_rates[dimension])
    judged = sum(row["judged"] for row in pairs)
    decisive = sum(row["wins_a"] + row["wins_b"] for row in pairs)
    inconsistent = sum(row["inconsistent"] for row in pairs)
    cost = _price(contents, dimension) or ABSENT
    same = sum(row["same_text"] for row in pairs)
    counts = (
        format_count_of(decisive, judged),
        format_count_of(inconsistent, judged),
        format_count_of(same, same + judged + sum(row["unjudged"] for row in pairs)),
        cost,
    )
    if found.leader is None or found.runner_up is None:
        return (dimension, found.leader or ABSENT, ABSENT, ABSENT, *counts)
    return (
        dimension,
        found.leader,
        ABSENT
        if found.lead is None
        else format_gap(found.lead).removesuffix(" Elo points").removesuffix(" Elo point"),
        f"{len(found.separated)} of {len(found.separated) + len(found.not_separated)}",
        *counts,
    )


def _price(contents: ReportContents, dimension: str) -> str:
    if dimension not in contents.prices:
        return ""
    price = contents.prices[dimension]
    return "an unknown amount" if price is None else format_usd(price)


def _section(contents: ReportContents, dimension: str, rows: Rows) -> DimensionSection:
    found = separation(rows)
    order = tuple(row["entrant_id"] for row in rows)
    elo_rows = table_rows("elo_ratings", contents.elo_ratings[dimension])
    model_rows = table_rows("model_comparison", contents.model_comparison[dimension])
    pair_rows = table_rows("win_rates", contents.win_rates[dimension])
    unseparated = unseparated_pairs(rows, pair_rows)
    n_rated = sum(bool(row["n_entrant_matches"]) for row in rows)
    return DimensionSection(
        name=dimension,
        verdict=verdict_sentence(rows, dimension=dimension, confidence=contents.confidence),
        scale_sentence=(
            None
            if found.leader is None or found.runner_up is None
            else scale_sentence(model_rows, upper=found.leader, lower=found.runner_up)
        ),
        price=_price(contents, dimension),
        ladder=with_strengths(leaderboard_cells(rows), rows),
        notes=tuple(f"{row['entrant_id']}: {row['note']}." for row in rows if row["note"]),
        order=order,
        unseparated=tuple(unseparated[:MOST_PAIRS]),
        unseparated_sentence=unseparated_sentence(len(unseparated), n_rated),
        win_cells=_win_cells(pair_rows, order),
        k_sweep=sweep_table(elo_rows, order),
        k_sentence=sweep_sentence(elo_rows),
        models=side_by_side_cells(model_rows, order),
        model_sentences=tuple(disagreement_sentences(model_rows)),
        model_notes=tuple(comparison_notes(model_rows)),
    )


def _win_cells(rows: Rows, order: Sequence[str]) -> tuple[tuple[WinCell, ...], ...]:
    return tuple(
        tuple(_win_cell(name, other, cell) for other, cell in zip(order, line, strict=True))
        for name, line in zip(order, win_rate_matrix(rows, order), strict=True)
    )


def _win_cell(name: str, other: str, cell: WinRate | None) -> WinCell:
    if cell is None:
        return WinCell(name, other, "" if name == other else ABSENT, "", None)
    return WinCell(name, other, f"{100 * cell.rate:.0f} %", cell.count, cell.rate)
