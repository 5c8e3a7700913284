"""`tournament audit`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tournament_assets.cli.options import (
    config_option,
    json_option,
    markdown_option,
    mode_option,
    show_report,
)
from tournament_assets.tournament.asset_rows import CoverageRow, PromptFindingRow

if TYPE_CHECKING:
    from tournament_assets.reports.audit_tables import AuditReport
    from tournament_assets.tournament.config import Mode


@click.command("audit", short_help="Say what is missing, for whom, and which prompts decide.")
@config_option
@mode_option
@json_option
@markdown_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=12,
    show_default=True,
    metavar="N",
    help="The most rows of each table about prompts.",
)
def audit_command(
    config_path: Path, mode: str, as_json: bool, markdown_path: Path | None, limit: int
) -> None:
    """Say whether a mode's results can be trusted, from the tables of its last run.

    By entrant and dimension: pairs planned, present and clean; the mean score over each; replies
    that were refused, unreadable or lost to infrastructure, and those judged again; empty and
    cut-off responses. By prompt, across entrants: where nobody wins, where every judgment is
    inconsistent, where the judge failed, strata that one entrant fails, prompts with more noise
    than signal, and those that decide the ranking. The judge's red lights and dimensions of mostly
    the same text come first. Nothing is asked and nothing is changed.

    \b
    Exit code 0: little is missing, for everybody alike, and no light of the trust panel is red.
              1: a dimension had a judge outage, an entrant misses more than the others, or a light
                 of the trust panel is red.
              2: bad usage or input, or nothing was materialised yet.

    What is said of prompts never changes the exit code: it is for a person to look at.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    from tournament_assets.reports.audit_tables import audit_markdown, audit_values, print_audit

    report = _read_report(config_path, mode)
    show_report(
        lambda console: print_audit(report, console, limit=limit),
        lambda: audit_values(report),
        as_json=as_json,
        markdown=lambda: audit_markdown(report, limit=limit),
        markdown_path=markdown_path,
    )
    if not report.passed:
        click.get_current_context().exit(1)


def _read_report(config_path: Path, mode: "Mode") -> "AuditReport":
    """Read both audits from what was materialised; nothing is computed anew."""
    from tournament_assets.audits.outages import check_missingness, find_outages
    from tournament_assets.definitions import build_plan
    from tournament_assets.launching import StoredTables
    from tournament_assets.project.config_files import load_config
    from tournament_assets.reports.audit_tables import AuditReport
    from tournament_assets.storage.tables import rows_of
    from tournament_assets.tournament.asset_rows import TrustRow

    plan = build_plan(load_config(config_path), os.environ)
    stored = StoredTables(plan, mode, environment=os.environ)
    frames = {name: stored.of_mode(name) for name in ("audit", "prompt_audit")}
    panels = stored.by("dimension", "trust_panel", plan.config.dimension_names)
    stored.raise_if_missing()
    audit = list(rows_of(CoverageRow, frames["audit"]))
    checks = plan.config.checks
    return AuditReport(
        tournament_id=plan.tournament_id,
        mode=mode,
        audit=audit,
        prompt_audit=list(rows_of(PromptFindingRow, frames["prompt_audit"])),
        check=check_missingness(audit, max_spread=checks.max_missing_spread),
        outages=find_outages(
            audit,
            max_unjudged_rate=checks.max_unjudged_rate,
            max_missing_spread=checks.max_missing_spread,
        ),
        trust=[row for panel in panels.values() for row in rows_of(TrustRow, panel)],
    )
