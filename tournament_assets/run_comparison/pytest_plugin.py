"""The fixture `assert_not_worse`, in every pytest session where the package is installed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tournament_assets.run_comparison.gate import GateSettings, Passage, gate_sentences, hold_gate
from tournament_assets.run_comparison.run_reading import read_run


@pytest.fixture
def assert_not_worse() -> Callable[..., None]:
    """Return a function that fails the test unless a run's candidate passes its gate.

    Its arguments are the run's directory, or a file of results with how to read it by the options
    of `tournament claims`, as in `reading={"lower_is_better": True}`; then `candidate`, `baseline`
    and the other fields of `GateSettings` by name. An undecided gate fails, too. Looks in earlier
    test sessions are not counted; for stopping at will use `tournament gate --sequential`.
    """

    def check(
        run: str | Path, *, reading: Mapping[str, Any] = MappingProxyType({}), **asked: Any
    ) -> None:
        __tracebackhide__ = True

        gate = hold_gate(read_run([Path(run)], reading), GateSettings(**asked))
        if gate.passage is not Passage.NOT_WORSE:
            pytest.fail("\n".join(gate_sentences(gate)), pytrace=False)

    return check
