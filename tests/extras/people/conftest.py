from collections.abc import Iterator

import pytest

from tests.ledger.conftest import ledger_url, sqlite_url, workers
from tournament_assets.extras.people.label_records import LabelRecords

__all__ = ["ledger_url", "sqlite_url", "workers"]


@pytest.fixture
def records(ledger_url: str) -> Iterator[LabelRecords]:
    opened = LabelRecords(ledger_url)
    yield opened
    opened.close()


@pytest.fixture
def other_records(records: LabelRecords, ledger_url: str) -> Iterator[LabelRecords]:
    """Open the same database as another run does."""
    opened = LabelRecords(ledger_url)
    yield opened
    opened.close()
