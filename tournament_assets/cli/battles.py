"""`tournament battles import | export | rate`."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from tournament_assets.battles.columns import (
    PREFERENCES,
    Preferences,
    different_names,
    of_dimension,
)
from tournament_assets.battles.files import BattleFile, FormatOptions
from tournament_assets.battles.rating import (
    USUAL_METHODS,
    anchor_ratings,
    battle_methods,
    need_every_battle,
    rate_battles,
)
from tournament_assets.battles.registry import (
    FORMATS,
    WRITTEN_FORMATS,
    pool_battles,
    read_battles,
    read_responses,
    write_battles,
)
from tournament_assets.cli import echo
from tournament_assets.cli.options import json_option
from tournament_assets.foundation.errors import InputError, make_each
from tournament_assets.reports.battle_sections import battle_sections
from tournament_assets.reports.rendering import show_controls
from tournament_assets.reports.report_tables import Document
from tournament_assets.reports.terminal import print_document

_FORMATS = tuple(FORMATS)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _reading_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--baseline",
            metavar="MODEL",
            help="The model that all others met, if the file does not say.",
        ),
        click.option(
            "--source",
            type=click.Choice(["llm-judge", "human"]),
            help="Who decided, if the file does not say.",
        ),
        click.option(
            "--prompt-column",
            metavar="NAME",
            help="The column that names the prompt, if the format does not know it.",
        ),
    ):
        command = option(command)
    return command


_format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    help="The format; detected from the file by default.",
)


@click.group("battles")
def battles_group() -> None:
    """Import battles from other tools' files, export them, and rate them."""


@battles_group.command("import", short_help="Read another tool's file into our own format.")
@click.argument("file", type=click.Path(path_type=Path))
@_format_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write, .parquet or .jsonl.",
)
@_reading_options
def battles_import_command(
    file: Path, format_name: str | None, out: Path, **reading: str | None
) -> None:
    """Read another tool's FILE and write its battles in our own format.

    Rows that are not battles, because they hold no verdict, are left out and counted by reason.
    A file with any error is refused as a whole, with a list of its errors.
    """
    battles = _read(file, format_name, reading)
    write_battles(out, battles.table, format_name="tournament", settings=battles.settings)
    echo(f"{file}: {battles.table.num_rows} battles, {battles.format}")
    _print_left_out(battles.left_out, [battles.note])
    echo(f"{out}: {battles.table.num_rows} battles")


@battles_group.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "format_name", type=click.Choice(WRITTEN_FORMATS), required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write.",
)
@click.option(
    "--from", "from_format", type=click.Choice(_FORMATS), help="FILE's format; detected by default."
)
@click.option("--dimension", metavar="NAME", help="Only the battles on this dimension.")
@_reading_options
def battles_export_command(
    file: Path,
    format_name: str,
    out: Path,
    from_format: str | None,
    dimension: str | None,
    **reading: str | None,
) -> None:
    """Write the battles of FILE as a file of another tool.

    Values that the format cannot hold are counted.
    """
    battles = _read(file, from_format, reading)
    table = battles.table
    if dimension is not None:
        names = different_names(table, "dimension")
        if dimension not in names:
            raise InputError(
                f"no battle is on the dimension {dimension!r}; the battles have "
                f"{', '.join(names) or 'none'}"
            )
        table = of_dimension(table, dimension)
    lost = write_battles(out, table, format_name=format_name, settings=battles.settings)
    echo(f"{file}: {table.num_rows} battles, {battles.format}")
    _print_left_out(battles.left_out, [battles.note])
    echo(f"{out}: {table.num_rows} battles, {format_name}")
    for name, count in lost.items():
        echo(f"  lost, {name}: {count} battles")


