from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.ledger.builders import BEGUN_AT, SCOPE, begin_batch
from tournament_assets.graph.assets.judge_drift import choose_drift_check
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import InputError

MONDAY, TUESDAY = (replace(SCOPE, purpose=f"drift {day}") for day in ("monday", "tuesday"))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield opened
    opened.close()


def choose(ledger: Ledger, given: str | None = None, *, days: float = 1) -> str:
    return choose_drift_check(
        given,
        tournament_id=SCOPE.tournament_id,
        values={"mode": SCOPE.mode, "dimension": SCOPE.dimension},
        ledger=ledger,
        now=BEGUN_AT + timedelta(days=days),
    )


def test_an_occasion_without_a_name_is_today(ledger: Ledger) -> None:
    assert choose(ledger) == "2026-03-02"


def test_the_newest_occasion_that_waits_for_a_batch_is_gone_on_with(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", scope=TUESDAY, begun_at=BEGUN_AT + timedelta(hours=1))
    begin_batch(ledger, "n2", scope=MONDAY)
    assert choose(ledger) == "tuesday"
    assert choose(ledger, " rerun 7 ") == "rerun 7"
    ledger.record_closed("n1", state="harvested")
    assert choose(ledger) == "monday"
    ledger.record_closed("n2", state="harvested")
    assert choose(ledger) == "2026-03-02"


def test_what_waits_for_longer_than_a_week_is_another_occasion(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", scope=MONDAY)
    assert choose(ledger, days=6.9) == "monday"
    assert choose(ledger, days=7.1) == "2026-03-08"


def test_what_else_waits_is_no_occasion(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2", scope=replace(MONDAY, mode="headline"))
    begin_batch(ledger, "n3", scope=replace(MONDAY, dimension="calibration"))
    begin_batch(ledger, "n4", scope=replace(MONDAY, tournament_id="other"))
    assert choose(ledger) == "2026-03-02"


def test_a_blank_name_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="occasion is ' '; expected a name"):
        choose(ledger, " ")
