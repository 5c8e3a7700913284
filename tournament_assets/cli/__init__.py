"""The `tournament` command.

Exit codes: 0 all well, 1 the work failed, 2 bad usage or bad input, 130 interrupted.
"""

import atexit
import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pkgutil import resolve_name
from typing import Any

import click
from rich.console import Console

from tournament_assets.foundation.errors import (
    ExtensionError,
    InputError,
    InterruptedWorkError,
    TournamentError,
    fold_problems,
)
from tournament_assets.foundation.extensions import (
    extension_problems,
    rows_by_extension,
    set_broken_aside,
)
from tournament_assets.foundation.formatting import expect_one_of, hint_at, hint_at_number
from tournament_assets.reports.rendering import escape_terminal

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_OBJECTS_BETWEEN_COLLECTIONS = 20_000  # Python's own 700 are a few rows of one table.
_EXIT_FAILED, _EXIT_BAD_INPUT, _EXIT_INTERRUPTED = 1, 2, 130

_CORE: dict[str, tuple[str, str]] = {
    "audit": ("cli.audits:audit_command", "Show what is missing, and for whom."),
    "battles": ("cli.battles:battles_group", "Import, export and rate battles."),
    "compare": ("cli.reporting:compare_command", "Compare two finished runs."),
    "configuration": ("cli.configuration:configuration_command", "Print every key of a config."),
    "dagster-home": (
        "cli.configuration:dagster_home_command",
        "Print the folder in which Dagster keeps its runs.",
    ),
    "doctor": ("cli.running:doctor_command", "Check that everything is ready."),
    "estimate": ("cli.running:estimate_command", "Estimate what judging would cost."),
    "fair-comparison": ("cli.audits:fair_comparison_command", "Compare entrants on equal terms."),
    "gate": ("cli.reporting:gate_command", "Pass a candidate that is not worse."),
    "init": ("cli.configuration:init_command", "Write a small tournament to start from."),
    "judge": ("", "Audit a judge's verdicts, or run the loopback judge."),
    "judge serve": ("loopback.running:judge_server_command", "Run the loopback judge on its own."),
    "rejudge": ("cli.running:rejudge_command", "Send failed judge requests again."),
    "run": ("cli.running:run_command", "Materialise a tournament, prompts to leaderboard."),
    "ui": ("cli.configuration:ui_command", "Serve the graph and its runs in the browser."),
}
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def echo(message: str, *, err: bool = False) -> None:
    """Print a line in which everything foreign that a terminal would obey is visible."""
    click.echo(_one_line(message), err=err)


def _one_line(text: str) -> str:
    return escape_terminal(text).replace("\n", "\\n")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage cycles less often, and not among what is loaded already.

    Loaded modules are a million permanent objects; scanning them repeatedly takes a fourteenth of a
    rerun's processor time, and a tenth of a short command's.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _commands() -> dict[str, tuple[str, str]]:
    """Return each command's place and help line: only a command that is called is imported.

    Several words add a command to a group: `battles import` to `battles`, whichever row that has. A
    group that consists of such rows alone has no place.
    """
    core = {
        name: (f"tournament_assets.{place}" if place else "", words)
        for name, (place, words) in _CORE.items()
    }
    return core | {
        name: (f"{extension.package.partition('.')[0]}.{place}" if place else "", words)
        for extension, (name, (place, words)) in rows_by_extension("commands", core.items())
    }


def _names_in(group: str = "") -> list[str]:
    """Return the names of a group's rows; of all commands and groups if it is not named."""
    start = group.split()
    paths = (path.split() for path in _commands())
    end = len(start)
    return sorted({path[end] for path in paths if path[:end] == start and len(path) > end})


def _load_command(path: str) -> click.Command:
    """Import a command; a group comes with the commands that rows add to it."""
    place, words = _commands().get(path, ("", ""))
    command: click.Command = resolve_name(place) if place else click.Group(help=words)
    command.short_help = words
    for added in _names_in(path):
        if not isinstance(command, click.Group):
            raise ExtensionError(
                f"a row adds the command '{path} {added}', and {path!r} is a command; expected a "
                "group; rename it"
            )
        command.add_command(_load_command(f"{path} {added}"), added)
    for each in (command, *getattr(command, "commands", {}).values()):
        vars(each)["parse_args"] = partial(_parse_once, each)
    return command


