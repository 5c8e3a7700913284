"""The judges as people read them: a line each, how far every two agree, and all together."""

from collections.abc import Sequence

from tournament_assets.reports.report_tables import ReportSection, ReportTable
from tournament_assets.tournament.asset_rows import JuryRow
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.tournament.formatting import (
    ABSENT,
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


def judges_table(rows: Sequence[JuryRow]) -> ReportTable:
    """Return a line for each judge of one dimension.

    Args:
        rows: Rows of table "jury" of one dimension.
    """
    judges = [row for row in rows if row.measure == "weight"]
    found = {(row.measure, row.subject): row for row in rows}
    return ReportTable(
        headers=(
            *("judge", "family", "weight", "discrimination (interval)"),
            *("odds for the first slot (interval)", "verdicts", "silent", "note"),
        ),
        rows=tuple(
            (
                row.subject or ABSENT,
                row.family or ABSENT,
                format_number(row.value),
                _interval(found["discrimination", row.subject]),
                _interval(found["slot_odds", row.subject]),
                str(row.n),
                str(row.n_silent),
                found["discrimination", row.subject].note or "",
            )
            for row in judges
        ),
        n_labels=2,
    )


def agreement_table(rows: Sequence[JuryRow]) -> ReportTable:
    """Return how far every two judges of one dimension agree, and all together.

    Args:
        rows: Rows of table "jury" of one dimension.
    """
    found = {(row.measure, row.subject, row.other): row for row in rows}
    lines = [
        (
            f"{row.subject} and {row.other}",
            "yes" if row.family and row.family == row.other_family else "",
            _interval(row),
            _interval(found["kappa", row.subject, row.other]),
            str(row.n),
            str(row.n_silent),
            found["kappa", row.subject, row.other].note or "",
        )
        for row in rows
        if row.measure == "agreement"
    ]
    lines += [
        (
            f"all: {_PANEL_WORDS[row.measure]}",
            "",
            _interval(row) if row.measure == "unanimous" else ABSENT,
            ABSENT if row.measure == "unanimous" else _interval(row),
            str(row.n),
            str(row.n_silent),
            row.note or "",
        )
        for row in rows
        if row.measure in _PANEL_WORDS
    ]
    return ReportTable(
        headers=(
            *("judges", "one family", "same verdict (interval)", "kappa (interval)"),
            *("pairs", "silent", "note"),
        ),
        rows=tuple(lines),
    )


def jury_section(rows: Sequence[JuryRow], *, confidence: float) -> ReportSection:
    """Return the section of a report on who judged.

    Args:
        rows: Rows of table "jury", all dimensions.
        confidence: Coverage of the intervals.
    """
    sentences = []
    is_panel = any(row.measure == "agreement" for row in rows)
    if is_panel:
        sentences.append(NOT_PEOPLE)
    sentences.append(
        "Discrimination is how much a judge's verdicts are about the entrants, relative to the "
        "other judges; the odds are those by which it prefers what is shown first between equals "
        "(1 is no preference). Both are fitted with the ratings, without a label of people. "
        f"Intervals are at {format_confidence(confidence)} and by prompt. A judge that was asked "
        "and says nothing is silent, and stays in the share of unanimous pairs."
    )
    tables = []
    for dimension in dict.fromkeys(row.dimension for row in rows):
        own = [row for row in rows if row.dimension == dimension]
        tables.append((dimension, judges_table(own)))
        if is_panel:
            tables.append((f"{dimension}: agreement", agreement_table(own)))
    return ReportSection(
        "The judges",
        tuple(sentences),
        tuple(tables),
        finding="who judged, how well they tell entrants apart, and how far they agree",
    )


def _interval(row: JuryRow) -> str:
    return format_estimate(Estimate(row.value, row.low, row.high))
