"""What a reader must know before any number."""

import math

from tournament_assets.adapters.tables import table_rows
from tournament_assets.audits.outages import asked
from tournament_assets.reports.formatting import format_count_of
from tournament_assets.reports.report_contents import ReportContents

MISSING_REPLIES = {
    "replies_refused": "refused",
    "replies_unreadable": "unreadable",
    "replies_permanent": "impossible",
    "replies_pending": "no reply yet",
}
"""Columns of table "audit" that count presentations without a verdict, as people read them."""


def warning_lines(contents: ReportContents) -> list[str]:
    """Return what a reader must know before any number, most important first."""
    lines = list(contents.further_warnings)
    if not contents.judge_is_language_model:
        lines.append(f"judge: {contents.judge_label}. These results say nothing about quality.")
    lines.extend(contents.cautions)
    rows = table_rows("audit", contents.audit)
    missing = {row["entrant_id"]: 0 for row in rows}
    shown = dict(missing)
    for row in rows:
        missing[row["entrant_id"]] += sum(row[name] for name in MISSING_REPLIES)
        shown[row["entrant_id"]] += 2 * asked(row)
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
