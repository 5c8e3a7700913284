"""What was asked for and what came back, by entrant, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.audits.outages import asked
from tournament_assets.reports.formatting import format_share
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.reports.report_warnings import MISSING_REPLIES


def coverage_table(rows: Sequence[Mapping[str, Any]]) -> ReportTable:
    """Return the rows of table "audit" of one dimension as people read them."""
    return ReportTable(
        headers=(
            "entrant",
            "prompts answered",
            "empty",
            "cut off",
            "pairs planned",
            "same text",
            "asked",
            "judged",
            "coverage",
            "inconsistent",
            *MISSING_REPLIES.values(),
        ),
        rows=tuple(
            (
                row["entrant_id"],
                f"{row['responses']} / {row['prompts_selected']}",
                str(row["empty_responses"]),
                str(row["truncated_responses"]),
                str(row["pairs_planned"]),
                str(row["pairs_same_text"]),
                str(asked(row)),
                str(row["pairs_judged"]),
                _share_of(row["pairs_judged"] + row["pairs_same_text"], row["pairs_planned"]),
                _share_of(row["pairs_inconsistent"], row["pairs_judged"]),
                *(str(row[name]) for name in MISSING_REPLIES),
            )
            for row in rows
        ),
    )


def _share_of(part: int, whole: int) -> str:
    return format_share(part / whole if whole else None)
