"""A command that counts entrants."""

from pathlib import Path

import click

from tournament_assets import extension


@click.command("entrants")
@click.argument("config", type=click.Path(path_type=Path))
def entrants_command(config: Path) -> None:
    """Name the entrants of a config."""
    click.echo(" ".join(extension.load_config(config).config.entrant_ids))


ROWS = {"entrants": ("commands:entrants_command", "Name the entrants of a config.")}
