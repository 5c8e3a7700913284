"""The report: one page, in Markdown for a terminal or a diff, in HTML for a browser."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tournament_assets.adapters.tables import table_rows
from tournament_assets.reports.figures import (
    k_sensitivity_figure,
    ladder_figure,
    ladder_span,
    png_data_uri,
    win_rate_matrix,
)
from tournament_assets.reports.formatting import (
    ABSENT,
    format_confidence,
    format_count_of,
    format_rating,
    format_share,
    join_names,
)
from tournament_assets.reports.leaderboard import by_dimension, leaderboard_cells
from tournament_assets.reports.rendering import ReportTable, render_template
from tournament_assets.reports.separation import verdict_sentence
from tournament_assets.reports.side_by_side import (
    comparison_notes,
    disagreement_sentences,
    side_by_side_cells,
)

_MISSING = {
    "replies_refused": "refused",
    "replies_unreadable": "unreadable",
    "replies_permanent": "impossible",
    "replies_pending": "no reply yet",
}


@dataclass(frozen=True, slots=True, eq=False)
class ReportContents:
    """Everything a report is made from.

    Attributes:
        tournament_id: The tournament's name.
        description: What a reader should know about it.
        mode: `pilot` or `headline`.
        judge_model: The model that judged.
        judge_label: What kind of judge that is.
        judge_is_language_model: Whether its verdicts say anything about quality.
        leaderboard: Table "leaderboard" of all dimensions, which come in its order.
        elo_ratings: Table "elo_ratings" of each dimension.
        model_comparison: Table "model_comparison" of each dimension.
        win_rates: Table "win_rates" of each dimension.
        audit: Table "audit" of all dimensions.
        costs: What was spent on what, as people read it.
        provenance: The hash, seed or version of everything that decides the result.
        command: The command that makes this report again.
        confidence: Coverage of the intervals.
        further_warnings: What else a reader must know before any number.
    """

    tournament_id: str
    description: str
    mode: str
    judge_model: str
    judge_label: str
    judge_is_language_model: bool
    leaderboard: pd.DataFrame
    elo_ratings: Mapping[str, pd.DataFrame]
    model_comparison: Mapping[str, pd.DataFrame]
    win_rates: Mapping[str, pd.DataFrame]
    audit: pd.DataFrame
    costs: Sequence[tuple[str, str]]
    provenance: Sequence[tuple[str, str]]
    command: str
    confidence: float = 0.95
    further_warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WinCell:
    """One cell of a win grid: what it says, and how it is shaded."""

    text: str
    count: str
    rate: float | None


@dataclass(frozen=True, slots=True)
class DimensionSection:
    """What the page says about one dimension, ready to be filled in."""

    name: str
    verdict: str
    ladder: ReportTable
    notes: tuple[str, ...]
    order: tuple[str, ...]
    win_cells: tuple[tuple[WinCell, ...], ...]
    k_sweep: ReportTable
    k_sentence: str
    models: ReportTable
    model_sentences: tuple[str, ...]
    model_notes: tuple[str, ...]


def render_markdown(contents: ReportContents) -> str:
    """Return the report as Markdown: tables and sentences, without pictures."""
    return render_template("report.md.jinja", **_values(contents))


def render_html(contents: ReportContents) -> str:
    """Return the report as one HTML file that needs no other file, script or network."""
    rows = table_rows("leaderboard", contents.leaderboard)
    span = ladder_span(rows)
    ladders, sweeps = {}, {}
    for dimension, members in by_dimension(rows).items():
        elo_rows = table_rows("elo_ratings", contents.elo_ratings[dimension])
        ladders[dimension] = png_data_uri(ladder_figure(members, dimension, span=span))
        sweeps[dimension] = png_data_uri(
            k_sensitivity_figure(elo_rows, judge_label=contents.judge_label)
        )
    return render_template(
        "report.html.jinja", ladder_images=ladders, sweep_images=sweeps, **_values(contents)
    )


def warning_lines(contents: ReportContents) -> list[str]:
    """Return what a reader must know before any number, most important first."""
    lines = []
    if not contents.judge_is_language_model:
        lines.append(f"judge: {contents.judge_label}. These results say nothing about quality.")
    lines.extend(contents.further_warnings)
    rows = table_rows("audit", contents.audit)
    missing = {row["entrant_id"]: 0 for row in rows}
    shown = dict(missing)
    for row in rows:
        missing[row["entrant_id"]] += sum(row[name] for name in _MISSING)
        shown[row["entrant_id"]] += 2 * row["pairs_planned"]
    if any(missing.values()):
        # Every presentation shows two entrants, so it stands in two rows.
        total = format_count_of(math.ceil(sum(missing.values()) / 2), sum(shown.values()) // 2)
        by_entrant = "; ".join(
            f"{name} {format_count_of(count, shown[name])}"
            for name, count in missing.items()
            if count
        )
        lines.append(
            f"{total} presentations have no verdict; they count as nothing, not as ties. "
            f"By entrant: {by_entrant}."
        )
    unanswered = {
        row["entrant_id"]: f"{row['entrant_id']} {row['responses']} of {row['prompts_selected']}"
        for row in rows
        if row["responses"] < row["prompts_selected"]
    }
    if unanswered:
        lines.append(
            "Not everyone answered every prompt. Prompts answered: "
            f"{'; '.join(unanswered.values())}."
        )
    return lines


def _values(contents: ReportContents) -> dict[str, Any]:
    rows = table_rows("leaderboard", contents.leaderboard)
    return {
        "contents": contents,
        "warnings": warning_lines(contents),
        "sections": [
            _section(contents, dimension, members)
            for dimension, members in by_dimension(rows).items()
        ],
        "audits": [
            (dimension, _audit_table(members))
            for dimension, members in by_dimension(table_rows("audit", contents.audit)).items()
        ],
        "confidence": format_confidence(contents.confidence),
    }


def _section(
    contents: ReportContents, dimension: str, rows: Sequence[Mapping[str, Any]]
) -> DimensionSection:
    order = tuple(row["entrant_id"] for row in rows)
    elo_rows = table_rows("elo_ratings", contents.elo_ratings[dimension])
    model_rows = table_rows("model_comparison", contents.model_comparison[dimension])
    return DimensionSection(
        name=dimension,
        verdict=verdict_sentence(rows, dimension=dimension, confidence=contents.confidence),
        ladder=_with_strengths(leaderboard_cells(rows), rows),
        notes=tuple(f"{row['entrant_id']}: {row['note']}." for row in rows if row["note"]),
        order=order,
        win_cells=tuple(
            tuple(_win_cell(cell, is_diagonal=i == j) for j, cell in enumerate(line))
            for i, line in enumerate(
                win_rate_matrix(table_rows("win_rates", contents.win_rates[dimension]), order)
            )
        ),
        k_sweep=_sweep_table(elo_rows, order),
        k_sentence=_sweep_sentence(elo_rows),
        models=side_by_side_cells(model_rows, order),
        model_sentences=tuple(disagreement_sentences(model_rows)),
        model_notes=tuple(comparison_notes(model_rows)),
    )


def _win_cell(cell: tuple[float, int] | None, *, is_diagonal: bool) -> WinCell:
    if cell is None:
        return WinCell("" if is_diagonal else ABSENT, "", None)
    rate, judged = cell
    return WinCell(f"{100 * rate:.0f} %", f"n = {judged}", rate)


def _with_strengths(cells: ReportTable, rows: Sequence[Mapping[str, Any]]) -> ReportTable:
    strengths = [
        format_rating(row["bradley_terry"]) if row["n_entrant_matches"] else ABSENT for row in rows
    ]
    return ReportTable(
        headers=(*cells.headers, "Bradley-Terry"),
        rows=tuple((*line, each) for line, each in zip(cells.rows, strengths, strict=True)),
        n_labels=cells.n_labels,
    )


def _orders_by_k(rows: Sequence[Mapping[str, Any]]) -> dict[float, tuple[str, ...]]:
    orders: dict[float, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["k_factor"], row["rank"])):
        if row["n_entrant_matches"]:
            orders.setdefault(row["k_factor"], []).append(row["entrant_id"])
    return {k_factor: tuple(names) for k_factor, names in orders.items()}


def _sweep_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    orders = _orders_by_k(rows)
    primary = [row["k_factor"] for row in rows if row["is_primary"]]
    if not orders or not primary:
        return "No entrant has a decisive match, so no K-factor gives a rating."
    others = [k for k, order in orders.items() if order != orders[primary[0]]]
    if not others:
        return "The entrants come in the same order at every K-factor tried."
    return (
        f"The order of the entrants depends on K: at K = "
        f"{join_names([f'{k:g}' for k in others])} it is not the one at K = {primary[0]:g}."
    )


def _sweep_table(rows: Sequence[Mapping[str, Any]], order: Sequence[str]) -> ReportTable:
    k_factors = sorted({row["k_factor"] for row in rows})
    means = {
        (row["entrant_id"], row["k_factor"]): row["mean"] if row["n_entrant_matches"] else None
        for row in rows
    }
    return ReportTable(
        headers=("entrant", *(f"K = {k_factor:g}" for k_factor in k_factors)),
        rows=tuple(
            (name, *(format_rating(means.get((name, k_factor))) for k_factor in k_factors))
            for name in order
        ),
    )


def _audit_table(rows: Sequence[Mapping[str, Any]]) -> ReportTable:
    return ReportTable(
        headers=(
            "entrant",
            "prompts answered",
            "empty",
            "cut off",
            "pairs judged",
            "coverage",
            "inconsistent",
            *_MISSING.values(),
        ),
        rows=tuple(
            (
                row["entrant_id"],
                f"{row['responses']} / {row['prompts_selected']}",
                str(row["empty_responses"]),
                str(row["truncated_responses"]),
                f"{row['pairs_judged']} / {row['pairs_planned']}",
                _share_of(row["pairs_judged"], row["pairs_planned"]),
                _share_of(row["pairs_inconsistent"], row["pairs_judged"]),
                *(str(row[name]) for name in _MISSING),
            )
            for row in rows
        ),
    )


def _share_of(part: int, whole: int) -> str:
    return format_share(part / whole if whole else None)