@battles_group.command("rate", short_help="Rate the battles of files together.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@json_option
@_format_option
@click.option(
    "--dimension",
    "dimensions",
    multiple=True,
    metavar="NAME",
    help="Only the battles on this dimension. May be repeated.",
)
@click.option(
    "--method",
    type=click.Choice(["both", *battle_methods(), "all"]),
    default="both",
    show_default=True,
    help="both: Elo and Bradley-Terry; Elo alone keeps every battle in memory.",
)
@click.option("--k-factor", type=float, metavar="K", help="The largest change one match can make.")
@click.option(
    "--n-permutations",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of random orderings of the matches.",
)
@click.option(
    "--shuffle-seed", type=click.IntRange(min=0), metavar="SEED", help="Seeds the orderings."
)
@click.option(
    "--n-bootstraps", type=click.IntRange(min=1), metavar="N", help="Number of resamples."
)
@click.option(
    "--bootstrap-seed", type=click.IntRange(min=0), metavar="SEED", help="Seeds the resampling."
)
@click.option(
    "--initial-rating", type=float, metavar="ELO", help="Elo rating before the first match."
)
@click.option(
    "--confidence", type=float, metavar="SHARE", help="Coverage of the intervals, such as 0.95."
)
@click.option(
    "--anchor",
    type=(str, float),
    metavar="MODEL ELO",
    help="Move all ratings so that MODEL has the rating ELO.",
)
@click.option(
    "--preferences",
    type=click.Choice(PREFERENCES),
    default="share",
    show_default=True,
    help="A preference finer than the winner shares the win; winner: it is ignored.",
)
@click.option(
    "--pairs", is_flag=True, help="Print win rates and which is better for every two models."
)
@click.option(
    "--responses",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON lines of model, question_id, response; rates at equal style, too.",
)
@click.option(
    "--save-counts",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what was counted of the battles, to be added later; no Elo.",
)
@click.option(
    "--add",
    "added",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add the counts of FILE, which --save-counts wrote. May be repeated.",
)
@_reading_options
def battles_rate_command(
    files: tuple[Path, ...],
    as_json: bool,
    format_name: str | None,
    dimensions: tuple[str, ...],
    method: str,
    anchor: tuple[str, float] | None,
    preferences: Preferences,
    pairs: bool,
    responses: Path | None,
    save_counts: Path | None,
    added: tuple[Path, ...],
    **others: Any,
) -> None:
    """Rate the battles of FILES together: Elo and Bradley-Terry, each with its intervals.

    A file that a run wrote records how it was rated, and reproduces the run's numbers bit for bit.
    Options override what the file says. Files of other tools are rated by the defaults of a
    tournament's config.
    """
    reading = {name: others.pop(name) for name in ("source", "baseline", "prompt_column")}
    takes_counts = save_counts is not None or bool(added)
    if not files and not added:
        raise click.UsageError("Missing argument 'FILES...'.")
    methods = _methods(method, takes_counts=takes_counts, has_responses=responses is not None)
    battles = pool_battles(
        lambda: make_each(lambda file: _read(file, format_name, reading), files),
        changes={name: value for name, value in others.items() if value is not None},
        preferences=preferences,
        keeps=responses is not None or need_every_battle(methods),
        added=added,
        always=takes_counts,
    )
    settings, pool = battles.settings, battles.pool
    if save_counts is not None:
        pool.save(save_counts)
    ratings = rate_battles(
        pool,
        settings=settings,
        dimensions=dimensions,
        methods=methods,
        pairs=pairs,
        responses=None if responses is None else read_responses(responses),
    )
    if anchor is not None:
        model, rating = anchor
        ratings = [anchor_ratings(each, model=model, rating=rating) for each in ratings]
    if as_json:
        values = {
            "file": (*files, *added)[0].name,
            "format": battles.formats[0],
            "files": [file.name for file in (*files, *added)],
            "warnings": list(battles.warnings),
            "left_out": dict(sorted(pool.left_out.items())),
            "notes": list(battles.notes),
            "settings": settings.to_dict(),
            "ratings": [each.to_dict() for each in ratings],
        }
        # Inside JSON the escape of a sign is the sign, so the text reads back as it was.
        text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
        click.echo(show_controls(text))
        return
    listed, formats = ", ".join(map(str, (*files, *added))), ", ".join(battles.formats)
    echo(f"{listed}: {pool.n_battles} battles, {formats}")
    _print_left_out(pool.left_out, battles.notes)
    for warning in battles.warnings:
        echo(f"  warning: {warning}")
    if battles.saved is None:
        echo("  the file does not say how it was rated; the options and defaults apply")
    echo("")
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    print_document(Document("", battle_sections(ratings, settings)), console)


def _methods(method: str, *, takes_counts: bool, has_responses: bool) -> Sequence[str]:
    """Return the rating methods that are meant by `--method`."""
    source = click.get_current_context().get_parameter_source("method")
    is_chosen = source is not click.core.ParameterSource.DEFAULT
    if takes_counts and not is_chosen:
        method = "bradley-terry"
    methods = {"both": USUAL_METHODS, "all": [*battle_methods()]}.get(method, [method])
    if takes_counts and (has_responses or need_every_battle(methods)):
        counted = [word for word in battle_methods() if not need_every_battle([word])]
        raise click.UsageError(
            f"counts can be rated by {' or '.join(counted)} alone; leave out --responses and other "
            "methods, or --save-counts and --add"
        )
    return methods


def _read(file: Path, format_name: str | None, reading: Mapping[str, Any]) -> BattleFile:
    return read_battles(file, format_name=format_name, options=FormatOptions(**reading))


def _print_left_out(left_out: Mapping[str, int], notes: Iterable[str]) -> None:
    for reason, count in sorted(left_out.items()):
        echo(f"  left out, {reason}: {count}")
    for note in filter(None, notes):
        echo(f"  {note}")
