import pytest

from tournament_assets.tournament.errors import JudgeError

from .builders import keys_of, requests_for
from .searches import begin


def test_an_archived_batch_is_paid_again_only_if_somebody_says_so() -> None:
    search = begin()
    search.judge.archived.add(search.accept())
    bench = search.end()
    with pytest.raises(JudgeError, match=r"out of reach: .* run with --pay-again"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["intent"]
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.submitted, tally.abandoned) == (2, 2, 0)
    assert bench.ledger.states == ["lost", "harvested"]


def test_a_run_after_a_kill_finds_the_batch_and_pays_once() -> None:
    search = begin()
    search.accept(duration=20.0)
    bench = search.end()
    tally = bench.settle(requests_for(1))
    assert (tally.adopted, tally.resumed, tally.submitted, tally.answered) == (1, 1, 0, 2)
    assert set(bench.judge.paid.values()) == {1}
    assert bench.ledger.states == ["harvested"]


def test_a_run_after_a_kill_that_came_before_the_batch_asks_again() -> None:
    bench = begin().end()
    tally = bench.settle(requests_for(1))
    assert (tally.adopted, tally.resumed, tally.submitted, tally.abandoned) == (0, 0, 2, 2)
    assert bench.ledger.states == ["abandoned", "harvested"]
    assert bench.ledger.answered() == set(keys_of(1))
    assert bench.progress.heard("never reached the service")


def test_the_protocol_ends_where_a_batch_is_listed_after_the_grace_period() -> None:
    search = begin()
    search.accept(lag=45.0)
    bench = search.end()
    bench.settle(requests_for(1))
    assert set(bench.judge.paid.values()) == {2}
