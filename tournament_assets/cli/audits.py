"""`tournament audit`, `fair-comparison`: what the stored tables of a mode say."""

from collections.abc import Sequence
from pathlib import Path

import click

from tournament_assets.audits.fair_comparison import COMPARED, is_in_ratings
from tournament_assets.cli.options import (
    config_option,
    json_option,
    markdown_option,
    mode_option,
    show_report,
    stored_tables,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import short
from tournament_assets.graph.assets import reports
from tournament_assets.graph.assets.prompts import selected_prompts
from tournament_assets.graph.assets.ratings import ratings
from tournament_assets.graph.assets.responses import entrant_responses
from tournament_assets.graph.assets.verdicts import judge_verdicts
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.reports.audit_tables import AuditReport
from tournament_assets.reports.fair_tables import FairReport, families_of
from tournament_assets.storage.tables import (
    content_version,
    judge_models_of,
    make_table,
    rows_of,
    rows_of_all,
)
from tournament_assets.tournament.asset_rows import CoverageRow, PromptFindingRow, RatingRow
from tournament_assets.tournament.config import Mode
from tournament_assets.trust.measures import LIGHT_TABLES, lights_of


@click.command("audit")
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
    help="Show at most N rows of each table about prompts.",
)
def audit_command(
    plan: TournamentPlan, mode: str, as_json: bool, markdown_path: Path | None, limit: int
) -> None:
    """Show whether a mode's results can be trusted, from the tables of its last run.

    By entrant and dimension: pairs planned, present and clean; the mean score over each; replies
    that were refused, unreadable or lost to infrastructure, and those judged again; empty and
    cut-off responses. By prompt, across entrants: where no entrant wins, where every judgment is
    inconsistent, where the judge failed, strata in which one entrant fails, prompts with more
    noise than signal, and those that decide the ranking. Red and amber lights on the judge and
    dimensions of mostly the same text come first. It sends no request and changes nothing.

    \b
    Exit code 0: little is missing, evenly over entrants, and no light of the trust panel is red.
              1: a dimension had a judge outage, an entrant misses more than the others, or a light
                 of the trust panel is red.
              2: bad usage or input, or nothing was materialised yet.

    Findings about prompts never change the exit code: they are for a person to look at.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    report = _read_audit(plan, mode)
    show_report(
        report.document(limit),
        lambda: report.values,
        as_json=as_json,
        markdown_path=markdown_path,
    )
    if not report.passed:
        click.get_current_context().exit(1)


def _read_audit(plan: TournamentPlan, mode: Mode) -> AuditReport:
    """Read both stored audits, without computing anything again."""
    stored = stored_tables(plan, mode)
    coverage = stored.of_mode(reports.audit.__name__)
    findings = stored.of_mode(reports.prompt_audit.__name__)
    panels = [stored.by_name(each) for each in LIGHT_TABLES]
    return AuditReport(
        tournament=plan.tournament_id,
        mode=mode,
        audit=list(rows_of(CoverageRow, coverage)),
        prompt_audit=list(rows_of(PromptFindingRow, findings)),
        checks=plan.config.checks,
        measures=lights_of(table for panel in panels for table in panel.values()),
    )


@click.command("fair-comparison")
@config_option
@mode_option
@click.option(
    "--exclude",
    "excluded",
    metavar="ENTRANT",
    multiple=True,
    help="Leave an entrant out, as if it had not taken part. May be repeated.",
)
@markdown_option
@json_option
def fair_comparison_command(
    plan: TournamentPlan,
    mode: str,
    excluded: tuple[str, ...],
    markdown_path: Path | None,
    as_json: bool,
) -> None:
    """Compare the entrants on equal terms, from a mode's stored tables. It sends no request.

    Ratings and win shares stand side by side: on the prompts that all entrants answered and were
    judged on, on all judged pairs, and over all planned pairs, where what is missing earns
    nothing. It also shows who is better than the next, every stratum, which
    entrants are of the judge's family, and where the run's report is.

    \b
    tournament fair-comparison --config configs/mine.yaml --mode headline
    tournament fair-comparison --config configs/mine.yaml --mode headline --exclude base

    If an entrant lacks responses or judgments, few prompts are common; leave it out to see the
    others on all prompts that they share.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    report = load_fair_report(plan, mode, excluded=excluded)
    show_report(
        report.document,
        lambda: report.values,
        as_json=as_json,
        markdown_path=markdown_path,
        width=140,
    )


def load_fair_report(plan: TournamentPlan, mode: Mode, *, excluded: Sequence[str]) -> FairReport:
    """Return a mode's fair comparison: the stored one, or a new one if entrants are left out.

    Args:
        excluded: Entrants to leave out.
    """
    stored = stored_tables(plan, mode)
    left_out = tuple(dict.fromkeys(excluded))
    verdicts = stored.by_name(judge_verdicts.__name__)
    if left_out:
        selected = stored.of_mode(selected_prompts.__name__)
        responses = stored.by_name(entrant_responses.__name__)
        rows = reports.fair_rows(
            plan,
            mode,
            selected=selected,
            responses=responses,
            verdicts=verdicts,
            excluded=left_out,
        )
    else:
        frame = stored.of_mode(reports.fair_comparison.__name__)
        on_all = stored.by_name(ratings.__name__)
        all_rows = [*rows_of(RatingRow, frame), *rows_of_all(RatingRow, on_all)]
        rows = [row for row in all_rows if row.method in COMPARED]
    if not rows:
        raise InputError(
            f"the stored comparison of mode {mode!r} holds no entrant; run the mode again"
        )
    fair_rows = [row for row in rows if not is_in_ratings(row)]
    models = {each for table in verdicts.values() for each in judge_models_of(table)}
    return FairReport(
        tournament=plan.tournament_id,
        mode=mode,
        judge=plan.config.label_of(mode),
        confidence=plan.config.ratings.confidence,
        fair_comparison=rows,
        families=families_of(
            plan.config,
            mode,
            verdicts,
            playing=playing_judges(plan, mode, models=models),
            excluded=left_out,
        ),
        excluded=left_out,
        content_hash=short(content_version(RatingRow, make_table(RatingRow, fair_rows))),
        page=stored.page(),
    )
