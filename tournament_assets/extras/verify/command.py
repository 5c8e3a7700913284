"""`tournament verify`: a run's files, compared with the checksums that were written with them."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.formatting import format_plural
from tournament_assets.foundation.input_files import reading
from tournament_assets.storage.run_directory import CHECKSUMS

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


@click.command("verify")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
@click.pass_context
def verify_command(context: click.Context, folder: Path) -> None:
    """Name the files of the run directory RUN that changed, are gone, or were added.

    Every file is compared with SHA256SUMS, the checksums that were written with the run. They say
    nothing about whether a number is right, and nothing about a file that was changed together with
    its line: keep SHA256SUMS elsewhere, or sign it, if somebody may have had a reason to. Sends no
    request.

    Exit code 0: every file is as it was written. 1: a file changed, is gone, or was added.
    2: not the directory of a run, or SHA256SUMS or a file cannot be read.

    \b
    tournament verify runs/pilot_20261104T101500Z
    """  # noqa: D301 (\b tells click to keep the lines that follow)
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
    for name, difference in differences.items():
        # A name may hold what a terminal obeys, or bytes that are not UTF-8.
        echo(f"{difference}: {name if name.isprintable() else ascii(name)}")
    n = format_plural(len(listed), "file")
    if not differences:
        echo(f"{CHECKSUMS}: {n}, all as they were written")
        return
    echo(f"{CHECKSUMS}: {n}, {len(differences):,} changed, gone or added")
    context.exit(1)


def _read_checksums(path: Path) -> dict[str, str]:
    with reading(path, "the directory of a finished run, such as runs/pilot_20261104T101500Z"):
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    listed: dict[str, str] = {}
    problems = Problems(of_file=True)
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
        for path in (Path(place, name) for name in (*files, *folders)):
            relative = path.relative_to(folder).as_posix()
            # A link is not followed: a run is written without any.
            if relative != CHECKSUMS and (path.is_symlink() or not path.is_dir()):
                yield relative, path


def _difference(path: Path | None, digest: str | None) -> str:
    if path is None:
        return "gone"
    if digest is None:
        return "added"
    # Reading anything else may wait forever, and a link may lead to what changes later.
    if not stat.S_ISREG(path.lstat().st_mode):
        return "not a regular file"
    with path.open("rb") as file:
        return "" if hashlib.file_digest(file, "sha256").hexdigest() == digest else "changed"
