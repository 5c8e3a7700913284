from itertools import chain
from pathlib import Path
from random import Random

import pytest

from tests.torture.conftest import nursery
from tests.torture.forking import Nursery
from tests.torture.rounds import random_lives, run_killed

__all__ = ["nursery"]
pytestmark = pytest.mark.e2e


def test_killed_between_rounds_it_asks_nothing_twice_and_decides_the_same(
    tmp_path: Path, nursery: Nursery
) -> None:
    (tmp_path / "unkilled").mkdir()
    (tmp_path / "killed").mkdir()
    whole = run_killed(nursery, tmp_path / "unkilled", lives=iter([None]))
    # Three rounds of batches take longer than the first life on any machine.
    lives = chain([0.1], random_lives(Random(1), longest=2.0, kills=8))
    killed = run_killed(nursery, tmp_path / "killed", lives=lives)
    assert killed.kills > 0
    assert set(killed.asked.values()) == {1}
    # What is asked in a round follows from the decisions before it.
    assert (killed.asked, killed.billed) == (whole.asked, whole.billed)
    assert whole.rounds > 2
