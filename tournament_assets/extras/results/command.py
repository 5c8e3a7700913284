"""`tournament claims`."""

from pathlib import Path
from typing import Any

import click

from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.registry import FORMATS as BATTLES
from tournament_assets.battles.registry import pool_battles, read_battles
from tournament_assets.cli.options import json_option, markdown_option, show_report
from tournament_assets.extras.results.claims import (
    By,
    claim,
    claims_document,
    claims_values,
    pair_battles,
    pair_scores,
)
from tournament_assets.extras.results.reading import ResultOptions, read_results
from tournament_assets.foundation.errors import make_each
from tournament_assets.tournament.battles import RatingSettings


@click.command("claims")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--item", metavar="COLUMN", help="The column that names the item.")
@click.option("--system", metavar="COLUMN", help="The column that names the system.")
@click.option("--score", metavar="NAME", help="The column, metric or scorer to compare by.")
@click.option("--group", metavar="COLUMN", help="What items are part of; groups are resampled.")
@click.option("--repeat", metavar="COLUMN", help="What tells a system's answers to an item apart.")
@click.option("--lower-is-better", is_flag=True, help="The scores are losses.")
@click.option("--by-file", is_flag=True, help="Each file is one system, named after it.")
@json_option
def claims_command(files: tuple[Path, ...], as_json: bool, **reading: Any) -> None:
    """Say which system is better in RESULTS."""
    settings = RatingSettings()
    table = read_results(files, ResultOptions(**reading))
    claims = [claim(pair_scores(table, settings.resampling), settings)]
    show_report(
        claims_document(", ".join(map(str, files)), claims, is_whole=False),
        lambda: [claims_values(each) for each in claims],
        as_json=as_json,
    )
