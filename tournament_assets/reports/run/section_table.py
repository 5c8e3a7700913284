"""The sections of the page, in order."""

from functools import partial

from tournament_assets.foundation.extensions import added_rows
from tournament_assets.reports.audit_tables import audit_doubts, missing_section, prompts_section
from tournament_assets.reports.jury_tables import jury_section
from tournament_assets.reports.run import dimension_sections, method_sections
from tournament_assets.reports.sections import SectionRow
from tournament_assets.reports.trust_tables import circle_remarks, trust_doubts, trust_section

SECTIONS = (
    SectionRow("win-grid", dimension_sections.wins_section),
    SectionRow("jury", jury_section, part="judge"),
    SectionRow("trust", trust_section, part="judge", doubts=trust_doubts, remarks=circle_remarks),
    SectionRow("audit", missing_section, part="careful", doubts=audit_doubts),
    SectionRow("strata", partial(prompts_section, limit=6), part="careful"),
    SectionRow("verdict", dimension_sections.verdict_section),
    SectionRow("numbers", dimension_sections.numbers_section),
    SectionRow("unseparated", dimension_sections.undecided_section),
    SectionRow("economy", dimension_sections.economy_section),
    SectionRow("models", dimension_sections.models_section),
    SectionRow("cost", method_sections.cost_section, part="method"),
    SectionRow("intervals", method_sections.intervals_section, part="method"),
    SectionRow("glossary", method_sections.glossary_section, part="method"),
    SectionRow(
        "method",
        method_sections.method_section,
        part="method",
        doubts=method_sections.judge_doubts,
    ),
    SectionRow("provenance", method_sections.provenance_section, part="method"),
    *added_rows("sections"),
)
