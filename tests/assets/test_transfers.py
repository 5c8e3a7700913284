"""Judgments that come from files."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.adapters.test_judgment_files import RECORD
from tournament_assets.adapters.judgment_files import write_judgments
from tournament_assets.adapters.ledger import Ledger
from tournament_assets.assets.transfers import import_judgments


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        yield ledger


def test_thousands_of_rows_are_imported_in_a_few_transactions(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    words = {True: "VERDICT: A", False: "Gateway is restarting"}
    write_judgments(
        path,
        (
            replace(RECORD, request_key=key_of(number), reply=words[number % 10 > 0])
            for number in range(5000)
        ),
    )
    commits: list[object] = []
    sa.event.listen(ledger._engine, "commit", commits.append)
    (report,) = import_judgments([path], ledger=ledger)
    assert (report.records, report.added, report.failures) == (5000, 4500, 500)
    assert len(commits) <= 12
    assert set(ledger.failed_keys([key_of(10), key_of(11)])) == {key_of(10)}
    (again,) = import_judgments([path], ledger=ledger)
    assert again.added == 0
