"""`tournament ledger export | import | recover`."""

from collections.abc import Sequence
from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.cli.options import config_option, mode_option
from tournament_assets.extras.transfers.transfers import (
    export_judgments,
    import_files,
    missing_responses,
    recover_replies,
)
from tournament_assets.foundation.formatting import list_first
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.verdicts.judge_requests import open_ledger


@click.command("export")
@config_option
@mode_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for judgments_<dimension>.jsonl.",
)
def ledger_export_command(plan: TournamentPlan, mode: str, out: Path) -> None:
    """Write all replies that the ledger holds to a mode's requests, one file per dimension."""
    with open_ledger(plan.project.ledger_url) as ledger:
        written = export_judgments(plan, mode, out, ledger=ledger)
    for path, count in written.items():
        echo(f"{path}: {count} replies")


@click.command("import")
@config_option
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def ledger_import_command(plan: TournamentPlan, files: tuple[Path, ...]) -> None:
    """Put the replies of judgments_*.jsonl files into the ledger, so that you do not pay again.

    A reply counts only for the very same request. Files of an earlier cache, whose rows are named
    by 12 hexadecimal digits (responses_<entrant>.jsonl as well), are matched by prompt, pair, order
    and texts; what does not match is counted. A gateway's message in place of the judge's reply is
    kept as a failure: see `tournament rejudge`.
    """
    with open_ledger(plan.project.ledger_url) as ledger:
        reports = import_files(files, plan, ledger=ledger)
    for report in reports:
        lost = f", {report.unmatched} that match nothing asked today" if report.unmatched else ""
        what = "responses" if report.path.name.startswith("responses_") else "replies"
        echo(
            f"{report.path}: {report.records} records, {report.added} new {what}, "
            f"{report.failures} that can be judged again{lost}"
        )


@click.command("recover")
@config_option
@click.option("--judge-model", metavar="ID", help="The judge that was asked, if not the config's.")
def ledger_recover_command(plan: TournamentPlan, judge_model: str | None) -> None:
    """Take back replies that were paid for and that the ledger has lost. It sends no request.

    It reads the batches of the last 29 days that the ledger does not know, at every service that
    the config names. A batch that answers a request of this tournament is taken back with all its
    replies.
    """
    with open_ledger(plan.project.ledger_url) as ledger:
        report = recover_replies(
            plan,
            ledger=ledger,
            judge=JudgeConnection.from_environment(plan.project.environment, plan.project.folder),
            log=lambda message: echo(message, err=True),
            judge_model=judge_model,
        )
        missing = missing_responses(plan, ledger=ledger)
    echo(
        f"{_counted(report.replies, 'reply', 'replies')} of {_batches(report.taken)} are back "
        "in the ledger; "
        f"{_counted(report.paid_twice, 'reply', 'replies')} had been paid for twice; "
        f"{_counted(report.without_reply, 'request', 'requests')} of these batches have no reply"
    )
    for names, what in (
        (report.incomplete, "read only in part; recover again"),
        (report.in_progress, "still in progress; if this tournament's, recover again afterwards"),
        (report.gone, "whose results the service does not show"),
        (report.unplanned, "of this program that answered nothing planned today"),
        (report.foreign, "of another program"),
    ):
        if names:
            echo(f"{_batches(names)} {what} ({list_first(names, 5)})")
    for entrant_id, count in missing.items():
        echo(
            f"{count} responses of {entrant_id} do not exist, so what the judge was asked about "
            "them is not known: generate them (`tournament run --skip-judging`) and recover again"
        )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _batches(names: Sequence[str]) -> str:
    return _counted(len(names), "batch", "batches")
