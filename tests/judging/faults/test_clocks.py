"""A batch nobody confirmed is found and paid once, whatever the time and the order of the list."""

from datetime import timedelta
from pathlib import Path

import pytest

from .runs import Runner
from .test_recovery import DiesOnceAccepted, lose_ledger, recover

DAY = 86_400
AHEAD = [-DAY, -400, 400, DAY]


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_batch_that_was_not_confirmed_is_found_by_a_clock_that_is_off(
    start: Runner, ahead: int, *, is_sorted: bool
) -> None:
    run = start("create_drop_after", ahead=timedelta(seconds=ahead), is_sorted=is_sorted)
    run.server.add_foreign_batch(4, age=timedelta(hours=3))
    assert run.settle().adopted == 1
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_batch_of_a_killed_process_is_found_by_a_clock_that_is_off(
    start: Runner, ahead: int
) -> None:
    run = start(ahead=timedelta(seconds=ahead), is_sorted=False)
    run.server.add_foreign_batch(4, age=timedelta(days=40))
    whole = run.service
    run.service = DiesOnceAccepted(whole, 0)
    with pytest.raises(KeyboardInterrupt):
        run.settle()
    run.service = whole
    assert run.settle().adopted == 1
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize("ahead", AHEAD)
def test_a_lost_ledger_is_filled_again_from_a_list_in_any_order(
    start: Runner, tmp_path: Path, ahead: int
) -> None:
    run = start(ahead=timedelta(seconds=ahead), is_sorted=False)
    run.server.add_foreign_batch(4, age=timedelta(days=40))
    run.settle()
    lose_ledger(run, tmp_path / "new.sqlite")
    assert recover(run).replies == 4
    assert run.is_settled()
