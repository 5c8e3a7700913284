"""`tournament site`."""

from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.extras.site.site import read_runs, write_site


@click.command("site")
@click.option(
    "--runs",
    "folder",
    default="runs",
    show_default=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the run directories.",
)
@click.option(
    "--out",
    default="site",
    show_default=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write; an earlier site there is replaced.",
)
def site_command(folder: Path, out: Path) -> None:
    """Build a folder of static pages over all finished runs. It sends no request.

    The index shows every tournament, a page for each mode shows its ratings over time with their
    intervals and which inputs changed between runs, and every report is copied beside them. The
    pages work from disk and on any static host, such as GitHub Pages.

    \b
    tournament site
    tournament site --runs /data/runs --out public
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    runs, problems = read_runs(folder)
    for problem in problems:
        echo(problem, err=True)
    files = write_site(runs, out)
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    noun = "run" if len(runs) == 1 else "runs"
    echo(f"{len(runs)} {noun}, {len(files)} files, {megabytes:.1f} MB: {out / 'index.html'}")
