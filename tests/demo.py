"""The demo's pilot as a user runs it: the command, in a copy of the project's own configuration."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class DemoRun:
    """A finished pilot of the demo.

    Attributes:
        project: The project folder it ran in.
        output: What the command printed.
    """

    project: Path
    output: str

    @property
    def dagster_home(self) -> Path:
        return self.project / ".dagster_home"

    @property
    def run_directories(self) -> list[Path]:
        return sorted((self.project / "runs").iterdir())


def copy_project(folder: Path) -> Path:
    for name in ("configs", "rubrics"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def shorten_pilot(project: Path) -> None:
    """Let the demo's pilot have six prompts of the 50, and a tenth of the orderings."""
    path = project / "configs" / "demo.yaml"
    text = path.read_text()
    for old, new in (
        (
            "strata: {recall: 8, vignette: 24, curated: 18}",
            "strata: {recall: 2, vignette: 2, curated: 2}",
        ),
        ("n_permutations: 500", "n_permutations: 50"),
        ("n_bootstraps: 1000", "n_bootstraps: 100"),
    ):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def finish_once(folder: Path, run: Callable[[Path], str]) -> DemoRun:
    """Run a pilot in a folder, unless it was run to its end there before."""
    project, printed = folder / "project", folder / "printed.txt"
    if not printed.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        output = run(project)
        (folder / "printed.tmp").write_text(output)
        (folder / "printed.tmp").replace(printed)
    return DemoRun(project=project, output=printed.read_text())


def start_demo(
    project: Path, *options: str, mode: str, config: str = "demo.yaml"
) -> "subprocess.Popen[str]":
    """Start the `tournament` command on the demo, or on another config of the project."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("ANTHROPIC_", "TOURNAMENT_", "DAGSTER_"))
    }
    script = "from tournament_assets.cli import main; main()"
    arguments = ["run", "--config", str(project / "configs" / config), "--mode", mode]
    arguments += options
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_demo(project: Path, *options: str, mode: str = "pilot", config: str = "demo.yaml") -> str:
    """Run the `tournament` command on the demo and return what it prints."""
    with start_demo(project, *options, mode=mode, config=config) as process:
        try:
            output, errors = process.communicate(timeout=800)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, output + errors
    return output


def count_responses(project: Path) -> int:
    with closing(sqlite3.connect(project / "ledger" / "ledger.sqlite")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM responses").fetchone()
    return int(count)
