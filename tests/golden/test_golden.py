"""The numbers of every case are those that were frozen."""

from pathlib import Path

import pytest

from tests.golden import frozen_tables
from tests.golden.cases import Case, every_case, frozen

CASES = every_case()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_number_moves(case: Case, tmp_path: Path) -> None:
    found = case(tmp_path / "project")
    moved = frozen_tables.moved(frozen_tables.read(frozen(case)), found)
    told = f"{len(moved)} moved; on purpose? python -m tests.golden.freeze {case.__name__}"
    assert not moved, "\n".join([told, *moved])
