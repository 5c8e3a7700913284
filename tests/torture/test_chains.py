"""No chain of launches under a budget loses a verdict, buys one twice, or spends beyond it."""

from pathlib import Path

import pytest

from tests.torture.chains import run_chain
from tests.torture.forking import Nursery
from tests.torture.kills import EVERY, TIMEOUT

_AT_ONCE = 10


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("first", range(0, 500 if EVERY else 50, _AT_ONCE))
def test_every_chain_of_waits_and_kills_ends_with_all_verdicts_within_its_budget(
    tmp_path: Path, nursery: Nursery, first: int
) -> None:
    chains = []
    for seed in range(first, first + _AT_ONCE):
        try:
            chains.append(run_chain(tmp_path / str(seed), nursery, seed))
        except AssertionError as error:
            raise AssertionError(f"chain {seed}: {error}") from error
    assert any(chain.kills for chain in chains)
