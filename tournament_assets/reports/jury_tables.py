"""Tables of the judges: a row each, and their agreement, pairwise and overall."""

from collections.abc import Mapping, Sequence

from tournament_assets.foundation.formatting import format_confidence
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import Cell, ReportSection, ReportTable, select_columns
from tournament_assets.tournament.asset_rows import MeasureRow, by_dimension
from tournament_assets.tournament.config import TournamentConfig

Families = Mapping[str, str]
"""The families that a config names, by model."""


def measured(
    rows: Sequence[MeasureRow], *measures: str, show: str = "estimate"
) -> Cell[MeasureRow]:
    """Return a column of what was measured of the same judge, entrant, or two of them as a row.

    Args:
        rows: The rows to look among.
        measures: What to look for; the first that was measured counts.
        show: The column of such a row that it shows.
    """
    of_all = {(row.measure, *row.about): row for row in rows}
    (cell,) = select_columns(MeasureRow, show).values()

    def text(row: MeasureRow) -> str | int | None:
        those = (of_all.get((measure, *row.about)) for measure in measures)
        return next((cell(other) for other in those if other is not None), None)

    return text


def judges_table(rows: Sequence[MeasureRow], families: Families) -> ReportTable:
    """Return a row for each judge of one dimension.

    Args:
        rows: Rows of table "jury" of one dimension.
        families: The families that a config names, by model.
    """
    return ReportTable.of(
        [row for row in rows if row.measure == "weight"],
        {
            "judge": lambda row: row.subject,
            "family": lambda row: families.get(row.subject or ""),
            "weight": measured(rows, "weight"),
            "discrimination (interval)": measured(rows, "discrimination"),
            "odds for the first slot (interval)": measured(rows, "slot_odds"),
            "verdicts": measured(rows, "weight", show="n"),
            "silent": measured(rows, "silent", show="n"),
            "note": measured(rows, "discrimination", show="note"),
        },
        n_labels=2,
        subject=(0,),
    )


def agreement_table(rows: Sequence[MeasureRow], families: Families) -> ReportTable:
    """Return the agreement of one dimension's judges, pairwise and overall.

    Args:
        rows: Rows of table "measures" of one dimension.
        families: The families that a config names, by model.
    """

    def one_family(row: MeasureRow) -> str:
        first, second = (families.get(name or "") for name in (row.subject, row.other))
        return "yes" if first is not None and first == second else ""

    return ReportTable.of(
        [row for row in rows if row.measure in ("agreement", "unanimous")],
        {
            "judges": lambda row: f"{row.subject} and {row.other}" if row.other else "all",
            "one family": one_family,
            "same verdict (interval)": measured(rows, "agreement", "unanimous"),
            "kappa; of all: Fleiss' (interval)": measured(rows, "kappa", "fleiss_kappa"),
            "Krippendorff's alpha, ordinal (interval)": measured(rows, "krippendorff_alpha"),
            "effective votes (interval)": measured(rows, "effective_votes"),
            "pairs": measured(rows, "agreement", "unanimous", show="n"),
            "silent": measured(rows, "silent", show="n"),
            "note": measured(rows, "kappa", "fleiss_kappa", show="note"),
        },
    )


def jury_section(
    jury: Sequence[MeasureRow], measures: Sequence[MeasureRow], *, config: TournamentConfig
) -> ReportSection:
    """Return the report section on the judges.

    Args:
        jury: Rows of table "jury", all dimensions.
        measures: Rows of table "measures", all dimensions.
        config: Names families of models, and the coverage of the intervals.
    """
    rows = [row for row in (*jury, *measures) if row.state is None]
    families, confidence = config.families, format_confidence(config.ratings.confidence)
    is_panel = any(row.measure == "agreement" for row in rows)
    tables = []
    for dimension, members in by_dimension(rows).items():
        tables.append((dimension, judges_table(members, families)))
        if is_panel:
            tables.append((f"{dimension}: agreement", agreement_table(members, families)))
    return ReportSection(
        "The judges",
        render_sentences(
            "jury.jinja",
            is_panel=is_panel,
            confidence=confidence,
            in_turn=config.judging.assignment == "in_turn",
        ),
        tuple(tables),
        finding="who judged, how well they tell entrants apart, and how far they agree",
    )
