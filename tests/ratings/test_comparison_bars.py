"""Comparison bars overlap exactly where neither entrant is better."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from tournament_assets.ratings.comparison_bars import comparison_bars


def _overlaps(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def test_two_bars_split_the_interval_of_the_difference() -> None:
    ratings = {"ada": 1450.0, "bob": 1350.0}
    apart = comparison_bars(ratings, {("ada", "bob"): True}, {("ada", "bob"): 80.0}, {})
    together = comparison_bars(ratings, {("ada", "bob"): False}, {("ada", "bob"): 120.0}, {})

    assert apart == {
        "ada": pytest.approx((1410.0, 1490.0)),
        "bob": pytest.approx((1310.0, 1390.0)),
    }
    assert not _overlaps(*apart.values())
    assert _overlaps(*together.values())


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads that /proc names")
def test_no_thread_of_a_solver_is_left_to_abort_the_process_when_it_ends() -> None:
    script = """
import os
import scipy.optimize
from tournament_assets.ratings.comparison_bars import comparison_bars

before = os.listdir("/proc/self/task")
comparison_bars({"a": 9.0, "b": 5.0, "c": 4.0}, {("a", "b"): False, ("a", "c"): True,
                ("b", "c"): True}, {("a", "b"): 9.0, ("a", "c"): 9.0, ("b", "c"): 1.0}, {})
print(os.listdir("/proc/self/task") == before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True", done.stdout


def test_unequal_intervals_still_show_every_claim() -> None:
    # The second is known badly: it overlaps the first, although the third, rated higher, does not.
    ratings = {"ada": 1494.0, "bob": 1421.0, "cyd": 1410.0}
    better = {("ada", "bob"): True, ("ada", "cyd"): False, ("bob", "cyd"): False}
    reach = {("ada", "bob"): 72.0, ("ada", "cyd"): 93.0, ("bob", "cyd"): 80.0}

    bars = comparison_bars(ratings, better, reach, {})

    for pair, is_better in better.items():
        assert _overlaps(bars[pair[0]], bars[pair[1]]) is not is_better


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_who_judges_by_overlap_is_told_what_the_claims_say(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 13))
    names = [f"e{index}" for index in range(n)]
    ratings = dict(zip(names, np.sort(generator.normal(1400, 80, n))[::-1].tolist(), strict=True))
    widths = dict(zip(names, generator.uniform(20, 60, n).tolist(), strict=True))
    reach = {(a, b): float(np.hypot(widths[a], widths[b])) for a, b in combinations(names, 2)}
    better = {(a, b): ratings[a] - ratings[b] > reach[a, b] for a, b in reach}

    bars = comparison_bars(ratings, better, reach, {})

    wrong = [
        pair
        for pair, is_better in better.items()
        if _overlaps(bars[pair[0]], bars[pair[1]]) is is_better
    ]
    assert len(wrong) <= 0.05 * len(better)
    assert all(low <= ratings[name] <= high for name, (low, high) in bars.items())


def test_an_entrant_without_a_joint_interval_keeps_its_own() -> None:
    bars = comparison_bars({"ada": 1400.0}, {}, {}, {"ada": 30.0})

    assert bars["ada"] == pytest.approx((1400 - 30 / 2**0.5, 1400 + 30 / 2**0.5))
