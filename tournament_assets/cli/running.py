"""`tournament run`, `rejudge`, `estimate` and `doctor`."""

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tournament_assets.cli import rare_collections
from tournament_assets.cli.options import (
    config_option,
    json_option,
    mode_option,
    open_console,
    show_report,
)
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.launching import (
    diagnose_project,
    estimate_tournament,
    opened_ledger,
    run_tournament,
)
from tournament_assets.project.existing_work import find_failed_presentations
from tournament_assets.project.ui_server import browsing_command
from tournament_assets.reports.cost_estimate import (
    estimate_document,
    estimate_json,
)
from tournament_assets.reports.leaderboard import print_leaderboard
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    print_table,
)
from tournament_assets.runs.preflight import Health


@click.command("run")
@config_option
@mode_option
@click.option("--judge-model", metavar="ID", help="Ask this model instead of the configured one.")
@click.option(
    "--n-perms",
    type=click.IntRange(min=1),
    metavar="N",
    help="Average the Elo ratings over N orderings instead of the configured number.",
)
@click.option(
    "--limit-pairs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Judge only the first N pairs of each dimension; for trying things out.",
)
@click.option(
    "--skip-judging",
    is_flag=True,
    help="Ask the judge nothing: rate what the ledger holds, and say what is missing.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Rate even if some presentations have no reply yet; every result says so.",
)
@click.option(
    "--pay-again",
    is_flag=True,
    help="Send requests again whose paid results the service no longer keeps or cannot deliver.",
)
@click.option(
    "--no-budget",
    is_flag=True,
    help="Let a mode other than pilot cost money although the config sets no judging.budget.usd.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the run directory goes; runs/ in the project folder by default.",
)
@click.option("--all", "everything", is_flag=True, help="Run every stage, even if it is fresh.")
def run_command(**options: Any) -> None:
    """Materialise a tournament through Dagster, from prompts to leaderboard.

    What the ledger holds is never generated or judged again, so an interrupted run continues
    where it stopped, and a second run costs nothing. Stages that would only make again what is
    stored are skipped and listed as fresh.
    """
    _run(RunOptions(**options))


def _run(options: RunOptions) -> None:
    """Run a tournament and print its leaderboard."""
    started = time.monotonic()
    steps = _StepLines(Console(stderr=True, highlight=False))
    with rare_collections(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* is currently in beta")
        summary = run_tournament(
            options,
            environment=os.environ,
            on_start=steps.start,
            on_done=steps.done,
            on_fresh=steps.fresh,
        )
    console = open_console()
    console.print()
    print_leaderboard(
        summary.leaderboard,
        console,
        win_rates=summary.win_rates,
        confidence=summary.confidence,
        title=summary.title,
        question=summary.question,
        first_lines=(*summary.outages, *summary.cautions),
    )
    for warning in summary.warnings:
        console.print(f"check: {warning}", style="yellow", markup=False)
    console.print(
        f"{summary.responses_generated} responses generated and {summary.requests_submitted} "
        f"judge requests sent in {time.monotonic() - started:.0f} s; "
        "the rest was in the ledger."
    )
    if not summary.is_new:
        console.print("Nothing it rests on has changed: the report is an earlier run's.")
    console.print(f"Report: {summary.directory / 'report.html'}", soft_wrap=True, markup=False)
    console.print(
        f"Browse the graph and its runs: {browsing_command(options.config_path)}",
        soft_wrap=True,
        markup=False,
    )


class _StepLines:
    """One line for every step: what began, and how long it took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

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
    FailureClass.INFRASTRUCTURE: "a machine on the way answered in the judge's place",
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


@click.command("rejudge")
@config_option
@mode_option
@click.option(
    "--judge-model", metavar="ID", help="The model that was asked, if not the configured one."
)
@click.option("--dry-run", is_flag=True, help="Only list failed requests, by entrant and class.")
def rejudge_command(config_path: Path, mode: str, judge_model: str | None, dry_run: bool) -> None:
    """Send failed judge requests again, one by one.

    A request failed if it errored, expired or was canceled, if the judge refused, if its reply is
    unreadable, cut off or empty, or if a gateway replied in the judge's place. Each costs twice as
    much as in a batch. Earlier replies stay; the first that holds a verdict counts. Then
    everything is rated anew.
    """
    with opened_ledger(config_path, os.environ) as (plan, ledger):
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
        _run(
            RunOptions(
                config_path=config_path,
                mode=mode,
                judge_model=judge_model,
                rejudge=True,
            )
        )


@click.command("estimate")
@config_option
@mode_option
@click.option("--judge-model", metavar="ID", help="Price this model instead of the configured one.")
@click.option(
    "--count-tokens",
    is_flag=True,
    help="Let the service count the tokens of 20 requests per dimension, which is free.",
)
@json_option
def estimate_command(
    config_path: Path, mode: str, judge_model: str | None, count_tokens: bool, as_json: bool
) -> None:
    """Count the requests that a mode would send to the judge, and estimate their price.

    The requests are built as they would be sent, from the responses that exist; those that the
    ledger answers are left out. The command needs no weights, GPU or key and sends nothing, unless
    --count-tokens lets the service count a sample: that needs the key and costs nothing.
    """
    estimate = estimate_tournament(
        config_path,
        mode,
        environment=os.environ,
        judge_model=judge_model,
        counts_tokens=count_tokens,
    )
    show_report(
        estimate_document(estimate),
        lambda: estimate_json(estimate),
        as_json=as_json,
        width=100,
    )


@click.command("doctor")
@click.option(
    "--config",
    "config_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Check this tournament alone; all in configs/ by default. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found, as JSON.")
def doctor_command(config_paths: tuple[Path, ...], as_json: bool) -> None:
    """Check everything that a run needs, spend nothing, and say what to do.

    It checks versions, device, ledger, storage, every config with its files and its judge, and
    whether the schedules and sensors that a config names are on. It asks a judging service only
    whether it knows the model.

    The exit code is 1 if something is broken, and 0 if not.
    """
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
    if any(each.health is Health.ILL for each in findings):
        click.get_current_context().exit(1)
