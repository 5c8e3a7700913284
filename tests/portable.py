"""Runs the tests of computed numbers as other processors would.

    python -m tests.portable

Where matrices are multiplied, and where `exp` and `pow` are taken, processors differ in the last
bits. Each run has the kernels of another processor, another number of threads, or no wide
registers. What this processor or this library cannot run is named and left out.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
NUMERIC = (
    "audits",
    "battles/test_rating.py",
    "extras/archives/test_models.py",
    "extras/people",
    "extras/planning",
    "extras/stopping",
    "golden",
    "graph/test_ratings.py",
    "graph/test_samples.py",
    "oracle",
    "ratings",
    "run_comparison",
    "trust",
)
"""Folders and files whose tests are marked `numeric`: fits, and what rests on `exp` and `pow`."""
KERNELS = ("SkylakeX", "Haswell", "Zen", "Prescott")
_PROBE = """
import json
import numpy as np, scipy.linalg, threadpoolctl
table = np.random.default_rng(0).normal(size=(257, 257))
scipy.linalg.lstsq(table, table @ np.linalg.inv(table @ table.T))
libraries = threadpoolctl.threadpool_info()
print(json.dumps(sorted(
    library["architecture"] for library in libraries if library["internal_api"] == "openblas"
)))
"""
"""Multiplies and solves with both libraries, and prints what kernels they ran with."""


def kernels_of(name: str) -> tuple[str, ...] | None:
    """Return the kernels that numpy and scipy take under a name; none if the processor stops."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, "OPENBLAS_CORETYPE": name},
        capture_output=True,
        text=True,
        check=False,
    )
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else None


def _vector_features() -> list[str]:
    import numpy as np

    config = np.show_config(mode="dicts")
    assert isinstance(config, dict)
    return list(config["SIMD Extensions"].get("found", []))


def variants() -> Iterator[tuple[str, Mapping[str, str | None]]]:
    """Yield what to run: its name, and the variables that make it; without any it is left out."""
    names: dict[tuple[str, ...], str] = {}
    for name in KERNELS:
        kernels = kernels_of(name)
        if kernels is None:
            yield f"{name}: not run, this processor cannot", {}
        elif not kernels:
            yield f"{name}: not run, numpy and scipy use no OpenBLAS here", {}
        elif kernels in names:
            yield f"{name}: not run, this OpenBLAS takes the kernels of {names[kernels]} for it", {}
        else:
            names[kernels] = name
            yield name, {"OPENBLAS_CORETYPE": name, "OPENBLAS_NUM_THREADS": "1"}
    yield "two threads, no kernel named", {"OPENBLAS_CORETYPE": None, "OPENBLAS_NUM_THREADS": "2"}
    features = " ".join(_vector_features())
    yield (
        f"without {features or 'wide registers'}",
        {
            "OPENBLAS_NUM_THREADS": "1",
            "NPY_DISABLE_CPU_FEATURES": features,
            "NUMBA_CPU_NAME": "generic",
            "ARROW_USER_SIMD_LEVEL": "NONE",
            "ATEN_CPU_CAPABILITY": "default",
        },
    )


def _run(variables: Mapping[str, str | None]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    # Three at once, as the other tests: some wait for a server.
    options = ["--numprocesses", os.environ.get("TEST_PROCESSES", "3"), "--dist", "loadfile"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "-m", "numeric and not e2e"]
        + [f"tests/{place}" for place in NUMERIC],
        cwd=ROOT,
        env={name: value for name, value in environment.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> int:
    """Run every variant, print a line for each, and the whole output of those that fail."""
    failed = []
    for name, variables in variants():
        if not variables:
            click.echo(name)
            continue
        started = time.monotonic()
        done = _run(variables)
        *_, last = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
        if done.returncode:
            failed.append(name)
            click.echo(done.stdout)
        click.echo(f"{name}: {last} ({time.monotonic() - started:.0f} s)")
    if failed:
        click.echo(f"red under: {'; '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
