import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

from tournament_assets.ratings.compilation import compiled

COUNT_COMPILATIONS = """
import numpy as np
from tournament_assets.battles.count_kernels import collect_hashes
slots = np.zeros(4, dtype=np.uint64)
stats = collect_hashes.dispatcher().stats
counted = collect_hashes(slots[:1], slots, 0, 4)
print(counted, sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""


def twice(value: float) -> float:
    return 2.0 * value


def test_a_kernel_gives_the_numbers_of_the_function() -> None:
    assert compiled(twice)(21.0) == 42.0


def test_a_kernel_is_compiled_even_where_its_machine_code_cannot_be_kept() -> None:
    nowhere = FunctionType(twice.__code__.replace(co_filename="<nowhere>"), {}, "twice")
    assert compiled(nowhere)(21.0) == 42.0


def test_the_next_process_loads_what_this_one_compiled(tmp_path: Path) -> None:
    def run() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", COUNT_COMPILATIONS]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    assert run() == "1 1 0\n"
    assert run() == "1 0 1\n"
