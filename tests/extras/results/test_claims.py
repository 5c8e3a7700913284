"""Claims about scores that other tools wrote."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from numpy.typing import NDArray

from tournament_assets.cli import main

SWE_BENCH = (396, 396, 394, 388, 387, 384, 384, 382, 378, 320)
"""How many of 500 items the first ten of a public leaderboard resolved."""


def drawn_like(counts: Sequence[int], *, n_items: int, seed: int) -> NDArray[np.int64]:
    """Draw scores of 0 and 1 with these sums; what is hard for one system is hard for others."""
    generator = np.random.default_rng(seed)
    ease = generator.normal(size=n_items)
    scores = np.zeros((n_items, len(counts)), dtype=np.int64)
    for column, count in enumerate(counts):
        order = np.argsort(-(ease + generator.normal(size=n_items)))
        scores[order[:count], column] = 1
    return scores


def write_wide(path: Path, scores: NDArray[np.int64]) -> Path:
    header = ",".join(["instance_id", *(f"s{n}" for n in range(1, scores.shape[1] + 1))])
    lines = [f"i{n}," + ",".join(map(str, row)) for n, row in enumerate(scores.tolist())]
    path.write_text("\n".join([header, *lines, ""]))
    return path


def test_nine_of_ten_submissions_that_are_close_share_the_places_above_the_tenth(
    tmp_path: Path,
) -> None:
    path = write_wide(tmp_path / "verified.csv", drawn_like(SWE_BENCH, n_items=500, seed=0))
    result = CliRunner().invoke(main, ["claims", str(path), "--json"])
    assert result.exit_code == 0, result.output
    (claims,) = json.loads(result.output)
    assert [row["places"] for row in claims["systems"]] == ["1–9"] * 9 + ["10"]
