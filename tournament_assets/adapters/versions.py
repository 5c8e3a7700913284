"""What a result was made with: versions of program, Python and libraries, and the commits."""

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

_DISTRIBUTION = "tournament-assets"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_GIT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder under version control.

    Attributes:
        hash: The last commit that changed something in the folder.
        has_changes: Whether files under version control were edited since.
    """

    hash: str
    has_changes: bool

    def __str__(self) -> str:
        return f"{self.hash[:12]}{' with changes' if self.has_changes else ''}"


@dataclass(frozen=True, slots=True)
class Versions:
    """What a result was made with.

    Attributes:
        program: Version of this program; None where it is not installed as a distribution.
        program_commit: The commit of the program's own folder; None outside of a checkout.
        project_commit: The commit of the project's folder; None if it is not under version control.
        python: Implementation and version of Python.
        libraries: Versions of everything that the program requires, by name.
    """

    program: str | None
    program_commit: Commit | None
    project_commit: Commit | None
    python: str
    libraries: Mapping[str, str]

    def __str__(self) -> str:
        program = f"{_DISTRIBUTION} {self.program or 'of an unknown version'}"
        if self.program_commit is not None:
            program += f" (commit {self.program_commit})"
        libraries = ", ".join(f"{name} {version}" for name, version in self.libraries.items())
        return f"{program}, {self.python}" + (f", {libraries}" if libraries else "")


def read_versions(project: Path) -> Versions:
    """Return what is running now.

    Args:
        project: The project's folder.
    """
    return Versions(
        program=_version_of(_DISTRIBUTION),
        program_commit=find_commit(Path(__file__).parents[1]),
        project_commit=find_commit(project),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries=_libraries(),
    )


def find_commit(folder: Path) -> Commit | None:
    """Return the commit of a folder; None without git, or where nothing in it was committed."""
    commit = _git(folder, "log", "-1", "--format=%H", "--", ".")
    if not commit:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return Commit(commit, has_changes=bool(changes))


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 (a fixed program, and no shell)
            command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


@cache
def _libraries() -> Mapping[str, str]:
    try:
        required = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    names = {
        match.group().lower()
        for each in required
        if "extra ==" not in each and (match := _REQUIREMENT.match(each))
    }
    found = {name: _version_of(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version is not None}


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
