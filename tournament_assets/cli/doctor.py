"""`tournament doctor`."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from tournament_assets.launching import diagnose_project


@click.command("doctor", short_help="Say what stands ready, and what to do where it does not.")
@click.option(
    "--config",
    "config_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Look at this tournament alone; all in configs/ unless given. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found, as JSON.")
def doctor_command(config_paths: tuple[Path, ...], as_json: bool) -> None:
    """Look at everything that a run needs, spend nothing, and say what to do.

    Versions, device, ledger, storage, every config with its files and its judge, and whether the
    schedules and sensors that a config names are on. A judging service is asked for nothing but
    whether it knows the model.

    The exit code is 1 if something is broken, and 0 if not.
    """
    from tournament_assets.reports.report_tables import ReportTable, print_table
    from tournament_assets.workflows.diagnosis import Health

    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    findings = list(diagnose_project(project, os.environ, config_paths=config_paths))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in findings], indent=2))
    else:
        table = ReportTable(
            headers=("", "what", "found", "what to do"),
            rows=tuple((each.health, each.subject, each.said, each.advice) for each in findings),
            n_labels=4,
        )
        print_table("", table, Console(width=None if sys.stdout.isatty() else 140, highlight=False))
    if any(each.health is Health.ILL for each in findings):
        click.get_current_context().exit(1)
