"""`tournament battles import | export | rate`."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tournament_assets.battles.counts import CountedBattles
from tournament_assets.battles.files import BattleFile, FormatOptions
from tournament_assets.battles.rating import (
    COUNTED_METHOD,
    USUAL_METHODS,
    BattleRatings,
    PairOrder,
    anchor_ratings,
    battle_methods,
    rate_battles,
    require_resamples,
)
from tournament_assets.battles.registry import (
    FORMATS,
    WRITTEN_FORMATS,
    count_battles,
    pool_battles,
    read_battles,
    read_responses,
    write_battles,
)
from tournament_assets.cli import echo
from tournament_assets.cli.options import json_option
from tournament_assets.foundation.errors import InputError, make_each
from tournament_assets.foundation.formatting import expect_one_of, format_confidence, format_share
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    METHODS,
    STYLE,
    compared_methods,
    rows_by,
)
from tournament_assets.reports.rating_method_tables import ONE_METHOD, AnyStanding
from tournament_assets.reports.rendering import show_controls
from tournament_assets.reports.report_tables import Cell, ReportTable, select_columns
from tournament_assets.reports.terminal import print_table, print_text
from tournament_assets.tournament.asset_rows import EloRow, RatingRow
from tournament_assets.tournament.battles import RatingSettings

_FORMATS = tuple(FORMATS)
_PAIR_COLUMNS = ("model_a", "model_b", "wins_a", "wins_b", "ties", "win_rate_a", "p_a_above_b")
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
        _require_dimension(battles, dimension)
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
    help="both: Elo and Bradley-Terry; bradley-terry alone reads any number of battles once.",
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
    "--pairs", is_flag=True, help="Print win rates and P(A above B) for every two models."
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
    help="Write what was counted of the battles, to be added later; by Bradley-Terry alone.",
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
    changes = {name: value for name, value in others.items() if value is not None}
    takes_counts = save_counts is not None or bool(added)
    if not files and not added:
        raise click.UsageError("Missing argument 'FILES...'.")
    methods = _methods(method, takes_counts=takes_counts, has_responses=responses is not None)
    battles = None
    if methods == [COUNTED_METHOD] and responses is None:
        battles = count_battles(
            files,
            format_name=format_name,
            options=FormatOptions(**reading),
            changes=changes,
            preferences=preferences,
            added=added,
            always=takes_counts,
        )
    if battles is None:
        battles = pool_battles(make_each(lambda file: _read(file, format_name, reading), files))
    saved = battles.settings or RatingSettings()
    settings = RatingSettings.from_dict({**saved.to_dict(), **changes})
    require_resamples(settings)
    if save_counts is not None and isinstance(battles.battles, CountedBattles):
        battles.battles.save(save_counts)
    ratings = rate_battles(
        battles.battles,
        settings=settings,
        dimensions=dimensions,
        methods=methods,
        preferences=preferences,
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
            "left_out": dict(battles.left_out),
            "notes": list(battles.notes),
            "settings": settings.to_dict(),
            "ratings": [each.to_dict() for each in ratings],
        }
        # Inside JSON the escape of a sign is the sign, so the text reads back as it was.
        text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
        click.echo(show_controls(text))
        return
    listed, formats = ", ".join(map(str, (*files, *added))), ", ".join(battles.formats)
    echo(f"{listed}: {battles.n_battles} battles, {formats}")
    _print_left_out(battles.left_out, battles.notes)
    for warning in battles.warnings:
        echo(f"  warning: {warning}")
    if battles.settings is None:
        echo("  the file does not say how it was rated; the options and defaults apply")
    print_battle_ratings(
        ratings, Console(width=None if sys.stdout.isatty() else 100, highlight=False), settings
    )


def _methods(method: str, *, takes_counts: bool, has_responses: bool) -> Sequence[str]:
    """Return the rating methods that are meant by `--method`."""
    source = click.get_current_context().get_parameter_source("method")
    is_chosen = source is not click.core.ParameterSource.DEFAULT
    if not takes_counts:
        return {"both": USUAL_METHODS, "all": [*battle_methods()]}.get(method, [method])
    if has_responses or (is_chosen and method != COUNTED_METHOD):
        raise click.UsageError(
            f"counts can be rated by {COUNTED_METHOD} alone; leave out --method and --responses, "
            "or --save-counts and --add"
        )
    return [COUNTED_METHOD]


def _read(file: Path, format_name: str | None, reading: Mapping[str, Any]) -> BattleFile:
    return read_battles(file, format_name=format_name, options=FormatOptions(**reading))


def _require_dimension(battles: BattleFile, dimension: str) -> None:
    names = different_names(battles.table, "dimension")
    if dimension not in names:
        raise InputError(f"no battle is on {dimension!r}; {expect_one_of(dimension, names)}")


def _print_left_out(left_out: Mapping[str, int], notes: Iterable[str]) -> None:
    for reason, count in left_out.items():
        echo(f"  left out, {reason}: {count}")
    for note in filter(None, notes):
        echo(f"  {note}")


def print_battle_ratings(
    ratings: Sequence[BattleRatings], console: Console, settings: RatingSettings
) -> None:
    """Print one table for each dimension, its counts, and what the intervals cover.

    Args:
        ratings: The ratings, by dimension.
        settings: How the battles were rated.
    """
    for rated in ratings:
        if rated.elo or rated.by(BRADLEY_TERRY):
            print_table(rated.dimension or "no dimension named", _table(rated), console)
        for more in _more_tables(rated):
            print_table(*more, console)
        counts = rated.counts
        line = (
            f"{counts['battles']} battles on {counts['prompts']} prompts: {counts['decisive']} "
            f"decisive, {counts['ties']} ties, of which {counts['inconsistent']} inconsistent"
        )
        for text in (*_elo_sentences(rated), line, *_unrated(rated), *rated.notes):
            print_text(text, console)
    console.print()
    for text in _explanations(ratings, settings):
        print_text(text, console, style="dim")


def _more_tables(ratings: BattleRatings) -> Iterator[tuple[str, ReportTable]]:
    for name in compared_methods():
        if name != BRADLEY_TERRY and (rows := ratings.by(name)):
            yield str(METHODS[name]), ReportTable.of(rows, ONE_METHOD, n_labels=2)
    if style := rows_by(ratings.ratings, STYLE):
        yield (
            "at equal style (Elo points; a feature's are what one unit of it was worth)",
            ReportTable.of(style, ONE_METHOD, n_labels=2),
        )
    if ratings.pairs:
        yield (
            "each two that met; P: share of the resamples with A above B by Bradley–Terry",
            ReportTable.of(ratings.pairs, select_columns(PairOrder, *_PAIR_COLUMNS), n_labels=2),
        )


def _unrated(ratings: BattleRatings) -> list[str]:
    """Name, for everyone without a number, which rating lacks it and why."""
    elo = [row for row in ratings.elo if row.is_primary]
    reasons: dict[str, dict[str, list[str]]] = {}
    for method, rows in (("Elo", elo), ("Bradley–Terry", ratings.by(BRADLEY_TERRY))):
        for row in rows:
            if row.note:
                by_note = reasons.setdefault(row.entrant_id, {})
                by_note.setdefault(row.note, []).append(method)
    return [
        f"no {' and no '.join(methods)} rating of {name}: {note}"
        for name, by_note in reasons.items()
        for note, methods in by_note.items()
    ]


def _table(ratings: BattleRatings) -> ReportTable:
    elo = [row for row in ratings.elo if row.is_primary]
    strengths = ratings.by(BRADLEY_TERRY)
    share = ratings.win_rates
    win_rate: dict[str, Cell[AnyStanding]] = {
        "win rate": lambda row: format_share(share.get(row.entrant_id))
    }
    if strengths:
        places = ("places_and_group",) if any(row.group for row in strengths) else ()
        columns = select_columns(RatingRow, "rank", "model", "rating", "interval", *places)
        return ReportTable.of(strengths, columns | win_rate, n_labels=2)
    columns = select_columns(EloRow, "rank", "entrant_id", "mean_and_error", "n_entrant_matches")
    return ReportTable.of(elo, columns | win_rate, n_labels=2)


def _elo_sentences(ratings: BattleRatings) -> list[str]:
    """Name everybody's mean Elo rating and its order noise, below a table of other ratings."""
    means = [
        f"{row.entrant_id} {row.mean_and_error}"
        for row in ratings.elo
        if row.is_primary and ratings.by(BRADLEY_TERRY)
    ]
    return [f"Elo, mean over orderings ± SEM (order noise): {', '.join(means)}."] if means else []


def _explanations(ratings: Sequence[BattleRatings], settings: RatingSettings) -> list[str]:
    confidence = format_confidence(settings.confidence)
    lines = []
    if any(each.elo for each in ratings):
        lines.append(
            f"Elo: K = {settings.k_factor:g}, {settings.n_permutations} orderings (seed "
            f"{settings.shuffle_seed}), from {settings.initial_rating:g}. SEM shows "
            "order noise only."
        )
    lines.append(
        f"Sampling intervals ({confidence}): whole prompts resampled {settings.n_bootstraps} times "
        f"(seed {settings.bootstrap_seed})."
    )
    return lines
