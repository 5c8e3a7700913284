"""The numbers of every case are those that were frozen."""

from pathlib import Path

import pytest

from tests.golden import frozen_tables
from tests.golden.cases import CASES, FROZEN


@pytest.mark.parametrize("case", CASES)
def test_no_number_moves(case: str, tmp_path: Path) -> None:
    found = CASES[case](tmp_path / "project")
    moved = frozen_tables.moved(frozen_tables.read(FROZEN / case), found)
    told = f"{len(moved)} moved; on purpose? python -m tests.golden.freeze {case}"
    assert not moved, "\n".join([told, *moved])
