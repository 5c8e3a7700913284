"""How much a run costs besides judging, in processor time.

Run: python -m benchmarks.reruns

The sample that `tournament init` writes, first and again, each time in a folder of its own. Then
the demo's pilot with nothing to do, after an edit of one rubric, and after the edit was undone; the
last has all the work of an edit but the judging, because the ledger holds the replies. The peer is
`import dagster` alone, which every run has to do. It is measured before each run, and what is
printed are medians over the pairs. At most 11, 2.5, 2.5, 10 and 6 times the peer are wanted.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

REPEATS = 10
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


def with_peer(command: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Return what a command takes, and how often that is what the peer takes just before it."""
    peer = processor_seconds(IMPORT, ROOT)
    seconds = processor_seconds(command, folder)
    return seconds, seconds / peer


def main() -> None:
    """Print medians of seconds of processor time, and of ratios to the peer."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    run_demo, run_sample = ((*RUN, f"configs/{name}.yaml") for name in ("demo", "mine"))
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        for folder in ("configs", "rubrics"):
            shutil.copytree(ROOT / folder, project / folder)
        rubric = project / "rubrics" / "factuality.txt"
        text = rubric.read_text()
        edited = f"{text}\nPrefer the shorter one of two that are equally true.\n"
        print(f"the demo's first pilot: {processor_seconds(run_demo, project):.2f} s")
        for number in range(REPEATS):
            sample = project / f"sample_{number}"
            sample.mkdir()
            processor_seconds((*COMMAND, "init", "mine"), sample)
            for what in ("sample, first", "sample, again"):
                pairs.setdefault(what, []).append(with_peer(run_sample, sample / "mine"))
            for what, words in (("nothing to do", text), ("one rubric", edited), ("undone", text)):
                rubric.write_text(words)
                pairs.setdefault(what, []).append(with_peer(run_demo, project))
    print(f"{'processor time':<20} {'s':>6} {'ratio':>6}")
    for what, measured in pairs.items():
        seconds, ratio = (median(numbers) for numbers in zip(*measured, strict=True))
        print(f"{what:<20} {seconds:6.2f} {ratio:6.1f}")


if __name__ == "__main__":
    main()
