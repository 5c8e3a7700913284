"""`tournament battles import | export | rate`."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from rich.console import Console

if TYPE_CHECKING:
    from tournament_assets.adapters.battle_files.formats import BattleFile
    from tournament_assets.tournament.rating_settings import RatingSettings

_FORMATS = (
    "tournament",
    "judgearena",
    "lmarena",
    "alpaca-eval",
    "arena-hard",
    "mt-bench",
    "orq-arena",
    "evalica",
    "one-hot",
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _reading_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--baseline", metavar="MODEL", help="Whom all others met, where the file does not say."
        ),
        click.option(
            "--source",
            type=click.Choice(["llm-judge", "human"]),
            help="Who decided, where the file does not say.",
        ),
        click.option(
            "--prompt-column",
            metavar="NAME",
            help="The column that names the prompt, where it is not one the format knows.",
        ),
    ):
        command = option(command)
    return command


@click.group("battles")
def battles_group() -> None:
    """Take battles from other tools' files, write such files, and rate any of them."""


@battles_group.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    help="Found out from the file if absent.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The new file of ours, .parquet or .jsonl.",
)
@_reading_options
def battles_import_command(
    file: Path,
    format_name: str | None,
    out: Path,
    source: str | None,
    baseline: str | None,
    prompt_column: str | None,
) -> None:
    """Read another tool's FILE and write its battles as a file of ours.

    What is no battle, because nobody gave a verdict, is left out and counted by the reason. A file
    with anything wrong is refused whole, with everything that is wrong with it.
    """
    from tournament_assets.adapters.battle_files.registry import write_battles

    battles = _read(file, format_name, source, baseline, prompt_column)
    report = write_battles(out, battles.table, format_name="tournament", settings=battles.settings)
    click.echo(f"{file}: {battles.table.num_rows} battles, {battles.format}")
    _print_left_out(battles.left_out)
    click.echo(f"{out}: {report.n_written} battles")


@battles_group.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "format_name", type=click.Choice(_FORMATS), required=True)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The new file."
)
@click.option(
    "--from", "from_format", type=click.Choice(_FORMATS), help="FILE's format, if it needs saying."
)
@click.option("--dimension", metavar="NAME", help="Only the battles on this dimension.")
@_reading_options
def battles_export_command(
    file: Path,
    format_name: str,
    out: Path,
    from_format: str | None,
    dimension: str | None,
    source: str | None,
    baseline: str | None,
    prompt_column: str | None,
) -> None:
    """Write the battles of FILE as a file of another tool.

    What the format has no place for is counted: battles that are left out, and values that are
    lost although their battle is written.
    """
    from tournament_assets.adapters.battle_files.coding import of_dimension
    from tournament_assets.adapters.battle_files.formats import FormatOptions
    from tournament_assets.adapters.battle_files.registry import write_battles

    battles = _read(file, from_format, source, baseline, prompt_column)
    table = battles.table
    if dimension is not None:
        _require_dimension(battles, dimension)
        table = of_dimension(table, dimension)
    report = write_battles(
        out,
        table,
        format_name=format_name,
        options=FormatOptions(baseline=baseline),
        settings=battles.settings,
    )
    click.echo(f"{file}: {table.num_rows} battles, {battles.format}")
    _print_left_out(battles.left_out)
    click.echo(f"{out}: {report.n_written} battles, {format_name}")
    _print_left_out(report.left_out)
    for name, count in report.lost.items():
        click.echo(f"  lost, {name}: {count} battles")


