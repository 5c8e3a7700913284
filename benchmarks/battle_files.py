"""Times the reading of battle files: `python -m benchmarks.battle_files [--rows N] [--slice N]`.

Writes an arena of 1.7 million battles in a temporary folder. Every measurement is a fresh process,
so that its peak memory is its own; what the imports alone take is measured too and stated. Peers
read a slice, on which we are measured as well: compare the ratios, the times are those of the
machine.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).parents[1]
ROUNDS = 5
N_MODELS = 250


def read_ours(path: Path) -> int:
    """Read and check battles as columns."""
    from tournament_assets.battles.registry import read_battles

    return int(read_battles(path).table.num_rows)


def read_and_code(path: Path) -> int:
    """Read battles and code them as what Bradley-Terry is fitted to."""
    from tournament_assets.battles.columns import code_battles
    from tournament_assets.battles.registry import read_battles

    return int(code_battles(read_battles(path).table).n_matches)


def read_json(path: Path) -> int:
    """Read rows with the standard library into a list of dicts."""
    with path.open(encoding="utf-8") as file:
        return len([json.loads(line) for line in file])


def read_objects(path: Path) -> int:
    """Read rows with the standard library into a list of `Battle`, all checked."""
    from tournament_assets.tournament.battles import Battle

    with path.open(encoding="utf-8") as file:
        return len([Battle.from_dict(json.loads(line)) for line in file])


def read_pandas_lines(path: Path) -> int:
    """Read rows with pandas."""
    import pandas as pd

    return len(pd.read_json(path, lines=True))


def read_pandas_parquet(path: Path) -> int:
    """Read columns with pandas."""
    import pandas as pd

    return len(pd.read_parquet(path))


ENGINES: dict[str, Callable[[Path], int]] = {
    engine.__name__: engine
    for engine in (
        read_ours,
        read_and_code,
        read_json,
        read_objects,
        read_pandas_lines,
        read_pandas_parquet,
    )
}


def make_arena(n_rows: int) -> pa.Table:
    """Draw battles between random models, each vote with an id of its own."""
    from tournament_assets.battles.columns import encode_battle_table

    generator = np.random.default_rng(0)
    first = generator.integers(N_MODELS, size=n_rows)
    second = (first + generator.integers(1, N_MODELS, size=n_rows)) % N_MODELS
    models = pa.array([f"vendor/model-{index:03d}-instruct" for index in range(N_MODELS)])
    winners = pa.array(["model_a", "model_b", "tie", "tie (bothbad)"])
    outcome = generator.choice(4, size=n_rows, p=[0.35, 0.35, 0.2, 0.1])
    ids = generator.bytes(16 * n_rows).hex()
    columns = {
        "model_a": pa.DictionaryArray.from_arrays(first, models),
        "model_b": pa.DictionaryArray.from_arrays(second, models),
        "winner": pa.DictionaryArray.from_arrays(outcome, winners),
        "source": pa.repeat("human", n_rows),
        "question_id": [ids[start : start + 32] for start in range(0, len(ids), 32)],
    }
    return encode_battle_table([pa.table(columns)])


def measure(engine: str, path: Path | None) -> tuple[float, float, float]:
    """Return what `measure_here` prints, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.battle_files", "--engine", engine]
    command += [] if path is None else ["--path", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    seconds, processor, peak = json.loads(done.stdout.splitlines()[-1])
    return float(seconds), float(processor), float(peak)


def measure_here(engine: str, path: Path | None) -> None:
    """Print seconds, processor seconds of all threads, and the peak memory in MB of one reading.

    The imports are not timed.
    """
    import pandas  # noqa: F401

    import tournament_assets.battles.columns
    import tournament_assets.battles.registry  # noqa: F401

    began, worked = time.perf_counter(), time.process_time()
    if path is not None:
        ENGINES[engine](path)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    print(json.dumps([seconds, processor, _peak_megabytes()]))


def _peak_megabytes() -> float:
    # getrusage would also tell of the parent, whose memory a new process begins with.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) / 1024


def compare(title: str, cases: dict[str, tuple[str, Path]], *, rounds: int) -> None:
    """Print medians over rounds in random order, and how many times longer than the first."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name in random.sample(list(cases), len(cases)):
            found[name].append(measure(*cases[name]))
    first = statistics.median(values[0] for values in next(iter(found.values())))
    print(title)
    print(f"  {'':<34} {'s':>8} {'ratio':>7} {'CPU s':>8} {'peak MB':>8}")
    for name, values in found.items():
        seconds, processor, _ = (statistics.median(column) for column in zip(*values, strict=True))
        peak = max(value[2] for value in values)
        print(f"  {name:<34} {seconds:8.2f} {seconds / first:7.1f} {processor:8.2f} {peak:8.0f}")


def main() -> None:
    """Run every case, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_700_000)
    parser.add_argument("--slice", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--engine", help="measure this one here")
    parser.add_argument("--path", type=Path)
    options = parser.parse_args()
    if options.engine:
        measure_here(options.engine, options.path)
        return

    from tournament_assets.battles.registry import write_battles

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arena = make_arena(options.rows)
        paths: dict[str, Path] = {}
        for size, table in (("whole", arena), ("slice", arena.slice(0, options.slice))):
            for kind in ("parquet", "jsonl"):
                paths[f"{size}.{kind}"] = folder / f"{size}.{kind}"
                began = time.perf_counter()
                write_battles(paths[f"{size}.{kind}"], table, format_name="tournament")
                megabytes = paths[f"{size}.{kind}"].stat().st_size / 2**20
                seconds = time.perf_counter() - began
                print(f"written {size}.{kind}: {seconds:.2f} s, {megabytes:.0f} MB")
        print(f"imports alone: {measure('read_ours', None)[2]:.0f} MB")
        compare(
            f"{options.rows:,} battles",
            {
                "ours, Parquet": ("read_ours", paths["whole.parquet"]),
                "ours, JSON lines": ("read_ours", paths["whole.jsonl"]),
                "ours, Parquet, coded for a rating": ("read_and_code", paths["whole.parquet"]),
            },
            rounds=options.rounds,
        )
        compare(
            f"{options.slice:,} battles, Parquet",
            {
                "ours": ("read_ours", paths["slice.parquet"]),
                "pandas": ("read_pandas_parquet", paths["slice.parquet"]),
            },
            rounds=options.rounds,
        )
        compare(
            f"{options.slice:,} battles, JSON lines",
            {
                "ours": ("read_ours", paths["slice.jsonl"]),
                "json, a list of dicts": ("read_json", paths["slice.jsonl"]),
                "json, a list of Battle": ("read_objects", paths["slice.jsonl"]),
                "pandas": ("read_pandas_lines", paths["slice.jsonl"]),
            },
            rounds=options.rounds,
        )


if __name__ == "__main__":
    main()
