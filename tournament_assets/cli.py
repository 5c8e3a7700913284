"""The `tournament` command.

Exit codes: 0 all well, 1 the work failed, 2 bad usage or bad input.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click
from rich.console import Console

from tournament_assets.loopback.command import judge_server_command
from tournament_assets.tournament.errors import InputError, TournamentError

if TYPE_CHECKING:
    from tournament_assets.launching import RunOptions

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EXIT_FAILED, _EXIT_BAD_INPUT = 1, 2

_COP_BASES: dict[str | None, Literal[0, 1] | None] = {None: None, "0": 0, "1": 1}

_errors = Console(stderr=True, highlight=False, soft_wrap=True)


class _Commands(click.Group):
    """Turns the project's exceptions into messages and exit codes, in one place."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            count = len(error.problems)
            noun = "problem" if count == 1 else "problems"
            _errors.print(f"[bold red]{count} {noun} in the input; nothing was spent[/]")
            for problem in error.problems:
                _errors.print(f"  - {problem}", markup=False)
            ctx.exit(_EXIT_BAD_INPUT)
        except TournamentError as error:
            _errors.print("[bold red]the work failed[/]")
            _errors.print(f"  {error}", markup=False)
            ctx.exit(_EXIT_FAILED)


@click.group(cls=_Commands, context_settings=_CONTEXT)
@click.version_option(package_name="tournament-assets")
def main() -> None:
    """Tell which configuration of a language model is better, on which quality, and how surely."""


@main.command("run", short_help="Materialise a tournament, prompts to leaderboard.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    required=True,
    help="The tournament's YAML, such as configs/demo.yaml.",
)
@click.option(
    "--mode",
    type=click.Choice(["pilot", "headline"]),
    required=True,
    help="pilot: a stratified part of the bank, cheap. headline: the whole bank.",
)
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
    help="Rate although some presentations have no reply yet; every result says so.",
)
@click.option(
    "--pay-again",
    is_flag=True,
    help="Ask again for paid results that the service no longer keeps.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the run directory goes; runs/ in the project folder by default.",
)
def run_command(
    config_path: Path,
    mode: str,
    judge_model: str | None,
    n_perms: int | None,
    limit_pairs: int | None,
    skip_judging: bool,
    partial: bool,
    pay_again: bool,
    output_dir: Path | None,
) -> None:
    """Materialise a tournament through Dagster, from prompts to leaderboard.

    What the ledger holds is never generated or judged again, so a run that was interrupted goes
    on where it stopped, and a second run costs nothing.
    """
    from tournament_assets.launching import RunOptions
    from tournament_assets.tournament.config import Mode

    _run(
        RunOptions(
            config_path=config_path,
            mode=cast("Mode", mode),
            judge_model=judge_model,
            n_perms=n_perms,
            limit_pairs=limit_pairs,
            skip_judging=skip_judging,
            partial=partial,
            pay_again=pay_again,
            output_dir=output_dir,
        )
    )


def _run(options: "RunOptions") -> None:
    """Run a tournament and print its leaderboard."""
    from tournament_assets.launching import run_tournament
    from tournament_assets.reports.leaderboard import print_leaderboard

    started = time.monotonic()
    steps = _StepLines(Console(stderr=True, highlight=False))
    summary = run_tournament(
        options, environment=os.environ, on_start=steps.start, on_done=steps.done
    )
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print()
    print_leaderboard(summary.leaderboard, console, confidence=summary.confidence)
    for warning in summary.warnings:
        console.print(f"check: {warning}", style="yellow", markup=False)
    console.print(
        f"{summary.responses_generated} responses generated and {summary.requests_submitted} "
        f"judge requests sent in {time.monotonic() - started:.0f} s; "
        "the rest was in the ledger."
    )
    console.print(f"Report: {summary.directory / 'report.html'}", soft_wrap=True, markup=False)
    console.print("Browse the graph and its runs: make ui")


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


def _step_name(stage: Any, label: str) -> str:
    return f"{stage.title} ({label})" if label else str(stage.title)


