"""`tournament ledger export | import`."""

import os
from pathlib import Path
from typing import cast

import click

from tournament_assets.cli.options import config_option, mode_option


@click.group("ledger")
def ledger_group() -> None:
    """Take judgments out of the ledger, or put some in, as JSON lines."""


@ledger_group.command("export")
@config_option
@mode_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for judgments_<dimension>.jsonl.",
)
def ledger_export_command(config_path: Path, mode: str, out: Path) -> None:
    """Write every reply that the ledger holds to a mode's requests, one file a dimension."""
    from tournament_assets.assets.transfers import export_judgments
    from tournament_assets.launching import opened_ledger
    from tournament_assets.tournament.config import Mode

    with opened_ledger(config_path, os.environ) as (plan, ledger):
        written = export_judgments(plan, cast("Mode", mode), out, ledger=ledger)
    for path, count in written.items():
        click.echo(f"{path}: {count} replies")


@ledger_group.command("import")
@config_option
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def ledger_import_command(config_path: Path, files: tuple[Path, ...]) -> None:
    """Keep the replies of judgments_*.jsonl files, so that they are not paid for again.

    A reply counts for the very same request only. What a gateway said in the judge's place is kept
    as a failure: see `tournament rejudge`.
    """
    from tournament_assets.assets.transfers import import_judgments
    from tournament_assets.launching import opened_ledger

    with opened_ledger(config_path, os.environ) as (_, ledger):
        reports = import_judgments(files, ledger=ledger)
    for report in reports:
        click.echo(
            f"{report.path}: {report.records} records, {report.added} new replies, "
            f"{report.failures} that can be judged again"
        )
