"""The options and the help of `tournament run`, `rejudge`, `estimate` and `doctor`.

Dagster takes seconds to load, so a command imports what needs it after it has checked its options.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tournament_assets.cli.options import (
    config_option,
    json_option,
    mode_option,
    named_mode_option,
    say_loading,
    show_report,
)

if TYPE_CHECKING:
    from tournament_assets.project.plan import TournamentPlan


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
def run_command(plan: "TournamentPlan", mode: str, **options: Any) -> None:
    """Materialise a tournament through Dagster, from prompts to leaderboard.

    What the ledger holds is never generated or judged again, so an interrupted run continues
    where it stopped, and a second run costs nothing. Stages that would only make again what is
    stored are skipped and listed as fresh.
    """
    say_loading()
    from tournament_assets.cli import command_work

    command_work.run(plan, mode, **options)


@click.command("rejudge")
@config_option
@named_mode_option
@click.option(
    "--judge-model", metavar="ID", help="The model that was asked, if not the configured one."
)
@click.option("--dry-run", is_flag=True, is_eager=True, help="Only list what failed, by entrant.")
def rejudge_command(
    plan: "TournamentPlan", mode: str, judge_model: str | None, dry_run: bool
) -> None:
    """Send failed judge requests again, one by one.

    A request failed if it errored, expired or was canceled, if the judge refused, if its reply is
    unreadable, cut off or empty, or if a gateway replied in the judge's place. Each costs twice as
    much as in a batch. Earlier replies stay; the first that holds a verdict counts. Then
    everything is rated again.
    """
    say_loading()
    from tournament_assets.cli import command_work

    command_work.rejudge(plan, mode, judge_model, dry_run=dry_run)


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
    plan: "TournamentPlan", mode: str, judge_model: str | None, count_tokens: bool, as_json: bool
) -> None:
    """Count the requests that a mode would send to the judge, and estimate their price.

    The requests are built as they would be sent, from the responses that exist; those that the
    ledger answers are left out. The command needs no weights, GPU or key and sends nothing, unless
    --count-tokens lets the service count a sample: that needs the key and costs nothing.
    """
    from tournament_assets.preparing.estimates import estimate_tournament
    from tournament_assets.reports.cost_estimate import estimate_document, estimate_json

    price = estimate_tournament(plan, mode, judge_model=judge_model, counts_tokens=count_tokens)
    show_report(estimate_document(price), lambda: estimate_json(price), as_json=as_json, width=100)


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
    from tournament_assets.cli import command_work

    command_work.diagnose(config_paths, as_json=as_json)
