"""Fuzz what reads replies: `python -m scripts.fuzz [--inputs N] [--seed S]`.

Every input goes to one of three readers: verdict lines, JSON verdicts, result rows. What they say
must be what a second, different reader says (`tests/fuzz/oracle.py`), and nothing may be raised but
what they promise. Exits with 1 if anything was found.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.fuzz.fuzzing import FuzzReport, fuzz

_PART = 10_000


def main() -> int:
    """Draw the inputs part by part, and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many to draw")
    parser.add_argument("--seed", default="0", help="the same seed draws the same inputs")
    parser.add_argument("--jobs", type=int, default=1, help="processes; the inputs stay the same")
    arguments = parser.parse_args()
    if arguments.inputs < 1 or arguments.jobs < 1:
        parser.error("--inputs and --jobs are at least 1")
    began = time.perf_counter()
    report = FuzzReport()
    with _progress() as progress:
        task = progress.add_task("fuzzing", total=arguments.inputs, note="")
        for part in _fuzz_parts(arguments.inputs, seed=arguments.seed, jobs=arguments.jobs):
            report.add(part)
            speed = report.n_inputs / (time.perf_counter() - began)
            note = f"{speed:,.0f} inputs/s, {report.n_wrong} wrong"
            progress.update(task, completed=report.n_inputs, note=note)
    _print(report, seconds=time.perf_counter() - began)
    return 1 if report.n_wrong else 0


def _fuzz_parts(n_inputs: int, *, seed: str, jobs: int) -> Iterator[FuzzReport]:
    sizes = [min(_PART, n_inputs - start) for start in range(0, n_inputs, _PART)]
    seeds = [f"{seed}:{number}" for number in range(len(sizes))]
    if jobs == 1:
        yield from map(_fuzz_part, sizes, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_fuzz_part, sizes, seeds)


def _fuzz_part(size: int, seed: str) -> FuzzReport:
    return fuzz(size, seed=seed)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(file=sys.stderr),
        disable=not sys.stderr.isatty(),
    )


def _print(report: FuzzReport, *, seconds: float) -> None:
    for outcome, count in sorted(report.outcomes.items()):
        print(f"{count:>9,}  {outcome}")
    for finding in report.findings:
        print(f"WRONG: expected {finding.expected}, found {finding.found}: {finding.case!a:.2000}")
    speed = report.n_inputs / seconds
    print(f"{report.n_inputs:,} inputs, {speed:,.0f} inputs/s, {report.n_wrong:,} wrong")


if __name__ == "__main__":
    sys.exit(main())
