"""`tournament report`."""

import json
import os
import sys
from pathlib import Path
from typing import cast

import click
from rich.console import Console

from tournament_assets.cli.options import config_option, mode_option


@click.command("report", short_help="Compare the entrants on equal terms, and find the page.")
@config_option
@mode_option
@click.option(
    "--exclude",
    "excluded",
    metavar="ENTRANT",
    multiple=True,
    help="Leave an entrant out, as if it had not taken part. May be given several times.",
)
@click.option(
    "--markdown",
    "markdown_path",
    metavar="OUT.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the comparison to this file as well, with the column behind every number.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every number, as JSON.")
def report_command(
    config_path: Path,
    mode: str,
    excluded: tuple[str, ...],
    markdown_path: Path | None,
    as_json: bool,
) -> None:
    """Compare the entrants on equal terms, from what a mode has stored. Nothing is asked.

    Ratings and win shares stand side by side: on the prompts that everyone answered and was judged
    on, on all judged pairs, and over all planned pairs, where whatever is missing counts as
    nothing. Beside them: which gaps between neighbours are within noise, every stratum, and which
    entrants are of the judge's family. It also says where the run's page is.

    \b
    tournament report --config configs/mine.yaml --mode headline
    tournament report --config configs/mine.yaml --mode headline --exclude base --markdown fair.md

    An entrant whose responses or judgments are missing makes the common prompts few; leave it out
    to see the others on all that they share.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    from tournament_assets.cli.fair_reports import load_fair_report
    from tournament_assets.cli.written_pages import write_page
    from tournament_assets.reports.fair_report import (
        fair_markdown,
        fair_values,
        print_fair_report,
    )
    from tournament_assets.tournament.config import Mode

    report = load_fair_report(
        config_path, cast("Mode", mode), excluded=excluded, environment=os.environ
    )
    if markdown_path is not None:
        write_page(markdown_path, fair_markdown(report))
    if as_json:
        click.echo(json.dumps(fair_values(report), indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    print_fair_report(report, console)
