"""The audits on their own, with the judge's red lights: printed, as Markdown, and for JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tournament_assets.audits.outages import MissingnessCheck, Outage, copy_sentences
from tournament_assets.reports.audit_tables import audit_sections
from tournament_assets.reports.rendering import ReportSection, render_template
from tournament_assets.reports.terminal import print_table, shown
from tournament_assets.reports.trust_section import red_sentences

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Both audits of one mode of a tournament.

    Attributes:
        tournament_id: The tournament.
        mode: Its mode.
        audit: Rows of table "audit".
        prompt_audit: Rows of table "prompt_audit".
        check: What the check `even_missingness` says.
        outages: What must be said first.
        trust: Rows of table "trust_panel", all dimensions.
    """

    tournament_id: str
    mode: str
    audit: Sequence[Mapping[str, Any]]
    prompt_audit: Sequence[Mapping[str, Any]]
    check: MissingnessCheck
    outages: Sequence[Outage]
    trust: Sequence[Mapping[str, Any]]

    @property
    def passed(self) -> bool:
        """Whether nothing is missing that a reader must be told of first, and no light is red."""
        return self.check.passed and not self.outages and not red_sentences(self.trust)

    @property
    def first_sentences(self) -> tuple[str, ...]:
        """What stands before everything else: outages, red lights, and where texts are copies."""
        return (
            *(outage.sentence for outage in self.outages),
            *red_sentences(self.trust),
            *copy_sentences(self.audit),
        )


def print_audit(report: AuditReport, console: "Console", *, limit: int) -> None:
    """Print both audits, what is red first.

    Args:
        report: The audits.
        console: Where to print.
        limit: The most rows of each table about prompts.
    """
    from rich.text import Text  # loading the definitions does not pay for it

    for sentence in report.first_sentences:
        console.print(Text(shown(sentence), style="bold red"))
        console.print()
    for section in _sections(report, limit):
        console.print(Text(shown(section.title), style="bold underline"))
        for sentence in section.sentences:
            console.print(Text(shown(sentence)))
        for title, cells in section.tables:
            print_table(title, cells, console)
        console.print()


def audit_markdown(report: AuditReport, *, limit: int) -> str:
    """Return both audits as a page in Markdown.

    Args:
        report: The audits.
        limit: The most rows of each table about prompts.
    """
    return render_template(
        "sections.md.jinja",
        title=f"{report.tournament_id}, {report.mode}: audit",
        warnings=report.first_sentences,
        sections=_sections(report, limit),
    )


def audit_values(report: AuditReport) -> dict[str, Any]:
    """Return every number of both audits, for JSON; a ratio without bound is the text "inf"."""
    return {
        "tournament": report.tournament_id,
        "mode": report.mode,
        "passed": report.passed,
        "outages": [asdict(outage) for outage in report.outages],
        "even_missingness": {
            "passed": report.check.passed,
            "max_spread": report.check.max_spread,
            "largest_spread": report.check.largest_spread,
            "answers": asdict(report.check.answers),
            "verdicts": {name: asdict(each) for name, each in report.check.verdicts.items()},
        },
        "first_sentences": list(report.first_sentences),
        "audit": [dict(row) for row in report.audit],
        "trust_panel": [dict(row) for row in report.trust],
        "prompt_audit": [
            {**row, "value": "inf" if row["value"] in (math.inf, -math.inf) else row["value"]}
            for row in report.prompt_audit
        ],
    }


def _sections(report: AuditReport, limit: int) -> tuple[ReportSection, ...]:
    return audit_sections(report.audit, report.prompt_audit, check=report.check, limit=limit)
