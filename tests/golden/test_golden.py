"""The numbers of every case are those that were frozen."""

from pathlib import Path

import pytest

from tests.golden import numbers
from tests.golden.cases import CASES
from tests.golden.freeze import FROZEN


@pytest.mark.parametrize("case", CASES)
def test_no_number_moves(case: str, tmp_path: Path) -> None:
    moved = numbers.moved(numbers.read(FROZEN / case), CASES[case](tmp_path / "project"))
    if moved:
        listed = "\n".join(moved)
        pytest.fail(
            f"{len(moved)} numbers of case {case!r} moved; if on purpose, run "
            f"python -m tests.golden.freeze {case}\n{listed}",
            pytrace=False,
        )