@main.command("estimate", short_help="Say what judging would cost, and send nothing.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    required=True,
    help="The tournament's YAML, such as configs/tournament1.yaml.",
)
@click.option("--mode", type=click.Choice(["pilot", "headline"]), required=True)
@click.option("--judge-model", metavar="ID", help="Price this model instead of the configured one.")
@click.option("--json", "as_json", is_flag=True, help="Print the estimate as JSON, for scripts.")
def estimate_command(config_path: Path, mode: str, judge_model: str | None, as_json: bool) -> None:
    """Count the requests that a mode would send to the judge, and their price.

    The requests are built as they would be sent, from the responses there are; what the ledger
    holds is not asked again. Weights, a GPU and a key are not needed, and nothing is sent.
    """
    from tournament_assets.launching import estimate_tournament
    from tournament_assets.reports.estimate import estimate_json, print_estimate
    from tournament_assets.tournament.config import Mode

    estimate = estimate_tournament(
        config_path, cast("Mode", mode), environment=os.environ, judge_model=judge_model
    )
    if as_json:
        click.echo(json.dumps(estimate_json(estimate), indent=2))
        return
    print_estimate(estimate, Console(width=None if sys.stdout.isatty() else 100, highlight=False))


@main.command("rejudge", short_help="Ask the judge again about what failed.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    required=True,
    help="The tournament's YAML, such as configs/tournament1.yaml.",
)
@click.option("--mode", type=click.Choice(["pilot", "headline"]), required=True)
@click.option(
    "--judge-model", metavar="ID", help="The model that was asked, if not the configured."
)
@click.option("--dry-run", is_flag=True, help="Only list what failed, by entrant and class.")
def rejudge_command(config_path: Path, mode: str, judge_model: str | None, dry_run: bool) -> None:
    """Ask the judge again, one request at a time, about what it was asked in vain.

    That is what errored, expired or was canceled, refusals, replies that are unreadable, cut off
    or empty, and what a gateway said in the judge's place. Each costs twice as much as in a batch.
    Earlier replies stay; the first one that holds a verdict counts. Then everything is rated anew.
    """
    from tournament_assets.assets.failures import find_failed_presentations
    from tournament_assets.launching import RunOptions, opened_ledger
    from tournament_assets.reports.failures import print_failures
    from tournament_assets.tournament.config import Mode

    with opened_ledger(config_path, os.environ) as (plan, ledger):
        failures = find_failed_presentations(
            plan, cast("Mode", mode), ledger=ledger, judge_model=judge_model
        )
    print_failures(
        (
            (each.dimension, entrant, each.failure)
            for each in failures
            for entrant in (each.entrant_a, each.entrant_b)
        ),
        Console(width=None if sys.stdout.isatty() else 100, highlight=False),
        n_presentations=len(failures),
    )
    if failures and not dry_run:
        _run(
            RunOptions(
                config_path=config_path,
                mode=cast("Mode", mode),
                judge_model=judge_model,
                rejudge=True,
            )
        )


main.add_command(judge_server_command)


@main.command("dagster-home", short_help="Print the folder Dagster keeps its runs in.")
def dagster_home_command() -> None:
    """Print the folder that Dagster keeps its runs in, and make it if need be."""
    from tournament_assets.adapters.dagster_home import prepare_dagster_home

    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    click.echo(prepare_dagster_home(project, os.environ.get("DAGSTER_HOME")))


@main.group("ledger")
def ledger_group() -> None:
    """Take judgments out of the ledger, or put some in, as JSON lines."""


@ledger_group.command("export")
@click.option("--config", "config_path", type=click.Path(path_type=Path), required=True)
@click.option("--mode", type=click.Choice(["pilot", "headline"]), required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for judgments_<dimension>.jsonl.",
)
def ledger_export_command(config_path: Path, mode: str, out: Path) -> None:
    """Write every reply that the ledger holds to a mode's requests, one file a dimension."""
    from tournament_assets.assets.transfers import export_judgments
    from tournament_assets.launching import opened_ledger
    from tournament_assets.tournament.config import Mode

    with opened_ledger(config_path, os.environ) as (plan, ledger):
        written = export_judgments(plan, cast("Mode", mode), out, ledger=ledger)
    for path, count in written.items():
        click.echo(f"{path}: {count} replies")


