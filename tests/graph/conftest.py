from collections.abc import Iterator
from pathlib import Path

import pytest

from .paid_projects import PaidProject, paid_project
from .rerun_driver import Driver, driver


@pytest.fixture
def paid(tmp_path: Path) -> Iterator[PaidProject]:
    with paid_project(tmp_path) as made:
        yield made


@pytest.fixture
def d(paid: PaidProject) -> Iterator[Driver]:
    with driver(paid) as made:
        yield made
