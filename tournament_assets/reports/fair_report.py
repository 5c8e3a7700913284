"""What `tournament report` says: the fair comparison for terminals, Markdown and scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.fair_comparison import fair_section
from tournament_assets.reports.formatting import join_names
from tournament_assets.reports.rendering import ReportTable, render_template
from tournament_assets.reports.terminal import print_table, shown

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ReportTable(
    headers=("shown as", "column of fair_comparison", "rows"),
    rows=(
        ("common: rank, all: rank, planned: rank", "share_rank", "basis = common, all, planned"),
        ("win share", "share (points / pairs)", "of the same basis"),
        ("rating", "rating", "basis = common, all"),
        ("interval behind a rating", "sampling_low, sampling_high", "of the same basis"),
        ("pairs judged of planned", "pairs", "basis = all, and basis = planned"),
        ("(judge's family)", "same_family", "basis = common"),
        ("prompts in a sentence", "prompts", "basis = common, and basis = planned"),
        ("next below, gap", "next_below, gap", "basis = common"),
        ("interval of the difference", "gap_low, gap_high", "basis = common"),
        ("beyond or within noise", "gap_beyond_noise", "basis = common"),
        ("by, stratum", "stratum_by, stratum", "basis = common; elsewhere stratum_by = all"),
    ),
    n_labels=3,
)


@dataclass(frozen=True, slots=True)
class FairReport:
    """A fair comparison and what it was made of.

    Attributes:
        tournament_id: Whose it is.
        mode: `pilot` or `headline`.
        judge: What kind of judge that was.
        confidence: Coverage of the intervals.
        rows: Rows of table "fair_comparison".
        excluded: Entrants that were left out; then the rows are not the stored ones.
        version: The content hash of the rows, which is that of the stored table if nobody was left
            out.
        page: Where the newest run's page is; a sentence that says why if there is none.
    """

    tournament_id: str
    mode: str
    judge: str
    confidence: float
    rows: Sequence[Mapping[str, Any]]
    excluded: tuple[str, ...]
    version: str
    page: str


def fair_markdown(report: FairReport) -> str:
    """Return the comparison as Markdown, with the column that every number comes from.

    Args:
        report: The comparison.
    """
    section = fair_section(report.rows, confidence=report.confidence)
    return render_template(
        "fair_comparison.md.jinja",
        title=f"Fair comparison: {report.tournament_id}, {report.mode}",
        facts=_facts(report),
        sentences=section.sentences,
        tables=section.tables,
        origin=_origin(report),
        columns=_COLUMNS,
    )


def fair_values(report: FairReport) -> dict[str, Any]:
    """Return every number of the comparison, for JSON.

    Args:
        report: The comparison.
    """
    section = fair_section(report.rows, confidence=report.confidence)
    return {
        "tournament": report.tournament_id,
        "mode": report.mode,
        "judge": report.judge,
        "confidence": report.confidence,
        "excluded": list(report.excluded),
        "content_hash": report.version,
        "page": report.page,
        "summary": list(section.sentences),
        "fair_comparison": [dict(row) for row in report.rows],
    }


def print_fair_report(report: FairReport, console: "Console") -> None:
    """Print the comparison on a terminal.

    Args:
        report: The comparison.
        console: Where to print.
    """
    from rich.text import Text  # loading the definitions does not pay for it

    section = fair_section(report.rows, confidence=report.confidence)
    for line in _facts(report):
        console.print(Text(shown(line), style="dim"))
    for title, cells in section.tables:
        print_table(title, cells, console)
    console.print()
    for sentence in section.sentences:
        console.print(Text(shown(sentence)))


def _facts(report: FairReport) -> list[str]:
    facts = [
        f"tournament: {report.tournament_id}, mode: {report.mode}",
        f"judge: {report.judge}; model: "
        f"{join_names(sorted({str(row['judge_model']) for row in report.rows}))}",
        f"page: {report.page}",
    ]
    if report.excluded:
        facts.append(f"left out, as if they had not taken part: {join_names(report.excluded)}")
    return facts


def _origin(report: FairReport) -> str:
    if report.excluded:
        return (
            "Rated anew without those left out, from the stored tables judge_verdicts, "
            "selected_prompts and entrant_responses, by what makes the table fair_comparison; its "
            f"rows would have the content hash {report.version}. Prompts that only somebody left "
            "out did not answer were never judged, so they are missing here too."
        )
    return (
        f"The table fair_comparison of the mode {report.mode}, content hash {report.version}; it "
        "has a row for every dimension, stratum, basis and entrant."
    )
