"""Times engines that do the same work side by side, and writes what came out as Markdown.

Each round runs every engine of a case once, in a new random order, because whichever runs first on
a shared machine is flattered. Time is the processor's, so that other programs on the machine count
less. A ratio is the median over rounds of the ratio within a round: the times are those of the
machine at that moment, the ratios hold elsewhere too.
"""

import datetime
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
_THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Engine:
    """One way of doing the work of a case.

    Attributes:
        name: Who does it.
        run: Does it, or a part of it.
        scale: How many times the part is the whole.
        target: The ratio to our time that we want; None for none.
        remark: What part was run, or how far the results are from ours.
    """

    name: str
    run: Callable[[], object]
    scale: float = 1.0
    target: float | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one engine took.

    Attributes:
        engine: The engine.
        seconds: Median over rounds, scaled to the whole work.
        ratio: Median over rounds of its time over ours.
    """

    engine: Engine
    seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The engines of one case, ours first."""

    title: str
    timings: tuple[Timing, ...]


def compare(title: str, engines: Sequence[Engine], *, rounds: int) -> Comparison:
    """Time all engines in every round; the first is ours. Compilation must be done before."""
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for _ in range(rounds):
        for engine in random.sample(list(engines), len(engines)):
            start = time.process_time()
            engine.run()
            seconds[engine.name].append((time.process_time() - start) * engine.scale)
    return comparison_of(title, engines, seconds)


def comparison_of(
    title: str, engines: Sequence[Engine], seconds: Mapping[str, Sequence[float]]
) -> Comparison:
    """Print and return the medians of what every engine took in every round; ours is the first."""
    ours = seconds[engines[0].name]
    comparison = Comparison(
        title,
        tuple(
            Timing(
                engine,
                statistics.median(seconds[engine.name]),
                statistics.median(
                    theirs / our for theirs, our in zip(seconds[engine.name], ours, strict=True)
                ),
            )
            for engine in engines
        ),
    )
    print("\n".join(_lines(comparison)), flush=True)
    return comparison


def write_results(
    name: str,
    comparisons: Sequence[Comparison],
    *,
    command: str,
    notes: Sequence[str],
    packages: Sequence[str],
) -> Path:
    """Write all comparisons to `results/NAME.md` with the machine's description."""
    lines = [
        f"# Benchmark: {name}",
        "",
        f"`{command}` on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, one "
        "thread, processor time, compilation excluded. Compare the ratios: the times are those of "
        "the machine. Every engine ran once a round in a random order; medians over rounds.",
        "",
        *(f"- {line}" for line in (*describe_machine(packages), *notes)),
        "",
        "| work | engine | median | x ours | target | |",
        "|---|---|--:|--:|--:|---|",
        *(
            line.removeprefix("  ")
            for comparison in comparisons
            for line in _lines(comparison, separator=" | ")
        ),
    ]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _lines(comparison: Comparison, *, separator: str = "") -> list[str]:
    rows = [
        (
            timing.engine.name,
            _duration(timing.seconds),
            f"{timing.ratio:.1f}" if timing.ratio >= 10 else f"{timing.ratio:.2f}",
            _verdict(timing),
            timing.engine.remark,
        )
        for timing in comparison.timings
    ]
    if separator:
        titles = [comparison.title, *[""] * (len(rows) - 1)]
        return [
            f"| {separator.join((title, *row))} |" for title, row in zip(titles, rows, strict=True)
        ]
    return [
        comparison.title,
        *(f"  {a:<34} {b:>10} {c:>8}  {d:<14} {e}".rstrip() for a, b, c, d, e in rows),
    ]


def _verdict(timing: Timing) -> str:
    target = timing.engine.target
    if target is None:
        return ""
    return f"{target:g}{'' if timing.ratio >= target else ' (missed)'}"


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def describe_machine(packages: Sequence[str]) -> list[str]:
    """Return the processor, the cores, and the versions of Python and packages."""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} is not installed and was left out")
    return [f"{_processor()}, {os.cpu_count()} cores, {platform.system()}", ", ".join(versions)]


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in named.items()}
    family = f"family {values.get('cpu family', '?')} model {values.get('model', '?')}"
    return f"{values.get('model name', platform.machine())} ({family})"


def single_threaded_environment() -> dict[str, str]:
    """Return this environment with every library that has threads held to one."""
    limits = dict.fromkeys(_THREAD_LIMITS, "1")
    limits["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**os.environ, **limits}


def is_single_threaded() -> bool:
    """Say whether the environment holds libraries to one thread."""
    return all(os.environ.get(name) == "1" for name in _THREAD_LIMITS)
