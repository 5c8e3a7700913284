"""Rates a Parquet file of battles with prompt-clustered intervals: what a whole arena costs.

`python -m benchmarks.rating_file FILE N` prints seconds and peak memory as JSON. It is a process
of its own so that the memory is its own, too.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rating_data import NamedBattles, code_names
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry, fit_bradley_terry
from tournament_assets.ratings.intervals import sampling_intervals
from tournament_assets.ratings.matches import Matches

_PREFERENCES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
_COLUMNS = ["model_a", "model_b", "winner", "question_id"]


def write_battles(battles: NamedBattles, path: str) -> None:
    """Write battles as Parquet, which keeps each name once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: getattr(battles, name) for name in _COLUMNS}
    pq.write_table(pa.table(columns), path)


def read_battles(path: str) -> Matches:
    """Read battles; names arrive as codes, so that no battle's text is ever made."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=_COLUMNS, read_dictionary=_COLUMNS).unify_dictionaries()
    columns = {name: table.column(name).combine_chunks() for name in _COLUMNS}
    entrants, (first, second) = _merge(columns["model_a"], columns["model_b"])
    winners, (winner,) = _merge(columns["winner"])
    prompts, (prompt_index,) = _merge(columns["question_id"])
    return Matches(
        entrants=entrants,
        prompts=prompts,
        first=first,
        second=second,
        prompt_index=prompt_index,
        preference=np.array([_PREFERENCES[name] for name in winners])[winner],
        weight=np.ones(first.size),
    )


def _merge(*columns: Any) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    names, places = code_names(*(column.dictionary.to_pylist() for column in columns))
    return names, [
        place[column.indices.to_numpy()] for place, column in zip(places, columns, strict=True)
    ]


def _peak_kib() -> int:
    # Linux counts what the parent held when it started this process as ours in `ru_maxrss`.
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Rate a file."""
    path, n_bootstraps = sys.argv[1], int(sys.argv[2])
    start = time.perf_counter()
    matches = read_battles(path)
    read = time.perf_counter()
    fit_bradley_terry(matches)
    bootstrap = bootstrap_bradley_terry(matches, resampling=Resampling(n_bootstraps, 0))
    sampling_intervals(bootstrap, confidence=0.95)
    end = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_SELF)
    took = {
        "read": read - start,
        "seconds": end - start,
        "processor": used.ru_utime + used.ru_stime,
        "peak_mib": round(_peak_kib() / 1024),
    }
    print(json.dumps(took))


if __name__ == "__main__":
    main()
