"""Tables of the judges: a row each, and their agreement, pairwise and overall."""

from collections.abc import Mapping, Sequence

from tournament_assets.reports.report_tables import Cell, ReportSection, ReportTable
from tournament_assets.tournament.asset_rows import MeasureRow, by_dimension
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.formatting import (
    format_confidence,
    format_estimate,
    format_number,
)

NOT_PEOPLE = (
    "Agreement among judges is not agreement with people: judges can share an error, above all "
    "those of one family, and no number here can show it; human battles can."
)
_PANEL_WORDS = {
    "unanimous": "all who were asked say the same",
    "fleiss_kappa": "Fleiss' kappa",
    "krippendorff_alpha": "Krippendorff's alpha, ordinal",
}


Families = Mapping[str, str]
"""The families that a config names, by model."""


def judges_table(rows: Sequence[MeasureRow], families: Families) -> ReportTable:
    """Return a row for each judge of one dimension.

    Args:
        rows: Rows of table "jury" of one dimension.
        families: The families that a config names, by model.
    """
    judges = [row for row in rows if row.measure == "weight"]
    found = {(row.measure, row.subject): row for row in rows if row.other is None}

    def estimate(name: str) -> Cell[MeasureRow]:
        return lambda row: format_estimate(found[name, row.subject].estimate)

    return ReportTable.of(
        judges,
        {
            "judge": lambda row: row.subject,
            "family": lambda row: families.get(row.subject or ""),
            "weight": lambda row: format_number(row.value),
            "discrimination (interval)": estimate("discrimination"),
            "odds for the first slot (interval)": estimate("slot_odds"),
            "verdicts": lambda row: row.n,
            "silent": lambda row: found["silent", row.subject].n,
            "note": lambda row: found["discrimination", row.subject].note or "",
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
    found = {(row.measure, row.subject, row.other): row for row in rows}

    def is_one_family(row: MeasureRow) -> bool:
        first, second = (families.get(name or "") for name in (row.subject, row.other))
        return first is not None and first == second

    def kappa(row: MeasureRow) -> MeasureRow:
        return found.get(("kappa", row.subject, row.other), row)

    return ReportTable.of(
        [
            *(row for row in rows if row.measure == "agreement"),
            *(row for row in rows if row.measure in _PANEL_WORDS),
        ],
        {
            "judges": lambda row: (
                f"all: {_PANEL_WORDS[row.measure]}"
                if row.measure in _PANEL_WORDS
                else f"{row.subject} and {row.other}"
            ),
            "one family": lambda row: "yes" if is_one_family(row) else "",
            "same verdict (interval)": lambda row: (
                format_estimate(row.estimate) if row.measure in ("agreement", "unanimous") else None
            ),
            "kappa (interval)": lambda row: (
                None if row.measure == "unanimous" else format_estimate(kappa(row).estimate)
            ),
            "pairs": lambda row: row.n,
            "silent": lambda row: found["silent", row.subject, row.other].n,
            "note": lambda row: kappa(row).note or "",
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
    families, confidence = config.families, config.ratings.confidence
    sentences = []
    is_panel = any(row.measure == "agreement" for row in rows)
    if is_panel:
        sentences.append(NOT_PEOPLE)
    sentences.append(
        "Discrimination is how much a judge's verdicts are about the entrants (1 is the judges' "
        "mean); the odds are those by which it prefers what is shown first between equals "
        "(1 is no preference). Both are fitted with the ratings, without a label of people. "
        f"Intervals are at {format_confidence(confidence)} and by prompt. A judge that was asked "
        "and says nothing is silent, and stays in the share of unanimous pairs."
    )
    tables = []
    for dimension, own in by_dimension(rows).items():
        tables.append((dimension, judges_table(own, families)))
        if is_panel:
            tables.append((f"{dimension}: agreement", agreement_table(own, families)))
    return ReportSection(
        "The judges",
        tuple(sentences),
        tuple(tables),
        finding="who judged, how well they tell entrants apart, and how far they agree",
    )
