import pytest

from .bench import Bench
from .searches import Search, begin


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def search() -> Search:
    return begin()
