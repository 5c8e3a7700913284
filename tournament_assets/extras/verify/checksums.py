"""Compares a run's files with the checksums that were written with them."""

import hashlib
from pathlib import Path

from tournament_assets.extras.verify.numbers import Checked, Wrong
from tournament_assets.tournament.errors import InputError

CHECKSUMS = "SHA256SUMS"


def check_sums(folder: Path) -> Checked:
    """Name every file that changed, is gone, or was added since the run was written.

    Raises:
        InputError: If the run has no checksums, or they cannot be read.
    """
    try:
        lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder / CHECKSUMS}: {type(error).__name__}; expected the directory of a finished "
            "run, such as runs/pilot_20261104T101500Z, with the checksums of its files"
        ) from None
    written = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    there = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and path.name != CHECKSUMS
    }
    wrong = []
    for name in sorted(written.keys() | there.keys()):
        expected = written.get(name, "no such file")
        found = _digest(there[name]) if name in there else "no such file"
        if found != expected:
            wrong.append(Wrong(name, "SHA-256", found, expected))
    return Checked(CHECKSUMS, len(written), tuple(wrong))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
