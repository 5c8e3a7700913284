import os
import subprocess
from pathlib import Path

import pytest

from tournament_assets.provenance.origins import Commit, Versions, find_commit, read_versions


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "rubrics").mkdir(parents=True)
    (folder / "rubrics" / "factuality.txt").write_text("# version: 1\n")
    (folder / "notes.txt").write_text("nothing\n")
    git(tmp_path, "init", "-q", str(folder))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def test_a_folder_is_known_by_the_last_commit_that_changed_something_in_it(checkout: Path) -> None:
    first = git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").write_text("something\n")
    git(checkout, "commit", "-q", "-a", "-m", "Write")
    assert find_commit(checkout / "rubrics") == Commit(first, has_changes=False)
    assert find_commit(checkout) == Commit(git(checkout, "rev-parse", "HEAD"), has_changes=False)


def test_an_edit_since_the_commit_is_said(checkout: Path) -> None:
    (checkout / "rubrics" / "factuality.txt").write_text("# version: 2\n")
    found = find_commit(checkout)
    assert found is not None
    assert found.has_changes
    assert str(found) == f"{found.hash[:12]} with changes"


def test_what_nobody_committed_has_no_commit(checkout: Path, tmp_path: Path) -> None:
    installed = checkout / "site-packages"
    installed.mkdir()
    (installed / "program.py").write_text("")
    assert find_commit(installed) is None
    assert find_commit(tmp_path / "elsewhere") is None


def test_versions_are_those_of_the_program_python_and_what_it_requires(tmp_path: Path) -> None:
    versions = read_versions(tmp_path)
    assert versions.project_commit is None
    assert {"numpy", "scipy", "dagster", "torch", "anthropic"} <= versions.libraries.keys()
    assert "pytest" not in versions.libraries
    assert f"numpy {versions.libraries['numpy']}" in str(versions)


def test_versions_read_as_one_line() -> None:
    versions = Versions(
        program="1.2",
        program_commit=Commit("0123456789abcdef", has_changes=True),
        project_commit=None,
        python="CPython 3.12.1",
        libraries={"numpy": "2.4"},
    )
    assert str(versions) == (
        "tournament-assets 1.2 (commit 0123456789ab with changes), CPython 3.12.1, numpy 2.4"
    )
