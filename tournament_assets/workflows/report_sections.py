"""The parts of the report that have an asset of their own."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tournament_assets.audits.outages import (
    MissingnessCheck,
    check_missingness,
    outage_sentences,
)
from tournament_assets.tournament.asset_rows import CoverageRow, FairRow, PromptFindingRow, TrustRow
from tournament_assets.workflows.plan import TournamentPlan

if TYPE_CHECKING:
    from tournament_assets.reports.report_tables import ReportSection

Row = Mapping[str, Any]

Rows = Sequence[Mapping[str, Any]]


def report_sections(
    plan: TournamentPlan,
    *,
    trust: Sequence[TrustRow],
    audit: Sequence[CoverageRow],
    prompt_audit: Sequence[PromptFindingRow],
    fair: Sequence[FairRow],
) -> "dict[str, ReportSection]":
    """Return the sections on trust, what is missing, equal terms and prompts that decide.

    Args:
        plan: The tournament.
        trust: Rows of the table `trust_panel`, all dimensions.
        audit: Rows of the table `audit`.
        prompt_audit: Rows of the table `prompt_audit`.
        fair: Rows of the table `fair_comparison`.
    """
    from tournament_assets.reports.audit_tables import audit_sections
    from tournament_assets.reports.fair_tables import fair_section
    from tournament_assets.reports.trust_tables import trust_section

    confidence = plan.config.ratings.confidence
    missing, strata = audit_sections(audit, prompt_audit, check=missingness_of(plan, audit))
    return {
        "trust": trust_section(trust, confidence=confidence),
        "audit": missing,
        "fair_comparison": fair_section(fair, confidence=confidence, strata_by=("source",)),
        "strata": strata,
    }


def missingness_of(plan: TournamentPlan, rows: Sequence[CoverageRow]) -> MissingnessCheck:
    """Return what the check `even_missingness` says of the rows of table "audit"."""
    return check_missingness(rows, max_spread=plan.config.checks.max_missing_spread)


def outages_of(plan: TournamentPlan, audit: Sequence[CoverageRow]) -> list[str]:
    """Return the sentences that must stand first on anything published.

    Args:
        plan: The tournament.
        audit: Rows of table "audit".
    """
    return outage_sentences(
        audit,
        max_unjudged_rate=plan.config.checks.max_unjudged_rate,
        max_missing_spread=plan.config.checks.max_missing_spread,
    )
