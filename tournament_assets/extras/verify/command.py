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

    First every file is held against the checksums that were written with the run. Then counts, win
    shares, ratings, intervals, claims, bars, Elo and battles are computed by other code than wrote
    them, and compared with the run's CSV, JSON, Parquet and npz files to a millionth, and with the
    tables of the pages and of LaTeX to the last printed digit. What is not computed, such as the
    measures of the judge and the sentences, is only known to be unchanged. It sends no request.
    Exit code 1: a number is wrong, or a file changed.

    \b
    tournament verify runs/pilot_20261104T101500Z
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    unchanged = check_sums(folder)
    click.echo(f"{unchanged.file}: {unchanged.n:,} files, {len(unchanged.wrong)} changed")
    wrong = [*unchanged.wrong]
    n = 0
    try:
        run = read_run(folder)
        require_same_settings(run)
        verification = Verification(run)
        for name in verification.files:
            checked = verification.check(name)
            wrong += checked.wrong
            n += checked.n
            click.echo(f"{name}: {checked.n:,} numbers computed again, {len(checked.wrong)} wrong")
    finally:
        for each in wrong[:_SHOWN]:
            click.echo(f"  {each.file}: {each.place}: {each.found}; expected {each.expected}")
        if len(wrong) > _SHOWN:
            click.echo(f"  and {len(wrong) - _SHOWN} more")
    click.echo(
        f"{n:,} numbers are what the verdicts give; all else is as the run wrote it."
        if not wrong
        else f"{len(wrong):,} wrong or changed"
    )
    context.exit(1 if wrong else 0)
