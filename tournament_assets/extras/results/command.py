"""`tournament claims`."""

from pathlib import Path
from typing import Any

import click

from tournament_assets.battles.rating import rate_battles
from tournament_assets.battles.registry import pool_battles
from tournament_assets.cli.options import json_option, margin_option, page_option, show_report
from tournament_assets.extras.results.claims import claim_battles, claim_scores
from tournament_assets.extras.results.reading import (
    ResultOptions,
    hold_battles,
    open_battles,
    read_results,
)
from tournament_assets.foundation.errors import InputError, make_each
from tournament_assets.reports.report_tables import Document
from tournament_assets.tournament.battles import RatingSettings


@click.command("claims")
@click.argument(
    "files", nargs=-1, required=True, metavar="RESULTS…", type=click.Path(path_type=Path)
)
@click.option("--item", metavar="COLUMN", help="The column that names the item.")
@click.option("--system", metavar="COLUMN", help="The column that names the system.")
@click.option("--score", metavar="COLUMN", help="The column or scorer to compare by.")
@click.option("--group", metavar="COLUMN", help="What items are part of; groups are resampled.")
@click.option("--repeat", metavar="COLUMN", help="What tells a system's answers to an item apart.")
@click.option(
    "--where",
    type=(str, str),
    multiple=True,
    metavar="COLUMN TEXT",
    help="Read only rows with this text, as in --where filter strict-match. May be repeated.",
)
@click.option("--lower-is-better", is_flag=True, help="The scores are losses.")
@click.option("--by-file", is_flag=True, help="Each file is one system, named after it.")
@margin_option
@page_option
@json_option
def claims_command(
    files: tuple[Path, ...],
    margin: float,
    page_path: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Say which system is better in RESULTS that other tools wrote, and how sure that is.

    RESULTS are tables of scores (a row for each item and a column for each system, or a row for
    each score), logs of inspect or lm-eval, instances of Every Eval Ever, results of promptfoo, or
    battles. Two systems are compared on the items that both have, all pairs together. It sends
    nothing.

    \b
    tournament claims scores.csv --group repository
    tournament claims logs/*.eval --score accuracy --page claims.html
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    settings = RatingSettings(equivalent_within=margin)
    options = ResultOptions(**reading)
    if options == ResultOptions() and hold_battles(files):
        changes = {"equivalent_within": margin}
        battles = pool_battles(lambda: make_each(open_battles, files), changes=changes)
        if n_stopped := sum(tally["stopped"] for tally in battles.pool.tallies.values()):
            raise InputError(
                f"{n_stopped} battles stand for several pairs: judging stopped early, so resamples "
                "tell nobody's place; expected battles that stand for themselves; the report of "
                "the run says who is better"
            )
        rated = rate_battles(
            battles.pool, settings=battles.settings, methods=["bradley-terry"], pairs=True
        )
        left_out = (f"Left out, {why}: {n}." for why, n in battles.pool.left_out.items())
        notes = (*battles.warnings, *left_out)
        claims = [claim_battles(each, battles.settings, notes) for each in rated]
    else:
        claims = [claim_scores(read_results(files, options), settings)]
    sections = [section for each in claims for section in each.sections]
    show_report(
        Document(", ".join(path.name for path in files), sections),
        lambda: [each.to_dict() for each in claims],
        as_json=as_json,
        page_path=page_path,
    )
