"""`tournament estimate`."""

import json
import os
import sys
from pathlib import Path
from typing import cast

import click
from rich.console import Console

from tournament_assets.cli.options import config_option, mode_option


@click.command("estimate", short_help="Say what judging would cost, and send nothing.")
@config_option
@mode_option
@click.option("--judge-model", metavar="ID", help="Price this model instead of the configured one.")
@click.option(
    "--count-tokens",
    is_flag=True,
    help="Let the service count the tokens of 20 requests a dimension, which is free.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the estimate as JSON, for scripts.")
def estimate_command(
    config_path: Path, mode: str, judge_model: str | None, count_tokens: bool, as_json: bool
) -> None:
    """Count the requests that a mode would send to the judge, and their price.

    The requests are built as they would be sent, from the responses there are; what the ledger
    holds is not asked again. Weights, a GPU and a key are not needed, and nothing is sent, unless
    --count-tokens lets the service count a sample of them: that takes the key and costs nothing.
    """
    from tournament_assets.launching import estimate_tournament
    from tournament_assets.reports.estimate import estimate_json, print_estimate
    from tournament_assets.tournament.config import Mode

    estimate = estimate_tournament(
        config_path,
        cast("Mode", mode),
        environment=os.environ,
        judge_model=judge_model,
        counts_tokens=count_tokens,
    )
    if as_json:
        click.echo(json.dumps(estimate_json(estimate), indent=2))
        return
    print_estimate(estimate, Console(width=None if sys.stdout.isatty() else 100, highlight=False))
