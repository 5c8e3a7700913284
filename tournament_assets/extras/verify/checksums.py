"""Compares a run's files with the checksums that were written with them."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tournament_assets.storage.run_directory import CHECKSUMS
from tournament_assets.tournament.errors import InputError, Problems

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_LISTED_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class FileComparison:
    """A run's files and their checksums, side by side.

    Attributes:
        n_listed: How many files have a checksum.
        differences: `changed`, `gone`, `added` or `not a regular file`, by relative path, sorted.
    """

    n_listed: int
    differences: Mapping[str, str]


def compare_files(folder: Path) -> FileComparison:
    """Name every file that changed, is gone, or was added since the run was written.

    A link is not followed: a run is written without any.

    Raises:
        InputError: If the run has no checksums, they cannot be read, a line of theirs is not a
            checksum of a file of this folder, or a file cannot be read.
    """
    listed = _read_checksums(folder / CHECKSUMS)
    try:
        entries = dict(_entries_of(folder))
        differences = {
            name: difference
            for name in sorted(listed.keys() | entries.keys())
            if (difference := _difference(entries.get(name), listed.get(name)))
        }
    except OSError as error:
        raise InputError(
            f"{error.filename!a} cannot be read ({type(error).__name__}); expected files that "
            "may be read, to compare them with their checksums"
        ) from None
    return FileComparison(len(listed), differences)


def _read_checksums(path: Path) -> dict[str, str]:
    try:
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    except OSError as error:
        raise InputError(
            f"{path}: {type(error).__name__}; expected the directory of a finished run, such as "
            "runs/pilot_20261104T101500Z, with the checksums of its files"
        ) from None
    listed: dict[str, str] = {}
    problems = Problems(listed=_LISTED_PROBLEMS)
    # Not splitlines(), which would split names with the line ends of Unicode too.
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match = _LINE.fullmatch(line.removesuffix("\r"))
        if match is None:
            problems.add(f"{path}:{number}: {line[:80]!a}; expected a SHA-256 and a file name")
            continue
        digest, name = match.groups()
        if name in listed or name == CHECKSUMS or {"", ".", ".."} & {*name.split("/")}:
            problems.add(
                f"{path}:{number}: {name!a}; expected every file of this folder once, but for "
                f"{CHECKSUMS}"
            )
        listed[name] = digest
    problems.raise_if_any()
    return listed


def _entries_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield everything below a folder but its folders and its checksums, by relative path."""

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        paths = [Path(place, name) for name in (*files, *folders)]
        for path in paths:
            relative = path.relative_to(folder).as_posix()
            if relative != CHECKSUMS and (path.is_symlink() or not path.is_dir()):
                yield relative, path


def _difference(path: Path | None, digest: str | None) -> str:
    if path is None:
        return "gone"
    if digest is None:
        return "added"
    # Reading anything else may wait for ever, and a link may lead to what changes later.
    if not stat.S_ISREG(path.lstat().st_mode):
        return "not a regular file"
    with path.open("rb") as file:
        return "" if hashlib.file_digest(file, "sha256").hexdigest() == digest else "changed"
