"""The run directory `runs/<mode>_<timestamp>/`: written whole or not at all, and found again."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.input_files import read_input, reading

FileContent = bytes | Callable[[IO[bytes]], object]
"""A file's content, or a function that writes it part by part to the file it is given."""

CHECKSUMS = "SHA256SUMS"
"""The file that holds the SHA-256 of every other one, as `sha256sum --check` reads it."""


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """A run directory that was written.

    Attributes:
        fingerprints: SHA-256 of every file but `SHA256SUMS` by relative path.
        n_bytes: Bytes of all files together.
    """

    folder: Path
    fingerprints: Mapping[str, str]
    n_bytes: int


def run_directory_name(mode: str, finished_at: datetime) -> str:
    """Return the name of a run's directory, such as `pilot_20261104T101500Z`."""
    return f"{mode}_{finished_at:%Y%m%dT%H%M%SZ}"


def write_run_directory(
    parent: Path, name: str, files: Iterable[tuple[str, FileContent]]
) -> WrittenRun:
    """Write a directory of files, with their checksums, so that it exists whole or not at all.

    Everything goes into a temporary directory beside it, which is renamed at the end. If the name
    is taken, a number is appended: an earlier run is never overwritten.

    Args:
        parent: The folder of all runs; created if needed.
        name: The directory's name.
        files: Relative paths and contents; each is written as it comes.
    """
    parent.mkdir(parents=True, exist_ok=True)
    temporary = parent / f".{name}.{secrets.token_hex(4)}.partial"
    fingerprints: dict[str, str] = {}
    n_bytes = 0
    # It holds responses and replies, for its owner to share.
    temporary.mkdir(mode=0o700)
    try:
        for relative, content in files:
            fingerprints[relative], size = _write_file(temporary / relative, content)
            n_bytes += size
        lines = (f"{digest}  {relative}\n" for relative, digest in fingerprints.items())
        n_bytes += _write_file(temporary / CHECKSUMS, "".join(lines).encode())[1]
        folder = _rename_to_free_name(temporary, parent, name)
        return WrittenRun(folder, fingerprints, n_bytes)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_file(path: Path, content: FileContent) -> tuple[str, int]:
    """Return the file's SHA-256 and how many bytes it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+b") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _rename_to_free_name(temporary: Path, parent: Path, name: str) -> Path:
    number = 1
    while True:
        target = parent / (name if number == 1 else f"{name}_{number}")
        try:
            # Renaming onto a non-empty directory fails, so two runs cannot take one name.
            temporary.rename(target)
        except OSError:
            if not target.exists():
                raise
            number += 1
        else:
            return target


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """The runs of one tournament and mode in a folder.

    Attributes:
        directories: Their directories, in the order in which they finished.
        problems: The mode's directories whose tournament cannot be read, and why.
    """

    directories: tuple[Path, ...]
    problems: tuple[str, ...]

    def before(self, directory: Path) -> Path | None:
        """Return the run that finished last before a given one; None if there is none."""
        if directory not in self.directories:
            return None
        place = self.directories.index(directory)
        return self.directories[place - 1] if place else None


def find_runs(folder: Path, *, tournament_id: str, mode: str) -> FoundRuns:
    """Look for the finished runs of a tournament's mode.

    Args:
        folder: The folder of all runs; it need not exist.
    """
    runs: list[tuple[datetime, int, str, Path]] = []
    problems = []
    for path in sorted(folder.glob("*/manifest.json")):
        directory = path.parent
        if directory.name.startswith("."):
            # A directory still being written.
            continue
        try:
            manifest = json.loads(read_input(path))
            whose = manifest["tournament"], manifest["mode"]
            if whose != (tournament_id, mode):
                continue
            finished_at = _read_time(manifest["finished_at"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            if directory.name.startswith(f"{mode}_"):
                problems.append(
                    f"{directory.name} has no manifest that can be read "
                    f"({type(error).__name__}: {error}), so it is passed over"
                )
            continue
        # Of two that finished in the same second, the later one got the longer or higher name.
        runs.append((finished_at, len(directory.name), directory.name, directory))
    return FoundRuns(tuple(entry[-1] for entry in sorted(runs)), tuple(problems))


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest of a finished run.

    Raises:
        InputError: If it is not the directory of a finished run.
    """
    path = directory / "manifest.json"
    expected = "the directory of a finished run, such as runs/pilot_20261104T101500Z"
    with reading(path, expected, label=f"{path}: the manifest"):
        manifest = json.loads(read_input(path))
    if not isinstance(manifest, dict):
        raise InputError(
            f"{path}: the manifest is {type(manifest).__name__}; expected a JSON object"
        )
    return manifest


def _read_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
