"""The `tournament` command.

Exit codes: 0 all well, 1 the work failed, 2 bad usage or bad input, 130 interrupted.
"""

import copy
import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tournament_assets.cli.archives import archive_group
from tournament_assets.cli.battles import battles_group
from tournament_assets.cli.configuration import bank_group, configuration_command, init_command
from tournament_assets.cli.labels import label_group
from tournament_assets.cli.ledger import ledger_group
from tournament_assets.cli.reporting import (
    audit_command,
    compare_command,
    fair_comparison_command,
    gate_command,
    site_command,
    track_command,
)
from tournament_assets.cli.running import (
    doctor_command,
    estimate_command,
    plan_command,
    rejudge_command,
    run_command,
)
from tournament_assets.loopback.running import judge_server_command
from tournament_assets.reports.rendering import escape_terminal
from tournament_assets.tournament.errors import InputError, InterruptedWorkError, TournamentError

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EXIT_FAILED, _EXIT_BAD_INPUT, _EXIT_INTERRUPTED = 1, 2, 130

_errors = Console(stderr=True, highlight=False, soft_wrap=True)


class _Commands(click.Group):
    """Turns the project's exceptions into messages and exit codes, in one place."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            count = len(error.problems)
            noun = "problem" if count == 1 else "problems"
            _errors.print(f"[bold red]{count} {noun} in the input; nothing was spent[/]")
            for problem in error.problems:
                _errors.print(f"  - {escape_terminal(problem)}", markup=False)
            ctx.exit(_EXIT_BAD_INPUT)
        except InterruptedWorkError as error:
            self._interrupted(ctx, str(error))
        except (KeyboardInterrupt, click.Abort):
            self._interrupted(ctx, "interrupted; what was paid for is kept: run the command again")
        except TournamentError as error:
            _errors.print("[bold red]the work failed[/]")
            _errors.print(f"  {escape_terminal(str(error))}", markup=False)
            ctx.exit(_EXIT_FAILED)

    @staticmethod
    def _interrupted(ctx: click.Context, sentence: str) -> None:
        _errors.print(f"\n{escape_terminal(sentence)}", markup=False)
        ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_Commands, context_settings=_CONTEXT)
@click.version_option(package_name="tournament-assets")
def main() -> None:
    """Find out which configuration of a language model is better, and how sure you can be."""


@main.command("dagster-home", short_help="Print the folder in which Dagster keeps its runs.")
def dagster_home_command() -> None:
    """Print the folder in which Dagster keeps its runs, and create it if necessary."""
    from tournament_assets.project.project_files import prepare_dagster_home

    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    click.echo(prepare_dagster_home(project, os.environ.get("DAGSTER_HOME")))


for command in (
    run_command,
    estimate_command,
    plan_command,
    doctor_command,
    rejudge_command,
    audit_command,
    fair_comparison_command,
    compare_command,
    gate_command,
    site_command,
    track_command,
    ledger_group,
    bank_group,
    battles_group,
    label_group,
    archive_group,
    init_command,
    configuration_command,
    judge_server_command,
):
    main.add_command(command)

# The name that the command had before: for one release more, and not listed.
_earlier = copy.copy(fair_comparison_command)
_earlier.hidden, _earlier.deprecated = True, "use fair-comparison"
main.add_command(_earlier, "report")
