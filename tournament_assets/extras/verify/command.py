"""`tournament verify`."""

from pathlib import Path

import click

from tournament_assets.extras.verify.checksums import check_sums
from tournament_assets.extras.verify.settled import read_run
from tournament_assets.extras.verify.verification import Verification, require_same_settings

_SHOWN = 20


@click.command("verify")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
@click.pass_context
def verify_command(context: click.Context, folder: Path) -> None:
    """Compute the numbers of the run directory RUN again from its verdicts.

    First every file is held against the checksums that were written with the run. Then its numbers
    are computed by other code than wrote them: what the data files hold to the ninth digit or the
    last, what pages and LaTeX print to the digit printed, by row and column or by the words of a
    sentence. A number that another file has too is compared with it. What nothing is compared with,
    such as times, hashes and p-values, is counted for each file. It sends no request.
    Exit code 1: a number is wrong, or a file changed.

    \b
    tournament verify runs/pilot_20261104T101500Z
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    unchanged = check_sums(folder)
    click.echo(f"{unchanged.file}: {unchanged.n:,} files, {len(unchanged.wrong)} changed")
    wrong = [*unchanged.wrong]
    n = left = 0
    try:
        run = read_run(folder)
        require_same_settings(run)
        verification = Verification(run)
        for name in verification.files:
            checked = verification.check(name)
            wrong += checked.wrong
            n, left = n + checked.n, left + checked.n_left
            more = f"; not recomputed: {checked.n_left:,}" if checked.n_left else ""
            click.echo(f"{name}: {checked.n:,} recomputed, {len(checked.wrong)} wrong{more}")
    finally:
        for each in wrong[:_SHOWN]:
            click.echo(f"  {each.file}: {each.place}: {each.found}; expected {each.expected}")
        if len(wrong) > _SHOWN:
            click.echo(f"  and {len(wrong) - _SHOWN} more")
    click.echo(
        f"{n:,} values are what the verdicts give; not recomputed: {left:,} numbers (times, "
        "hashes, effects of style and more), which are as the run wrote them."
        if not wrong
        else f"{len(wrong):,} wrong or changed"
    )
    context.exit(1 if wrong else 0)
