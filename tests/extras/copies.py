"""Copies of the package with other extras, and programs that run with such a copy."""

import shutil
import subprocess
import sys
from pathlib import Path

import tournament_assets
from tests.projects import SmallProject

PACKAGE = Path(tournament_assets.__file__).parent


def copy_of_package(folder: Path) -> Path:
    copy = folder / "copy" / PACKAGE.name
    # With what Python has compiled, which it takes as long to make anew as to run a tournament.
    shutil.copytree(PACKAGE, copy)
    return copy


def copy_of_project(folder: Path) -> Path:
    """Copy what the project's repository holds, with changes that are not committed."""
    copy = folder / "copy"
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (PACKAGE.parent / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PACKAGE.parent / name, copy / name)
    return copy


def run_script(script: str, copy: Path, project: SmallProject) -> str:
    """Run a program that is given a project's folder; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(project.folder)],
        cwd=copy.parent,
        env={"PATH": "", "HOME": str(project.folder), "PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
