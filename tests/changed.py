"""Prints the tests of what was changed since the last commit, or by it if nothing was.

    python -m pytest $(python -m tests.changed)

A module's tests are in the folder of its name under `tests/`. What needs a browser, a daemon or
other machines is left to `make e2e`.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]


def changed_files(root: Path = ROOT) -> list[str]:
    """Return the files that differ from the last commit; those that it changed if none differ."""
    now = [
        *_git(root, "diff", "--name-only", "HEAD"),
        *_git(root, "ls-files", "-o", "-X.gitignore"),
    ]
    return now or _git(root, "diff", "--name-only", "HEAD~1", "HEAD")


def places_to_test(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the folders and files of tests that belong to files of the project, sorted."""
    found = {place for file in files for place in _places(PurePosixPath(file), root)}
    return sorted(place for place in found if (root / place).exists())


def _places(file: PurePosixPath, root: Path) -> Iterator[str]:
    top, *inner = file.parts
    if top not in ("tournament_assets", "tests") or not inner:
        return
    if len(inner) > 1:
        depth = 2 if inner[0] == "extras" and len(inner) > 2 else 1
        yield "/".join(["tests", *inner[:depth]])
    elif top == "tests":
        yield str(file) if file.name.startswith("test_") else "tests/test_house.py"
    else:
        yield from (
            path.relative_to(root).as_posix()
            for path in (root / "tests").rglob(f"test_{file.stem}.py")
        )


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.stdout.write(" ".join(places_to_test(changed_files()) or ["tests/test_house.py"]) + "\n")
