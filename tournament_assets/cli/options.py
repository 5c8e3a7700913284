"""Options that several commands share, and how their reports are shown."""

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from tournament_assets.cli import echo
from tournament_assets.foundation.errors import InputError
from tournament_assets.reports.report_tables import Document, document_markdown, document_page
from tournament_assets.reports.terminal import print_document
from tournament_assets.storage.atomic_files import write_bytes_atomically

if TYPE_CHECKING:
    from tournament_assets.launching import StoredTables
    from tournament_assets.project.plan import TournamentPlan
    from tournament_assets.tournament.config import Mode


def say_loading() -> None:
    """Say what the next seconds are for, unless it is loaded already."""
    if sys.modules.get("dagster") is None:
        echo("loading Dagster and the tournament …", err=True)


def find_config(context: click.Context, _: object, chosen: Path | None) -> Path:
    """Return the config that is named, or the project's only one."""
    if chosen is not None:
        return chosen
    folder = Path(os.environ.get("TOURNAMENT_PROJECT", ""), "configs")
    configs = sorted(folder.glob("*.yaml"))
    if len(configs) == 1:
        echo(f"config: {configs[0]}, the only one here; --config names another", err=True)
        return configs[0]
    held = " and ".join(path.name for path in configs) or "no .yaml file"
    raise click.UsageError(
        f"no config is named, and {folder} holds {held}; expected --config FILE"
        + ("" if configs else "; tournament init writes a project"),
        context,
    )


def _say_mode(context: click.Context, option: click.Parameter, mode: str) -> str:
    """Say which mode is taken where none is named."""
    source = context.get_parameter_source(str(option.name))
    if source is click.core.ParameterSource.DEFAULT:
        echo(f"mode: {mode}; --mode names another", err=True)
    return mode


def _require_mode(context: click.Context, option: click.Parameter, mode: str | None) -> str:
    """Return the mode that is named; the pilot for a dry run, which asks nothing."""
    if mode is None and not context.params.get("dry_run"):
        raise click.MissingParameter(ctx=context, param=option)
    return mode or "pilot"


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take `--config`, and hand it as `plan` what the config is loaded into."""

    @click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        callback=find_config,
        help="The tournament's YAML, such as configs/demo.yaml; "
        "by default the only one in configs/.",
    )
    @wraps(command)
    def with_plan(config_path: Path, **options: Any) -> Any:
        plan = plan_of_mode(config_path, options.get("mode"))
        try:
            return command(plan=plan, **options)
        except InputError as error:
            from tournament_assets.project.config_files import with_lines

            raise InputError(with_lines(plan.shown_path, error.problems)) from None

    return with_plan


def plan_of_mode(config_path: Path, mode: "Mode | None") -> "TournamentPlan":
    """Load a config once for everything that a command does.

    Args:
        mode: A mode that the config has to have; None for any.

    Raises:
        InputError: With every problem of the config; or if it has no such mode.
    """
    from tournament_assets.project.config_files import load_config

    config_file = load_config(config_path)
    if mode is not None:
        config_file.config.mode(mode)
    # It takes numpy, and a config that is wrong needs none.
    from tournament_assets.project.plan import plan_of

    return plan_of(config_file, os.environ)


def stored_tables(plan: "TournamentPlan", mode: "Mode") -> "StoredTables":
    """Return what reads the stored tables of a mode, through Dagster, which is loaded here."""
    from tournament_assets import launching

    return launching.StoredTables(plan, mode)


_MODES = (
    "pilot: a stratified part of the bank, cheap. headline: the whole bank. Or one of the config's "
    "own modes."
)
mode_option = click.option(
    "--mode", metavar="MODE", default="pilot", show_default=True, callback=_say_mode, help=_MODES
)
named_mode_option = click.option("--mode", metavar="MODE", callback=_require_mode, help=_MODES)
"""For what asks again and costs twice as much."""
margin_option = click.option(
    "--margin",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="ELO",
    help="The largest difference that does not matter, in Elo points.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print every number, as JSON.")
markdown_option = click.option(
    "--markdown",
    "markdown_path",
    metavar="OUT.md",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page to this file, with the column or the file behind every number.",
)

page_option = click.option(
    "--page",
    "page_path",
    metavar="OUT.html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page for a browser to this file.",
)


def open_console(width: int = 100) -> Console:
    """Return a console as wide as the terminal, or of the given width without a terminal."""
    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def show_report(
    document: Document,
    values: Callable[[], Any],
    *,
    as_json: bool,
    markdown_path: Path | None = None,
    page_path: Path | None = None,
    width: int = 120,
) -> None:
    """Print a report as tables or as JSON, and write it as a page if one is wanted.

    Args:
        values: Returns the values to print as JSON.
        markdown_path: Where to write it in Markdown; None for nowhere.
        page_path: Where to write it in HTML; None for nowhere.
        width: Width of the tables in characters, if there is no terminal.
    """
    for path, render in ((markdown_path, document_markdown), (page_path, document_page)):
        if path is None:
            continue
        try:
            page = render(document).encode("utf-8", errors="backslashreplace")
            write_bytes_atomically(path, page)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error}") from error
    if as_json:
        click.echo(json.dumps(values(), indent=2))
    else:
        print_document(document, open_console(width))