@ledger_group.command("import")
@click.option("--config", "config_path", type=click.Path(path_type=Path), required=True)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def ledger_import_command(config_path: Path, files: tuple[Path, ...]) -> None:
    """Keep the replies of judgments_*.jsonl files, so that they are not paid for again.

    A reply counts for the very same request only. What a gateway said in the judge's place is kept
    as a failure: see `tournament rejudge`.
    """
    from tournament_assets.assets.transfers import import_judgments
    from tournament_assets.launching import opened_ledger

    with opened_ledger(config_path, os.environ) as (_, ledger):
        reports = import_judgments(files, ledger=ledger)
    for report in reports:
        click.echo(
            f"{report.path}: {report.records} records, {report.added} new replies, "
            f"{report.failures} that can be judged again"
        )


@main.group("bank")
def bank_group() -> None:
    """Check a prompt bank, or build one."""


@bank_group.command("validate")
@click.argument("bank", type=click.Path(path_type=Path))
def bank_validate_command(bank: Path) -> None:
    """Check every row of a prompt bank, a JSONL file, and count what is in it.

    A row has prompt_id, text and source; a gold_answer, or for source "curated" an
    expected_behavior (answer, hedge or abstain); and optionally subject, category and tags.
    """
    from collections import Counter

    from tournament_assets.adapters.project_files import load_prompt_bank

    prompts = load_prompt_bank(bank)
    click.echo(f"{bank}: {len(prompts)} prompts, all valid")
    _print_counts("source", Counter(prompt.source for prompt in prompts))
    _print_counts("category", Counter(prompt.category or "–" for prompt in prompts))
    behaviors = Counter(
        prompt.expected_behavior for prompt in prompts if prompt.expected_behavior is not None
    )
    _print_counts("expected behavior", behaviors)


def _print_counts(title: str, counts: Any) -> None:
    listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    click.echo(f"  by {title}: {listed or 'none'}")


@bank_group.command("build")
@click.option("--medmcqa", type=click.Path(path_type=Path), help="MedMCQA, JSONL or Parquet.")
@click.option("--medqa", type=click.Path(path_type=Path), help="MedQA, JSONL or Parquet.")
@click.option("--curated", type=click.Path(path_type=Path), help="Rows to append as they are.")
@click.option("--medmcqa-count", type=click.IntRange(min=0), default=0, help="How many to draw.")
@click.option("--medqa-count", type=click.IntRange(min=0), default=0, help="How many to draw.")
@click.option(
    "--medmcqa-cop-base",
    type=click.Choice(["0", "1"]),
    help="What `cop` calls the first option, where the file itself does not show it.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bank to write.")
def bank_build_command(
    medmcqa: Path | None,
    medqa: Path | None,
    curated: Path | None,
    medmcqa_count: int,
    medqa_count: int,
    medmcqa_cop_base: str | None,
    seed: int,
    out: Path,
) -> None:
    """Build a prompt bank from multiple-choice files, recast as open questions.

    Questions that need their options, and answers that name options, are left out and counted.
    The same files, counts and seed give the same bank.
    """
    from tournament_assets.adapters.bank_files import BankRecipe, build_bank_file

    report = build_bank_file(
        BankRecipe(
            medmcqa=medmcqa,
            medqa=medqa,
            curated=curated,
            medmcqa_count=medmcqa_count,
            medqa_count=medqa_count,
            medmcqa_cop_base=_COP_BASES[medmcqa_cop_base],
            seed=seed,
        ),
        out,
    )
    for source, counts in sorted(report.counts.items()):
        click.echo(f"{source}: {counts.read} read, {counts.eligible} fit, {counts.drawn} drawn")
        for reason, count in sorted(counts.left_out.items()):
            click.echo(f"  left out, {reason}: {count}")
    click.echo(f"{out}: {report.n_prompts} prompts")
