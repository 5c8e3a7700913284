from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extras.people.builders import SALT, desk
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


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LabelRecords]:
    """Open the ledger of a desk whose sample is drawn."""
    opened = LabelRecords(f"sqlite:///{tmp_path}/ledger.sqlite")
    opened.keep_label_sample(desk().sample)
    opened.keep_label_secret(desk().sample.sample_id, "", SALT)
    yield opened
    opened.close()
