"""How much a rerun costs besides judging, in processor time.

Run: python -m benchmarks.reruns

The demo's pilot in a folder of its own: first, again with nothing changed, after an edit of one
rubric, and after the edit was undone. The last has all the work of an edit but the judging, because
the ledger holds the replies. The peer is `import dagster` alone: every run has to do that.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 5
ROOT = Path(__file__).parents[1]
RUN = (
    *(sys.executable, "-W", "ignore", "-m", "tournament_assets"),
    *("run", "--config", "configs/demo.yaml", "--mode", "pilot"),
)
IMPORT = (sys.executable, "-W", "ignore", "-c", "import dagster")
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
"""With it every run would compile this package anew, and none would compile Dagster."""


def processor_seconds(command: tuple[str, ...], folder: Path) -> float:
    """Return the processor time that a command takes, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603  # our own commands
        command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure each run once, the peer several times, and print seconds and ratios."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        for folder in ("configs", "rubrics"):
            shutil.copytree(ROOT / folder, project / folder)
        rubric = project / "rubrics" / "factuality.txt"
        text = rubric.read_text()
        seconds = {"first pilot": processor_seconds(RUN, project)}
        seconds["nothing changed"] = processor_seconds(RUN, project)
        rubric.write_text(f"{text}\nPrefer the shorter one of two that are equally true.\n")
        seconds["one rubric edited"] = processor_seconds(RUN, project)
        rubric.write_text(text)
        seconds["the edit undone"] = processor_seconds(RUN, project)
        peer = statistics.median(processor_seconds(IMPORT, project) for _ in range(REPEATS))
    print(f"{'processor time':<20} {'s':>6} {'ratio':>6}")
    for what, taken in {"import dagster": peer, **seconds}.items():
        print(f"{what:<20} {taken:6.1f} {taken / peer:6.1f}")


if __name__ == "__main__":
    main()
