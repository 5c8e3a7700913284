"""`tournament compare`."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console


@click.command("compare", short_help="Say what differs between two finished runs.")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option(
    "--markdown",
    "markdown_path",
    metavar="OUT.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the comparison to this file as well.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every number, as JSON.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="The most changed judgments to list.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Share of flips that counts as noise; RUN_B's checks.max_drift_rate by default.",
)
def compare_command(
    run_a: Path,
    run_b: Path,
    markdown_path: Path | None,
    as_json: bool,
    limit: int,
    tolerance: float | None,
) -> None:
    """Compare two run directories, RUN_A then and RUN_B now. This is how to review a rubric edit.

    It says which inputs differ and what was edited in a rubric, which of the judgments that this
    could touch flipped (by dimension and stratum, with kappa), how ratings and places moved, and
    what each run cost. Nothing is asked and nothing is changed.

    The exit code is 0 if the runs come to the same, 1 if they differ beyond noise, 3 if neither
    can be said, and 2 if a directory cannot be read.

    \b
    tournament run --config configs/mine.yaml --mode pilot
    (edit rubrics/factuality.txt)
    tournament run --config configs/mine.yaml --mode pilot
    tournament compare runs/pilot_20261104T101500Z runs/pilot_20261104T113000Z

    Only requests that are new since the first run are paid for in the second.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    from tournament_assets.adapters.run_reading import read_finished_runs
    from tournament_assets.cli.written_pages import write_page
    from tournament_assets.reports.run_comparison import (
        compare_runs,
        comparison_markdown,
        comparison_values,
        print_comparison,
    )

    then, now = read_finished_runs([run_a, run_b])
    comparison = compare_runs(then, now, tolerance=tolerance)
    if markdown_path is not None:
        write_page(markdown_path, comparison_markdown(comparison, limit=limit))
    if as_json:
        click.echo(json.dumps(comparison_values(comparison), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        print_comparison(comparison, console, limit=limit)
    if comparison.verdict.sameness.exit_code:
        click.get_current_context().exit(comparison.verdict.sameness.exit_code)
