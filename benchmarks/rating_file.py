"""Rates a Parquet file of battles, by the command and by a plain script: what a whole arena costs.

`python -m benchmarks.rating_file ENGINE FILE N` prints what one of them took as JSON. It is a
process of its own, so that the imports and the memory are its own, too.
"""

import contextlib
import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.comparing import Comparison, Engine, comparison_of
from benchmarks.rating_data import NamedBattles

_COMMAND, _PLAIN = "tournament battles rate", "plain numpy script"


def compare_files(
    title: str, battles: NamedBattles, *, n_bootstraps: int, rounds: int
) -> list[Comparison]:
    """Time the rating of a file: as a command, and the work alone, once everything is imported."""
    runs: dict[str, list[dict[str, float]]] = {_COMMAND: [], _PLAIN: []}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "battles.parquet")
        write_battles(battles, path)
        for _ in range(rounds):
            for name in random.sample([*runs], len(runs)):
                arguments = ["benchmarks.rating_file", name, path, str(n_bootstraps)]
                command = [sys.executable, "-m", *arguments]
                done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                runs[name].append(json.loads(done.stdout))

    def part(what: str, column: str, target: float) -> Comparison:
        engines = [
            Engine(
                name,
                run=lambda: None,
                target=None if name == _COMMAND else target,
                remark=f"{max(run['peak_mib'] for run in runs[name]):.0f} MiB at most",
            )
            for name in runs
        ]
        seconds = {name: [run[column] for run in runs[name]] for name in runs}
        return comparison_of(f"{title}: {n_bootstraps:,} resamples, {what}", engines, seconds)

    # The command may take 1.5 times as long as the script, and its work no longer.
    return [
        part("as a command", "processor", round(1 / 1.5, 2)),
        part("the work alone", "work", 1.0),
    ]


def write_battles(battles: NamedBattles, path: str) -> None:
    """Write battles as Parquet, which keeps each name once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("model_a", "model_b", "winner", "question_id")
    columns = {name: getattr(battles, name) for name in names}
    human = pa.repeat("human", len(battles.model_a))
    pq.write_table(pa.table({**columns, "source": human}), path)


def rate(engine: str, path: str, n_bootstraps: str) -> None:
    """Rate a file, and print nothing."""
    with contextlib.redirect_stdout(io.StringIO()):
        if engine == _PLAIN:
            from benchmarks import plain_rating

            plain_rating.main(path, int(n_bootstraps))
            return
        from tournament_assets.cli import main

        options = ["--method", "bradley-terry", "--n-bootstraps", n_bootstraps]
        main(["battles", "rate", path, *options], standalone_mode=False)


def _peak_mib() -> float:
    # Linux counts what the parent held when it started this process as ours in `ru_maxrss`.
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Rate a file twice, the second time without loading anything."""
    engine, path, n_bootstraps = sys.argv[1:]
    rate(engine, path, n_bootstraps)
    processor, peak = time.process_time(), _peak_mib()
    rate(engine, path, n_bootstraps)
    work = time.process_time() - processor
    print(json.dumps({"processor": processor, "work": work, "peak_mib": peak}))


if __name__ == "__main__":
    main()
