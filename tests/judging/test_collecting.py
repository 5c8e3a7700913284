import pytest

from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.harvest import collect_batches, harvest_ended
from tournament_assets.judging.settlement.submission import create_batches
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .bench import Bench
from .builders import SCOPE, failures, keys_of, requests_for
from .fake_judge import cut_after

_TEN_MINUTES = 600.0


def test_each_batch_is_harvested_as_soon_as_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 2)
    bench = Bench(durations=[30.0, 0.0, 10.0])
    bench.settle(requests_for(3))
    harvested = [event for event in bench.events if event == "ledger: harvested"]
    assert len(harvested) == 3
    keys = keys_of(3)
    assert [done for done, _ in bench.progress.steps] == [0, 2, 4, 6]
    assert list(bench.ledger.replies) == [
        (key, 1) for key in (keys[3], keys[2], keys[5], keys[4], keys[1], keys[0])
    ]


def test_a_batch_that_never_ends_is_given_up_and_stays_open() -> None:
    bench = Bench(durations=[float("inf")])
    with pytest.raises(JudgeWaitingError) as caught:
        bench.settle(requests_for(1))
    assert str(caught.value) == (
        "1 of 1 batches on factuality have not ended after 100 s (batch-0); they are paid and "
        "kept: run again later to collect the replies, or let the tournament's sensor do it"
    )
    assert bench.clock.seconds == 100.0
    assert bench.ledger.states == ["created"]
    assert bench.ledger.open_batches(SCOPE)[0].batch_id == "batch-0"
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    assert bench.judge.asked == [2]


def test_what_has_ended_by_the_deadline_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 2)
    bench = Bench(durations=[float("inf"), 20.0])
    with pytest.raises(JudgeWaitingError, match=r"1 of 2 batches .* \(batch-0\)"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["created", "harvested"]
    assert bench.ledger.answered() == set(keys_of(2)[2:])


def test_waits_double_up_to_the_longest_and_never_pass_the_deadline() -> None:
    bench = Bench(durations=[float("inf")])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1), deadline_seconds=12.0)
    assert bench.clock.naps == [1.0, 2.0, 4.0, 4.0, 1.0]


def test_a_batch_is_looked_at_once_more_at_the_deadline_itself() -> None:
    bench = Bench(durations=[12.0])
    assert bench.settle(requests_for(1), deadline_seconds=12.0).answered == 2


def test_without_patience_every_batch_is_looked_at_once() -> None:
    bench = Bench(durations=[0.0, 5.0])
    session = bench.session()
    batches = [
        *create_batches(session, requests_for(1), attempt=1).batches,
        *create_batches(session, requests_for(2)[2:], attempt=1).batches,
    ]
    left = harvest_ended(session, batches, deadline_seconds=0.0)
    assert left == batches[1:]
    assert bench.clock.naps == []


def test_nothing_is_waited_for_without_batches() -> None:
    bench = Bench()
    collect_batches(bench.session(), [])
    assert bench.events == []
    assert bench.clock.naps == []


def test_transient_failures_of_a_look_are_outlived() -> None:
    bench = Bench()
    bench.judge.polls = failures(JudgeFailure.TRANSIENT, 5)
    tally = bench.settle(requests_for(1))
    assert (tally.answered, tally.batches) == (2, 1)
    assert bench.progress.heard("it failed as transient; looking again")


def test_looks_that_fail_until_the_deadline_leave_the_batch_to_a_later_run() -> None:
    bench = Bench()
    bench.judge.polls = failures(JudgeFailure.TRANSIENT, 1000)
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    assert bench.clock.seconds == 100.0
    assert bench.ledger.states == ["created"]


def test_results_that_break_off_every_time_leave_the_batch_to_a_later_run() -> None:
    bench = Bench()
    bench.judge.readings = [cut_after(1)] * 1000
    assert len(bench.settle(requests_for(1)).withheld) == 1
    assert bench.clock.seconds >= 100.0
    assert bench.progress.heard("none could be read for 1 of its requests (it failed as transient)")
    assert len(bench.ledger.replies) == 1
    assert bench.ledger.states == ["created"]
    bench.judge.readings.clear()
    assert bench.settle(requests_for(1)).answered == 2
    assert set(bench.judge.paid.values()) == {1}


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.INVALID])
def test_a_look_that_is_refused_stops_the_run_and_the_batch_stays_open(kind: JudgeFailure) -> None:
    bench = Bench()
    bench.judge.polls = failures(kind, 1)
    with pytest.raises(JudgeError, match=f"failed as {kind}"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["created"]
    assert bench.settle(requests_for(1)).resumed == 1


def test_a_young_batch_that_the_service_does_not_know_yet_is_looked_at_again() -> None:
    bench = Bench()
    bench.judge.unknown_until["batch-0"] = _TEN_MINUTES - 10.0
    tally = bench.settle(requests_for(1), deadline_seconds=1000.0)
    assert (tally.answered, tally.batches) == (2, 1)


def test_a_batch_that_the_service_does_not_know_after_ten_minutes_stays_open() -> None:
    bench = Bench()
    bench.judge.unknown_until["batch-0"] = float("inf")
    with pytest.raises(JudgeError, match=r"out of reach: .* run with --pay-again") as caught:
        bench.settle(requests_for(1), deadline_seconds=1000.0)
    assert caught.value.failure is JudgeFailure.UNKNOWN
    assert not isinstance(caught.value, JudgeWaitingError)
    assert _TEN_MINUTES <= bench.clock.seconds <= _TEN_MINUTES + 4.0
    assert bench.ledger.states == ["created"]
    assert bench.judge.asked == [2]


def test_an_unknown_batch_is_asked_again_if_somebody_says_so() -> None:
    bench = Bench()
    bench.judge.unknown_until["batch-0"] = float("inf")
    tally = bench.settle(requests_for(1), deadline_seconds=1000.0, may_pay_again=True)
    assert (tally.answered, tally.batches, tally.submitted) == (2, 2, 4)
    assert bench.ledger.states == ["lost", "harvested"]
    assert bench.progress.heard("failed as unknown; its requests are asked again")


def test_archived_results_stop_the_run_and_the_batch_stays_open() -> None:
    bench = Bench()
    bench.judge.archived.add("batch-0")
    with pytest.raises(JudgeError, match=r"out of reach: .* run with --pay-again") as caught:
        bench.settle(requests_for(1))
    assert caught.value.failure is JudgeFailure.LOST
    assert bench.ledger.states == ["created"]


def test_archived_results_are_asked_again_if_somebody_says_so() -> None:
    bench = Bench()
    bench.judge.archived.add("batch-0")
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.batches) == (2, 2)
    assert bench.ledger.states == ["lost", "harvested"]


def test_an_unknown_batch_of_an_earlier_run_is_asked_again_if_somebody_says_so() -> None:
    bench = Bench(durations=[float("inf")])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    bench.clock.seconds = 5000.0
    bench.judge.unknown_until["batch-0"] = float("inf")
    with pytest.raises(JudgeError, match="out of reach"):
        bench.settle(requests_for(1))
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.resumed) == (2, 1)
    assert bench.ledger.states == ["lost", "harvested"]
