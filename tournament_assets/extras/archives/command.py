"""`tournament archive audit | rejudge | report`."""

import os
from contextlib import closing
from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.cli.options import json_option, markdown_option, open_console, show_report
from tournament_assets.extras.archives.audit import audit_archive
from tournament_assets.extras.archives.config import load_archive_config
from tournament_assets.extras.archives.questions import require_rejudging
from tournament_assets.extras.archives.reading import read_archive
from tournament_assets.extras.archives.rejudging import (
    cost_sentence,
    find_failed_judgings,
    rejudge_runs,
    rejudging_document,
    result_document,
)
from tournament_assets.extras.archives.report import (
    archive_audit_document,
    archive_report_document,
    archive_values,
    write_archive_tables,
)
from tournament_assets.foundation.errors import InputError, JudgeError
from tournament_assets.ledger import Ledger
from tournament_assets.project.project_files import default_ledger_url
from tournament_assets.providers.openers import JudgeConnection, judge_problems
from tournament_assets.reports.terminal import print_document, print_text

_archive_argument = click.argument("archive", type=click.Path(path_type=Path))


def _split_names(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> frozenset[str]:
    names = (name.strip() for value in values for name in value.split(","))
    return frozenset(name for name in names if name)


_exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="MODEL",
    callback=_split_names,
    help="Leave this model out. May be repeated, or name several with commas.",
)


@click.group("archive")
def archive_group() -> None:
    """Audit, judge again and compare an archive of scored runs that another harness wrote.

    ARCHIVE is a YAML file that says where the runs are and how they were scored.
    """


@archive_group.command("audit", short_help="Show what is there, what is missing, what is odd.")
@_archive_argument
@_exclude_option
@json_option
def archive_audit_command(archive: Path, exclude: frozenset[str], as_json: bool) -> None:
    """Count and average every model's runs, and look at every task across models.

    Files that cannot be read are listed and count as missing. It sends no request and changes
    nothing.

    \b
    Exit code 0: little is missing, evenly over models.
              1: too many runs are missing or judging failed too often, or for some models more
                 than for others (`checks` in the description).
              2: bad usage or input.

    Findings about tasks never change the exit code: they are for a person to look at.
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    audit = audit_archive(read_archive(load_archive_config(archive), exclude=exclude))
    show_report(archive_audit_document(audit), lambda: archive_values(audit), as_json=as_json)
    if audit.outages:
        click.get_current_context().exit(1)


@archive_group.command("rejudge", short_help="Judge runs again whose judging failed.")
@_archive_argument
@click.option("--dry-run", is_flag=True, help="Only list what failed, and what would be sent.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Judge only the first N of them."
)
def archive_rejudge_command(archive: Path, dry_run: bool, limit: int | None) -> None:
    """Judge again, by direct requests, the runs whose judging failed, and rescore them.

    Every reply is in the ledger before a file is touched, so nothing is paid for twice. The old
    values stay in the file, beside the new ones, as judge_result_before and run_score_before.
    """
    described = load_archive_config(archive)
    rejudging = require_rejudging(described)
    contents = read_archive(described)
    failed = list(find_failed_judgings(described, contents))
    console = open_console(width=120)
    print_document(rejudging_document(described, contents, failed), console)
    chosen = [failure for failure in failed if failure.request is not None][:limit]
    if dry_run and chosen:
        print_text(cost_sentence(chosen, rejudging), console)
    if dry_run or not chosen:
        return
    problems = judge_problems(rejudging.judge, os.environ)
    if problems:
        raise InputError(problems)
    judges = JudgeConnection.from_environment(os.environ, described.project)
    ledger_url = os.environ.get("TOURNAMENT_LEDGER_URL") or default_ledger_url(described.project)
    with closing(Ledger(ledger_url)) as ledger:
        result = rejudge_runs(
            described,
            chosen,
            ledger=ledger,
            connect=lambda: judges.service(rejudging.judge),
            log=lambda message: echo(message, err=True),
        )
    print_document(result_document(result), console)
    if result.unscored:
        why = f": {result.refusal}" if result.refusal else ""
        raise JudgeError(
            f"{len(result.unscored)} of {len(chosen)} runs have no score yet{why}; what was paid "
            "for is in the ledger; run again to ask for what has no reply; where two replies hold "
            "no score, change rejudging.judge or its prompt"
        )


@archive_group.command("report", short_help="Compare the models fairly.")
@_archive_argument
@_exclude_option
@markdown_option
@json_option
def archive_report_command(
    archive: Path, exclude: frozenset[str], markdown_path: Path | None, as_json: bool
) -> None:
    """Rank the models, and show what was equal for all, what is missing, and what is significant.

    With --markdown OUT.md every table is also written as CSV into OUT_tables/.
    """
    audit = audit_archive(read_archive(load_archive_config(archive), exclude=exclude))
    tables_folder = "" if markdown_path is None else write_archive_tables(markdown_path, audit)
    show_report(
        archive_report_document(audit, tables_folder=tables_folder),
        lambda: archive_values(audit),
        as_json=as_json,
        markdown_path=markdown_path,
    )
    if markdown_path is not None and not as_json:
        echo(f"Report: {markdown_path}")
