"""Pages that a command writes beside what it prints."""

from pathlib import Path

from tournament_assets.adapters.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all.

    Raises:
        InputError: If the file cannot be written.
    """
    try:
        write_bytes_atomically(path, text.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