def _hint(error: click.ClickException, ctx: click.Context) -> str:
    """Return what a command may have been meant to be told in the place of what it refuses."""
    word = error.message.split(" is not ")[0].split(" (")[-1].split("command ")[-1].strip("'.)")
    kind = getattr(getattr(error, "param", None), "type", None)
    options = [name for each in ctx.command.params for name in each.opts if name[:2] == "--"]
    if isinstance(error, click.MissingParameter):
        names = ctx.command_path.partition(" ")[2]
        lines = map(str.strip, (ctx.command.help or "").splitlines())
        example = next((line for line in lines if line.startswith(f"tournament {names} ")), "")
        return f"Write it, as in: {example}" if example else ""
    if isinstance(error, click.NoSuchOption):
        return f"; {expect_one_of(error.option_name, options)}"
    if error.message.startswith("No such command") and isinstance(ctx.command, click.Group):
        also = "options alone or " if ctx.command.invoke_without_command else ""
        return f"; {expect_one_of(word, ctx.command.list_commands(ctx), also=also)}"
    if error.message.startswith("Got unexpected extra argument"):
        option = "--config" if word.endswith((".yaml", ".yml")) else "--mode"
        return f"; did you mean '{option} {word}'?" if option in options else ""
    if isinstance(kind, click.FloatRange):
        return hint_at_number(word, is_share=kind.max == 1)
    return hint_at(word, kind.choices) if isinstance(kind, click.Choice) else ""


def _parse_once(command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
    """Parse a command's arguments; refuse an option that takes one value and is given twice."""
    _, _, order = command.make_parser(ctx).parse_args(list(args))
    for option in order:
        is_value = isinstance(option, click.Option) and not (option.is_flag or option.count)
        takes_one = is_value and not option.multiple and not ctx.resilient_parsing
        if takes_one and order.count(option) > 1:
            raise click.UsageError(f"{option.opts[0]} is given twice; leave one out", ctx)
    return type(command).parse_args(command, ctx, args)


class _Commands(click.Group):
    """Turns the project's exceptions into messages and exit codes, in one place."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; a letter that the terminal does not know is printed as `?`."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        set_broken_aside()
        return _names_in()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "doctor":
            set_broken_aside()
        if cmd_name in _names_in() and cmd_name not in self.commands:
            self.add_command(_load_command(cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            set_broken_aside()
            formatter.write_dl([(name, _commands().get(name, ("", ""))[1]) for name in _names_in()])
        if problems := extension_problems():
            with formatter.section("Left out"):
                for problem in problems:
                    formatter.write_text(escape_terminal(problem))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with rare_collections():
                return super().invoke(ctx)
        except click.ClickException as error:
            hint = _hint(error, getattr(error, "ctx", None) or ctx)
            words = _one_line(error.message.removesuffix(".") + hint)
            vars(error).update(message=words, possibilities=None)
            raise
        except InputError as error:
            count = len(error.problems)
            noun = "problem" if count == 1 else "problems"
            _errors.print(f"[bold red]{count} {noun} in the input; nothing was spent[/]")
            for problem in fold_problems(error.problems):
                _errors.print(f"  - {_one_line(problem)}", markup=False)
            ctx.exit(_EXIT_BAD_INPUT)
        except InterruptedWorkError as error:
            self._interrupted(ctx, str(error))
        except (KeyboardInterrupt, click.Abort):
            self._interrupted(ctx, "interrupted; what was paid for is kept: run the command again")
        except TournamentError as error:
            _errors.print("[bold red]the work failed[/]")
            _errors.print(f"  {_one_line(str(error))}", markup=False)
            ctx.exit(_EXIT_FAILED)

    @staticmethod
    def _interrupted(ctx: click.Context, sentence: str) -> None:
        _errors.print(f"\n{escape_terminal(sentence)}", markup=False)
        ctx.exit(_EXIT_INTERRUPTED)


@click.group(cls=_Commands, context_settings=_CONTEXT)
@click.version_option(package_name="tournament-assets")
def main() -> None:
    """Find out which configuration of a language model is better, and how sure you can be."""
    # Torch reads it when it is first imported, here and in child processes: threads that spin
    # while they wait for a busy core took ten times as long as the work (174 s against 18 s).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # At exit Python would collect garbage that the system frees anyway.
    atexit.register(gc.freeze)
