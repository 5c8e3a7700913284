from collections.abc import Iterator

import pytest

from tests.torture.forking import Nursery


@pytest.fixture(scope="package")
def nursery() -> Iterator[Nursery]:
    """Fork what the tests start from one process: it takes seconds to import all that is needed."""
    with Nursery() as started:
        yield started
