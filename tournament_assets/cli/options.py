"""Options that several commands share."""

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    required=True,
    help="The tournament's YAML, such as configs/demo.yaml.",
)
mode_option = click.option(
    "--mode",
    type=click.Choice(["pilot", "headline"]),
    required=True,
    help="pilot: a stratified part of the bank, cheap. headline: the whole bank.",
)
