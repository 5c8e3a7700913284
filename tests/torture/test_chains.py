"""No chain of launches under a budget loses a verdict, buys one twice, or spends beyond it."""

from pathlib import Path

import pytest

from tests.torture.chains import run_chain
from tests.torture.forking import Nursery
from tests.torture.kills import EVERY, TIMEOUT

N_CHAINS = 500 if EVERY else 50


@pytest.mark.timeout(TIMEOUT)
def test_every_chain_of_waits_and_kills_ends_with_all_verdicts_within_its_budget(
    tmp_path: Path, nursery: Nursery
) -> None:
    chains = []
    for seed in range(N_CHAINS):
        try:
            chains.append(run_chain(tmp_path / str(seed), nursery, seed))
        except AssertionError as error:
            raise AssertionError(f"chain {seed}: {error}") from error
    assert sum(chain.kills for chain in chains) >= N_CHAINS / 2
