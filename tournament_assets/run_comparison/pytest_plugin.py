"""The fixture `assert_not_worse`, in every pytest session where the package is installed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tournament_assets.run_comparison.gate import GateSettings, Passage, gate_sentences, hold_gate
from tournament_assets.run_comparison.run_reading import read_finished_runs


@pytest.fixture
def assert_not_worse() -> Callable[..., None]:
    """Return a function that fails the test unless a run's candidate passes its gate.

    Its arguments are the run's directory, then `candidate`, `baseline` and the other fields of
    `GateSettings` by name. An undecided gate fails, too. Looks in earlier test sessions are not
    counted; for stopping at will use `tournament gate --sequential`.
    """

    def check(run: str | Path, **asked: Any) -> None:
        __tracebackhide__ = True

        (finished,) = read_finished_runs([Path(run)])
        gate = hold_gate(finished, GateSettings(**asked))
        if gate.passage is not Passage.NOT_WORSE:
            pytest.fail("\n".join(gate_sentences(gate)), pytrace=False)

    return check
