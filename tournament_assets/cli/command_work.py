"""What `run`, `rejudge` and `doctor` do, loaded once their options are understood."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tournament_assets.cli import echo, rare_collections
from tournament_assets.cli.options import open_console, show_report
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.launching import diagnose_project, run_tournament
from tournament_assets.preparing.existing_work import find_failed_presentations
from tournament_assets.preparing.preflight import Health
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.reports.leaderboard import leaderboard_sections
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.reports.terminal import print_document, print_table, print_text
from tournament_assets.serving.ui_server import browsing_command
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.verdicts.judge_requests import open_ledger


def run(plan: TournamentPlan, mode: str, **options: Any) -> None:
    """Run a tournament with some of `RunOptions`, and print its leaderboard."""
    started = time.monotonic()
    steps = _StepLines(Console(stderr=True, highlight=False))
    for playing in playing_judges(plan, mode, models=(options.get("judge_model"),)):
        steps.warn(playing.sentence)
    with rare_collections():
        summary = run_tournament(
            plan,
            RunOptions(mode, **options),
            on_start=steps.start,
            on_done=steps.done,
            on_fresh=steps.fresh,
        )
    console = open_console()
    console.print()
    sections = leaderboard_sections(
        list(rows_of(LeaderboardRow, summary.leaderboard)),
        summary.win_rates,
        confidence=summary.confidence,
        equivalent_within=summary.equivalent_within,
        next_steps=summary.next_steps,
    )
    question = [ReportSection("", (summary.question,))] if summary.question else []
    warnings = (*summary.outages, *summary.cautions)
    print_document(Document(summary.title, [*question, *sections], warnings), console)
    for warning in summary.warnings:
        print_text(f"check: {warning}", console, style="yellow")
    console.print(
        f"{summary.responses_generated} responses generated and {summary.requests_submitted} "
        f"judge requests sent in {time.monotonic() - started:.0f} s; "
        "what the ledger holds is not asked for again."
    )
    if not summary.is_new:
        console.print("Nothing it rests on has changed: the report is an earlier run's.")
    echo(f"Report: {summary.directory / 'report.html'}")
    echo(f"Browse the graph and its runs: {browsing_command(plan)}")


class _StepLines:
    """One line for every step: what began, and how long it took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def warn(self, sentence: str) -> None:
        print_text(f"warning: {sentence}", self._console, style="yellow")

    def start(self, stage: Any, label: str) -> None:
        self._began = time.monotonic()
        if self._console.is_terminal:
            self._console.print(f"… {_step_name(stage, label)}", end="\r", markup=False)

    def done(self, stage: Any, label: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(f"✓ {_step_name(stage, label):<58} {seconds:5.1f} s", markup=False)

    def fresh(self, stage: Any, label: str) -> None:
        self._console.print(f"= fresh: {_step_name(stage, label)}", markup=False)


def _step_name(stage: Any, label: str) -> str:
    return f"{stage.title} ({label})" if label else str(stage.title)


_SENTENCES = {
    FailureClass.ERRORED: "the service answered with an error",
    FailureClass.EXPIRED: "the batch ran out of time",
    FailureClass.CANCELED: "the batch was canceled",
    FailureClass.REFUSED: "the judge declined to judge",
    FailureClass.UNREADABLE: "the reply holds no verdict",
    FailureClass.CUT_OFF: "the reply reached its token cap",
    FailureClass.EMPTY: "the reply says nothing",
    FailureClass.INFRASTRUCTURE: "a gateway answered in the judge's place",
    FailureClass.UNPARSABLE: "the line of the results that should hold the reply is not JSON",
    FailureClass.ARCHIVED: "the service no longer keeps the result",
}


def _print_failures(
    failures: Iterable[tuple[str, str, FailureClass]], console: Console, *, n_presentations: int
) -> None:
    """Print how many presentations failed, by dimension, entrant and class."""
    counts = Counter(failures)
    if not counts:
        console.print("Nothing to judge again: whatever was asked has a verdict or is under way.")
        return
    table = ReportTable.of(
        sorted(counts),
        {
            "dimension": lambda each: each[0],
            "entrant": lambda each: each[1],
            "class": lambda each: each[2].value,
            "presentations": lambda each: f"{counts[each]:,}",
            "because": lambda each: _SENTENCES[each[2]],
        },
        n_labels=3,
    )
    print_table(f"{n_presentations} presentations failed", table, console)


def rejudge(plan: TournamentPlan, mode: str, judge_model: str | None, *, dry_run: bool) -> None:
    """Print what failed, and ask again unless it is a dry run."""
    with open_ledger(plan.project.ledger_url) as ledger:
        failures = find_failed_presentations(plan, mode, ledger=ledger, judge_model=judge_model)
    _print_failures(
        (
            (each.dimension, entrant, each.failure)
            for each in failures
            for entrant in (each.entrant_a, each.entrant_b)
        ),
        open_console(),
        n_presentations=len(failures),
    )
    if failures and not dry_run:
        run(plan, mode, judge_model=judge_model, rejudge=True)


def diagnose(config_paths: Sequence[Path], *, as_json: bool) -> None:
    """Print what `tournament doctor` found."""
    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    findings = list(diagnose_project(project, os.environ, config_paths=config_paths))
    table = ReportTable.of(
        findings,
        {
            "": lambda each: each.health,
            "what": lambda each: each.subject,
            "found": lambda each: each.said,
            "what to do": lambda each: each.advice,
        },
        n_labels=4,
    )
    show_report(
        Document("", [ReportSection("", tables=(("", table),))]),
        lambda: [asdict(each) for each in findings],
        as_json=as_json,
        width=140,
    )
    if any(each.health is Health.BROKEN for each in findings):
        click.get_current_context().exit(1)