@battles_group.command("rate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print every number, as JSON.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    help="Found out from the file if absent.",
)
@click.option("--dimension", "dimensions", multiple=True, metavar="NAME", help="Only this; repeat.")
@click.option(
    "--method",
    type=click.Choice(["both", "elo", "bradley-terry", "davidson", "newman", "all"]),
    default="both",
    show_default=True,
    help="both: Elo and Bradley-Terry; Bradley-Terry alone is faster for millions of battles.",
)
@click.option("--k-factor", type=float, metavar="K", help="The most one match can change.")
@click.option("--n-permutations", type=click.IntRange(min=1), metavar="N", help="Orderings.")
@click.option("--shuffle-seed", type=click.IntRange(min=0), metavar="SEED")
@click.option("--n-bootstraps", type=click.IntRange(min=1), metavar="N", help="Resamples.")
@click.option("--bootstrap-seed", type=click.IntRange(min=0), metavar="SEED")
@click.option("--initial-rating", type=float, metavar="ELO")
@click.option("--confidence", type=float, metavar="SHARE", help="Of the intervals, such as 0.95.")
@click.option(
    "--anchor",
    type=(str, float),
    metavar="MODEL ELO",
    help="Move all ratings so that MODEL has this one.",
)
@click.option(
    "--soft", is_flag=True, help="Let Bradley-Terry share a win by the preference, if there is one."
)
@click.option(
    "--intervals",
    type=click.Choice(["percentile", "bca"]),
    default="percentile",
    show_default=True,
    help="Of Bradley-Terry: expanded percentiles, or corrected for bias and skewness.",
)
@click.option("--pairs", is_flag=True, help="Print win rates and P(A above B) of each two models.")
@click.option(
    "--responses",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON lines of model, question_id, response: rate at equal style, too.",
)
@_reading_options
def battles_rate_command(
    files: tuple[Path, ...],
    as_json: bool,
    format_name: str | None,
    dimensions: tuple[str, ...],
    method: str,
    anchor: tuple[str, float] | None,
    soft: bool,
    intervals: str,
    pairs: bool,
    responses: Path | None,
    source: str | None,
    baseline: str | None,
    prompt_column: str | None,
    **changes: Any,
) -> None:
    """Rate the battles of FILES together: Elo and Bradley-Terry, each with its intervals.

    A file that a run wrote says how it was rated, and gives the run's numbers to the bit. Options
    override what the file says; files of other tools are rated as a tournament's config does by
    default.
    """
    from tournament_assets.adapters.battle_files.anchored import anchor_ratings
    from tournament_assets.adapters.battle_files.pooling import pool_battles, read_responses
    from tournament_assets.adapters.battle_files.rating import EVERY_METHOD, METHODS, rate_battles
    from tournament_assets.cli.battle_tables import print_battle_ratings
    from tournament_assets.reports.formatting import show_directions
    from tournament_assets.tournament.rating_settings import RatingSettings

    battles = pool_battles(
        [_read(file, format_name, source, baseline, prompt_column) for file in files]
    )
    kept = battles.settings or RatingSettings()
    given = {name: value for name, value in changes.items() if value is not None}
    settings = RatingSettings.from_dict({**kept.to_dict(), **given})
    _require_resamples(settings)
    ratings = rate_battles(
        battles.table,
        settings=settings,
        dimensions=dimensions,
        methods={"both": METHODS, "all": EVERY_METHOD}.get(
            method, [each for each in EVERY_METHOD if each == method]
        ),
        soft=soft,
        bca=intervals == "bca",
        pairs=pairs,
        responses=None if responses is None else read_responses(responses),
    )
    if anchor is not None:
        model, rating = anchor
        ratings = [anchor_ratings(each, model=model, rating=rating) for each in ratings]
    if as_json:
        values = {
            "file": files[0].name,
            "format": battles.formats[0],
            "files": [file.name for file in files],
            "warnings": list(battles.warnings),
            "left_out": dict(battles.left_out),
            "settings": settings.to_dict(),
            "ratings": [each.to_dict() for each in ratings],
        }
        # Inside JSON the escape of a sign is the sign, so the text reads back as it was.
        text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
        click.echo(show_directions(text))
        return
    listed, formats = ", ".join(map(str, files)), ", ".join(battles.formats)
    click.echo(f"{listed}: {battles.table.num_rows} battles, {formats}")
    _print_left_out(battles.left_out)
    for warning in battles.warnings:
        click.echo(f"  warning: {warning}")
    if battles.settings is None:
        click.echo("  the file does not say how it was rated; the options and defaults apply")
    print_battle_ratings(
        ratings, Console(width=None if sys.stdout.isatty() else 100, highlight=False), settings
    )


def _require_resamples(settings: "RatingSettings") -> None:
    from tournament_assets.tournament.errors import InputError

    # An end needs a resample beyond it on either side.
    needed = math.ceil(2 / (1 - settings.confidence) - 1e-9)
    if settings.n_bootstraps < needed:
        raise InputError(
            f"{settings.n_bootstraps} resamples cannot support an interval of "
            f"{100 * settings.confidence:g} %; expected at least {needed}; raise --n-bootstraps or "
            "lower --confidence"
        )


def _read(
    file: Path,
    format_name: str | None,
    source: str | None,
    baseline: str | None,
    prompt_column: str | None,
) -> "BattleFile":
    from tournament_assets.adapters.battle_files.formats import FormatOptions
    from tournament_assets.adapters.battle_files.registry import read_battles
    from tournament_assets.tournament.battles import BattleSource

    options = FormatOptions(
        source=cast("BattleSource | None", source),
        baseline=baseline,
        prompt_column=prompt_column,
    )
    return read_battles(file, format_name=format_name, options=options)


def _require_dimension(battles: "BattleFile", dimension: str) -> None:
    from tournament_assets.adapters.battle_files.columns import different_names
    from tournament_assets.tournament.errors import InputError

    found = different_names(battles.table, "dimension")
    if dimension not in found:
        raise InputError(
            f"no battle is on the dimension {dimension!r}; the battles have "
            f"{', '.join(found) or 'none'}"
        )


def _print_left_out(left_out: Mapping[str, int]) -> None:
    from tournament_assets.reports.terminal import shown

    for reason, count in left_out.items():
        click.echo(f"  left out, {shown(reason)}: {count}")
