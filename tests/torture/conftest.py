from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.torture.bench import Bench
from tests.torture.forking import Nursery
from tests.torture.scenarios import SCENARIOS

Setup = Callable[[str], AbstractContextManager[Bench]]


@pytest.fixture(scope="package")
def nursery() -> Iterator[Nursery]:
    """Fork what the tests start from one process: it takes seconds to import all that is needed."""
    with Nursery() as started:
        yield started


@pytest.fixture
def set_up(nursery: Nursery, request: pytest.FixtureRequest) -> Setup:
    """Set up a scenario's empty ledger and its judge; nothing of them is left afterwards."""

    @contextmanager
    def set_up_scenario(name: str) -> Iterator[Bench]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="tournament-torture-")))
            url = f"sqlite:///{folder / 'ledger.sqlite'}"
            if SCENARIOS[name].ledger == "postgresql":
                server = request.getfixturevalue("postgresql")
                url = stack.enter_context(server.database())
            bench = Bench(name, url, folder, nursery)
            stack.callback(bench.judge.kill)
            yield bench

    return set_up_scenario
