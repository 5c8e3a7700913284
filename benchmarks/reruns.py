"""How much a run costs besides judging, in processor time.

Run: python -m benchmarks.reruns

The sample that `tournament init` writes, first and again, each the quietest of three folders: 8 and
4 times the peer are wanted. Then the demo's pilot in a folder of its own: first, again with nothing
changed, after an edit of one rubric, and after the edit was undone. The last has all the work of an
edit but the judging, because the ledger holds the replies. The peer is `import dagster` alone:
every run has to do that.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 3
ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-W", "ignore", "-m", "tournament_assets")
RUN = (*COMMAND, "run", "--mode", "pilot", "--config")
IMPORT = (sys.executable, "-W", "ignore", "-c", "import dagster")
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
"""With it every run would compile this package anew, and none would compile Dagster."""


def processor_seconds(command: tuple[str, ...], folder: Path) -> float:
    """Return the processor time that a command takes, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603  # our own commands
        command, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sample_seconds() -> dict[str, float]:
    """Return what the small sample takes, first and again."""
    quietest: dict[str, float] = {}
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as name:
            processor_seconds((*COMMAND, "init", "mine"), Path(name))
            for what in ("sample, first", "sample, again"):
                taken = processor_seconds((*RUN, "configs/mine.yaml"), Path(name) / "mine")
                quietest[what] = min(taken, quietest.get(what, taken))
    return quietest


def demo_seconds() -> dict[str, float]:
    """Return what the demo's pilot takes, first and after edits."""
    run = (*RUN, "configs/demo.yaml")
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        for folder in ("configs", "rubrics"):
            shutil.copytree(ROOT / folder, project / folder)
        rubric = project / "rubrics" / "factuality.txt"
        text = rubric.read_text()
        seconds = {"first pilot": processor_seconds(run, project)}
        seconds["nothing changed"] = processor_seconds(run, project)
        rubric.write_text(f"{text}\nPrefer the shorter one of two that are equally true.\n")
        seconds["one rubric edited"] = processor_seconds(run, project)
        rubric.write_text(text)
        seconds["the edit undone"] = processor_seconds(run, project)
    return seconds


def main() -> None:
    """Print seconds of processor time, and their ratios to the quietest peer."""
    sample = sample_seconds()
    peer = min(processor_seconds(IMPORT, ROOT) for _ in range(REPEATS))
    print(f"{'processor time':<20} {'s':>6} {'ratio':>6}")
    for what, taken in {"import dagster": peer, **sample, **demo_seconds()}.items():
        print(f"{what:<20} {taken:6.2f} {taken / peer:6.1f}")


if __name__ == "__main__":
    main()
