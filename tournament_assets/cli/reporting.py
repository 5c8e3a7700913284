"""`tournament compare` and `gate`: what run directories say."""

from pathlib import Path
from typing import Any

import click

from tournament_assets.cli.options import json_option, margin_option, markdown_option, show_report
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.run_comparison.comparison import (
    compare_runs,
    comparison_document,
    comparison_values,
)
from tournament_assets.run_comparison.gate import (
    HISTORY,
    GateSettings,
    gate_document,
    gate_values,
    hold_gate,
    read_looks,
    remember,
)
from tournament_assets.run_comparison.run_reading import read_finished_runs, read_run


@click.command("compare")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@markdown_option
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="List at most N changed judgments.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Share of flips that is tolerated; RUN_B's checks.max_drift_rate by default.",
)
def compare_command(
    run_a: Path,
    run_b: Path,
    markdown_path: Path | None,
    as_json: bool,
    limit: int,
    tolerance: float | None,
) -> None:
    """Compare two run directories, the earlier RUN_A and the later RUN_B, as after a rubric edit.

    It says which inputs differ and what was edited in a rubric, which of the judgments that the
    edit could touch flipped (by dimension and stratum, with kappa), how ratings and places moved,
    and what each run cost. It sends no request and changes nothing.

    The exit code is 0 if the runs agree, 1 if they differ significantly, 3 if neither can be said,
    and 2 if a directory cannot be read.

    \b
    tournament run --config configs/mine.yaml --mode pilot
    (edit rubrics/factuality.txt)
    tournament run --config configs/mine.yaml --mode pilot
    tournament compare runs/pilot_20261104T101500Z runs/pilot_20261104T113000Z

    Only requests that are new since the first run are paid for in the second.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    then, now = read_finished_runs([run_a, run_b])
    comparison = compare_runs(then, now, tolerance=tolerance)
    show_report(
        comparison_document(comparison, limit=limit),
        lambda: comparison_values(comparison),
        as_json=as_json,
        markdown_path=markdown_path,
    )
    click.get_current_context().exit(comparison.verdict.sameness.exit_code)


@click.command("gate")
@click.argument("runs", nargs=-1, required=True, metavar="RUN", type=click.Path(path_type=Path))
@click.option("--candidate", required=True, metavar="ENTRANT", help="The entrant to test.")
@click.option("--baseline", required=True, metavar="ENTRANT", help="The entrant to compare with.")
@click.option(
    "--dimension",
    "dimensions",
    metavar="NAME",
    multiple=True,
    help="A dimension on which it must not be worse; all by default. May be repeated.",
)
@margin_option
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="1 minus the chance that a candidate passes that is worse by the margin.",
)
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1),
    default=0.98,
    show_default=True,
    metavar="SHARE",
    help="The share of the planned pairs of these two that must be settled.",
)
@click.option(
    "--sequential",
    is_flag=True,
    help="Decide by evidence that stays valid however often this candidate is looked at.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file that counts the looks; gate_history.jsonl beside the run by default.",
)
@click.option(
    "--reading",
    type=(str, str),
    multiple=True,
    metavar="OPTION VALUE",
    help="An option of claims, to read results by: --reading lower-is-better yes. May be repeated.",
)
@json_option
@click.option(
    "--markdown",
    "markdown_path",
    metavar="OUT.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add the result to this file, such as $GITHUB_STEP_SUMMARY.",
)
def gate_command(
    runs: tuple[Path, ...],
    history: Path | None,
    reading: tuple[tuple[str, str], ...],
    as_json: bool,
    markdown_path: Path | None,
    **settings: Any,
) -> None:
    """Compare a candidate with a baseline in the run directory RUN. It sends no request.

    In its place files of results may stand, as `tournament claims` takes them.

    The candidate passes if every dimension shows that it is not worse by the margin; with few
    prompts nothing can be shown, so no candidate passes. With missing verdicts, a red light on the
    judge or a judge that is not a language model, the gate stays undecided.

    The exit code is 0 if the candidate is not worse, 1 if it is worse by more than the margin, 3
    if neither can be said, and 2 if the input is bad.

    \b
    tournament gate runs/headline_20261104T101500Z --candidate new --baseline released
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    options = {name.replace("-", "_"): value for name, value in reading}
    finished = read_run(runs, options)
    looks_file = history or runs[0].resolve().parent / HISTORY
    looks = read_looks(looks_file)
    gate = hold_gate(finished, GateSettings(**settings), history=looks)
    remember(looks_file, gate, looks)
    if markdown_path is not None:
        with markdown_path.open("a", encoding="utf-8") as page:
            page.write(document_markdown(gate_document(gate)))
    show_report(gate_document(gate), lambda: gate_values(gate), as_json=as_json)
    click.get_current_context().exit(gate.passage.exit_code)
