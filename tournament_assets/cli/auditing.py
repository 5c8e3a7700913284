"""`tournament audit`."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from rich.console import Console

from tournament_assets.cli.options import config_option, mode_option

if TYPE_CHECKING:
    import pandas as pd

    from tournament_assets.reports.audit_report import AuditReport
    from tournament_assets.tournament.config import Mode


@click.command("audit", short_help="Say what is missing, for whom, and which prompts decide.")
@config_option
@mode_option
@click.option("--json", "as_json", is_flag=True, help="Print every number, as JSON.")
@click.option(
    "--markdown",
    "markdown_path",
    metavar="OUT.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the audits to this file as well.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=12,
    show_default=True,
    metavar="N",
    help="The most rows of each table about prompts.",
)
def audit_command(
    config_path: Path, mode: str, as_json: bool, markdown_path: Path | None, limit: int
) -> None:
    """Say whether a mode's results can be trusted, from the tables of its last run.

    By entrant and dimension: pairs planned, present and clean; the mean score over each; replies
    that were refused, unreadable or lost to infrastructure, and those judged again; empty and
    cut-off responses. By prompt, across entrants: where nobody wins, where every judgment is
    inconsistent, where the judge failed, strata that one entrant fails, prompts with more noise
    than signal, and those that decide the ranking. Nothing is asked and nothing is changed.

    \b
    Exit code 0: what is missing is missing for everybody alike, and is little.
              1: a dimension had a judge outage, or an entrant misses more than the others.
              2: bad usage or input, or nothing was materialised yet.

    What is said of prompts never changes the exit code: it is for a person to look at.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    from tournament_assets.adapters.atomic_files import write_bytes_atomically
    from tournament_assets.reports.audit_report import audit_markdown, audit_values, print_audit
    from tournament_assets.tournament.errors import InputError

    report = _read_report(config_path, cast("Mode", mode))
    if markdown_path is not None:
        text = audit_markdown(report, limit=limit)
        try:
            write_bytes_atomically(markdown_path, text.encode("utf-8", errors="backslashreplace"))
        except OSError as error:
            raise InputError(f"{markdown_path}: cannot be written: {error}") from error
    if as_json:
        click.echo(json.dumps(audit_values(report), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        print_audit(report, console, limit=limit)
    if not report.passed:
        click.get_current_context().exit(1)


def _read_report(config_path: Path, mode: "Mode") -> "AuditReport":
    """Read both audits from what was materialised; nothing is computed anew.

    Raises:
        InputError: If the config cannot be used, or the audits were not materialised yet.
    """
    import dagster as dg

    from tournament_assets.adapters.config_files import load_config
    from tournament_assets.adapters.tables import table_rows
    from tournament_assets.assets.provenance import rerun_command
    from tournament_assets.audits.outages import check_missingness, find_outages
    from tournament_assets.definitions import build_definitions, build_plan
    from tournament_assets.reports.audit_report import AuditReport
    from tournament_assets.tournament.errors import InputError

    config_file = load_config(config_path)
    plan = build_plan(config_file, os.environ)
    definitions = build_definitions([plan], config_file.project, os.environ)
    command = rerun_command(plan, mode)
    tables: dict[str, list[dict[str, Any]]] = {}
    with dg.DagsterInstance.ephemeral() as instance, _without_debug_log():
        for name in ("audit", "prompt_audit"):
            try:
                frame = definitions.load_asset_value(
                    plan.key(name), partition_key=mode, instance=instance
                )
            except FileNotFoundError:
                raise InputError(
                    f"there is no table {name!r} of {plan.tournament_id}, {mode}; expected that of "
                    f"a finished run; make one: {command}"
                ) from None
            except ValueError as error:
                raise InputError(f"{error}: {command}") from None
            tables[name] = table_rows(name, cast("pd.DataFrame", frame))
    checks = plan.config.checks
    return AuditReport(
        tournament_id=plan.tournament_id,
        mode=mode,
        audit=tables["audit"],
        prompt_audit=tables["prompt_audit"],
        check=check_missingness(tables["audit"], max_spread=checks.max_missing_spread),
        outages=find_outages(
            tables["audit"],
            max_unjudged_rate=checks.max_unjudged_rate,
            max_missing_spread=checks.max_missing_spread,
        ),
    )


@contextmanager
def _without_debug_log() -> Iterator[None]:
    """Keep Dagster from telling of every file that it reads."""
    before = logging.root.manager.disable
    logging.disable(logging.DEBUG)
    try:
        yield
    finally:
        logging.disable(before)
