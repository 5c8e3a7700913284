"""`tournament verify`."""

from pathlib import Path

import click

from tournament_assets.extras.verify.checksums import compare_files
from tournament_assets.storage.run_directory import CHECKSUMS
from tournament_assets.tournament.formatting import format_plural


@click.command("verify")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
@click.pass_context
def verify_command(context: click.Context, folder: Path) -> None:
    """Name the files of the run directory RUN that changed, are gone, or were added.

    Every file is compared with SHA256SUMS, the checksums that were written with the run. They say
    nothing about whether a number is right, and nothing about a file that was changed together with
    its line: keep SHA256SUMS elsewhere, or sign it, if somebody may have had a reason to. Sends no
    request.

    Exit code 0: every file is as it was written. 1: a file changed, is gone, or was added.
    2: not the directory of a run, or SHA256SUMS or a file cannot be read.

    \b
    tournament verify runs/pilot_20261104T101500Z
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    comparison = compare_files(folder)
    for name, difference in comparison.differences.items():
        # A name may hold what a terminal obeys, or bytes that are not UTF-8.
        click.echo(f"{difference}: {name if name.isprintable() else ascii(name)}")
    n = format_plural(comparison.n_listed, "file")
    if not comparison.differences:
        click.echo(f"{CHECKSUMS}: {n}, all as they were written")
        return
    click.echo(f"{CHECKSUMS}: {n}, {len(comparison.differences):,} changed, gone or added")
    context.exit(1)
