"""The longest responses, on the page."""

from collections.abc import Mapping, Sequence

from tournament_assets.extension import ReportSection, ReportTable, ResponseRow, SectionRow


def longest(entrant_responses: Mapping[str, Sequence[ResponseRow]]) -> ReportSection:
    """List the longest response of every entrant."""
    rows = tuple(
        (entrant, f"{max(len(row.response.split()) for row in responses)}")
        for entrant, responses in entrant_responses.items()
    )
    table = ReportTable(("entrant", "words"), rows)
    return ReportSection("Longest responses", tables=(("", table),))


ROWS = (SectionRow("longest", longest),)
