"""`tournament verify`."""

from pathlib import Path

import click

from tournament_assets.extras.verify.settled import read_run
from tournament_assets.extras.verify.verification import Verification, Wrong, require_same_settings

_SHOWN = 20


@click.command("verify")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
@click.pass_context
def verify_command(context: click.Context, folder: Path) -> None:
    """Compute the numbers of the run directory RUN again from its verdicts.

    Counts, win shares, ratings, intervals, claims and Elo are computed by other code than wrote
    them, and the run's CSV, JSON and npz files are held against that, to a millionth. The pages,
    LaTeX and pictures are not read. It sends no request. Exit code 1: a number is wrong.

    \b
    tournament verify runs/pilot_20261104T101500Z
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    run = read_run(folder)
    require_same_settings(run)
    verification = Verification(run)
    wrong: list[Wrong] = []
    for name in verification.files:
        checked = verification.check(name)
        wrong += checked.wrong
        click.echo(f"{name}: {checked.recomputed:,} computed again, {len(checked.wrong)} wrong")
    for each in wrong[:_SHOWN]:
        click.echo(f"  {each.file}: {each.place}: {each.found}; expected {each.expected}")
    if len(wrong) > _SHOWN:
        click.echo(f"  and {len(wrong) - _SHOWN} more")
    click.echo("not read: report.html, report.md, report.json, tables/leaderboard.tex, figures")
    context.exit(1 if wrong else 0)
