"""Options that several commands share.

Pages that a command writes beside what it prints.
"""

from pathlib import Path

import click

from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError

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


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all.

    Raises:
        InputError: If the file cannot be written.
    """
    try:
        write_bytes_atomically(path, text.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
