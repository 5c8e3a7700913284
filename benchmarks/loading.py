"""How long definitions take to load, and how long they would take with the heavy libraries.

Run: python -m benchmarks.loading

Every measurement is the processor time of a fresh process. The peer is `import dagster` alone, in
the same run: the ratio says what this project adds to it.
"""

import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

REPEATS = 7
ROOT = Path(__file__).parents[1]
VARIANTS = {
    "import dagster": "import dagster",
    "definitions": (
        "from pathlib import Path\n"
        "import dagster as dg\n"
        "from tournament_assets.definitions import load_project\n"
        f"dg.Definitions.validate_loadable(load_project(Path({str(ROOT)!r}), {{}}))"
    ),
    "definitions + torch, transformers, anthropic": (
        "from pathlib import Path\n"
        "import anthropic, torch, transformers\n"
        "import dagster as dg\n"
        "from tournament_assets.definitions import load_project\n"
        f"dg.Definitions.validate_loadable(load_project(Path({str(ROOT)!r}), {{}}))"
    ),
}


def measure(code: str) -> float:
    """Return the seconds some code takes in a fresh process, the interpreter's start left out."""
    script = f"import time\nbegan = time.process_time()\n{code}\nprint(time.process_time() - began)"
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure in random order and print medians and ratios."""
    jobs = [name for name in VARIANTS for _ in range(REPEATS)]
    random.Random(0).shuffle(jobs)
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for name in jobs:
        seconds[name].append(measure(VARIANTS[name]))
    peer = statistics.median(seconds["import dagster"])
    print(f"{'loading (median of ' + str(REPEATS) + ')':<48} {'s':>6} {'ratio':>6}")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:<48} {median:6.2f} {median / peer:6.2f}")


if __name__ == "__main__":
    main()
