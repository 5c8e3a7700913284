from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tournament_assets.judging.batch_service import BatchStatus
from tournament_assets.judging.settlement.records import SubmittedBatch
from tournament_assets.judging.settlement.submission import adopt_batch
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .bench import Bench
from .builders import failures, requests_for
from .fake_judge import FakeJudge, Reading, cut_after, end_early
from .searches import begin


def test_a_batch_that_has_ended_is_found_by_its_rows_and_its_name_is_written_down() -> None:
    search = begin()
    batch_id, intent = search.accept(), search.intent
    found = adopt_batch(search.session, intent)
    assert found == SubmittedBatch(intent.nonce, batch_id, intent.begun_at)
    assert search.bench.ledger.batches[intent.nonce].batch_id == batch_id
    assert search.bench.ledger.states == ["created"]
    assert search.session.tally.adopted == 1
    assert search.bench.clock.naps == []


def test_a_batch_that_still_runs_is_waited_for() -> None:
    search = begin()
    batch_id = search.accept(duration=60.0)
    assert search.adopt() == batch_id
    # 1, 2, 4, 4, …: the first look after the end is at 63 seconds.
    assert search.seconds == 63.0


def test_a_batch_that_is_listed_late_is_found_within_the_grace_period() -> None:
    search = begin()
    batch_id = search.accept(lag=29.0)
    assert search.adopt() == batch_id


def test_a_batch_that_is_not_listed_within_the_grace_period_counts_as_never_accepted() -> None:
    search = begin()
    assert search.adopt() is None
    # The list may be 30 seconds behind, so that only a look at 30 seconds or later is proof.
    assert search.seconds == 31.0
    assert search.bench.ledger.states == ["intent"]


def test_the_grace_period_begins_when_the_creation_can_last_have_arrived() -> None:
    search = begin()
    search.bench.clock.seconds = 1000.0
    assert search.adopt() is None
    # The creation had arrived after 10 seconds, and the grace period was over after 40.
    assert search.seconds == 1000.0


def test_a_run_that_comes_at_once_gives_the_list_its_whole_grace_period() -> None:
    search = begin()
    search.bench.clock.seconds = 4.0
    assert search.adopt() is None
    assert search.seconds == 4.0 + 31.0


@pytest.mark.parametrize("is_above_ours", [True, False])
def test_a_foreign_batch_of_the_same_size_is_not_taken_for_ours(is_above_ours: bool) -> None:
    search = begin()
    if not is_above_ours:
        search.judge.add_foreign(2)
    batch_id = search.accept()
    if is_above_ours:
        search.judge.add_foreign(2, created_at=1.0)
    assert search.adopt() == batch_id


def test_a_foreign_batch_is_read_once_and_then_left_alone() -> None:
    search = begin()
    search.judge.add_foreign(2)
    assert search.adopt() is None
    assert search.bench.events.count("judge: results") == 1
    assert search.bench.events.count("judge: list") > 5


def test_a_foreign_batch_that_runs_holds_a_resubmission_back_until_the_deadline() -> None:
    search = begin()
    foreign = search.judge.add_foreign(2, duration=float("inf"))
    with pytest.raises(JudgeWaitingError, match=rf"one of \['{foreign}'\]; nothing"):
        search.adopt()
    assert search.seconds >= 100.0
    assert search.bench.ledger.states == ["intent"]


def test_a_foreign_batch_that_ends_lets_go() -> None:
    search = begin()
    search.judge.add_foreign(2, duration=50.0)
    assert search.adopt() is None
    assert search.seconds == 51.0


@pytest.mark.parametrize("n_requests", [1, 3])
def test_a_batch_of_another_size_is_not_looked_at(n_requests: int) -> None:
    search = begin()
    search.judge.add_foreign(n_requests, duration=float("inf"))
    assert search.adopt() is None
    assert "judge: results" not in search.bench.events


@pytest.mark.parametrize("created_at", [-301.0, 311.0])
def test_a_batch_of_another_time_is_not_looked_at(created_at: float) -> None:
    search = begin()
    search.judge.add_foreign(2, created_at=created_at, duration=float("inf"))
    search.bench.clock.seconds = 400.0
    assert search.adopt() is None


@pytest.mark.parametrize("created_at", [-299.0, 309.0])
def test_the_clocks_of_the_two_sides_may_differ_by_minutes(created_at: float) -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.batches[-1].created_at = created_at
    assert search.adopt() == batch_id


def test_a_list_is_read_only_as_far_back_as_the_batch_can_be() -> None:
    class Long(FakeJudge):
        def list_batches(self) -> Iterator[BatchStatus]:
            yield from super().list_batches()
            raise AssertionError("it was read to its end")

    search = begin()
    search.bench.judge = Long(search.bench.clock, search.bench.events)
    search.session = replace(search.session, service=search.judge)
    search.judge.add_foreign(2, created_at=-1000.0)
    batch_id = search.accept()
    assert search.adopt() == batch_id


def test_a_batch_that_is_listed_while_the_list_is_read_is_looked_for_once_more() -> None:
    class Slow(FakeJudge):
        def list_batches(self) -> Iterator[BatchStatus]:
            listed = list(super().list_batches())
            self.clock.seconds += 10.0
            yield from listed

    search = begin()
    search.bench.judge = Slow(search.bench.clock, search.bench.events)
    search.session = replace(search.session, service=search.judge)
    # The third look begins at 23 seconds and ends at 33, when the grace period is over.
    batch_id = search.accept(lag=29.0)
    assert search.adopt() == batch_id


def test_a_batch_whose_time_is_not_said_is_looked_at() -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.tells_times = False
    assert search.adopt() == batch_id


def test_a_batch_that_the_ledger_knows_is_not_looked_at() -> None:
    bench = Bench()
    bench.settle(requests_for(1))
    search = begin(bench)
    bench.events.clear()
    assert search.adopt() is None
    assert "judge: results" not in bench.events


def test_two_batches_of_one_size_that_nobody_confirmed_are_told_apart() -> None:
    first = begin()
    first.end()
    second = begin(first.bench)
    id_of_second, id_of_first = second.accept(), first.accept()
    assert (first.adopt(), second.adopt()) == (id_of_first, id_of_second)


def test_an_intent_of_another_day_is_looked_for_at_its_own_time() -> None:
    search = begin()
    batch_id = search.accept()
    search.bench.clock.seconds = timedelta(days=2).total_seconds()
    for _ in range(3):
        search.judge.add_foreign(2)
    assert search.adopt() == batch_id
    assert search.bench.events.count("judge: results") == 1


def test_transient_failures_of_the_list_are_outlived_and_prove_nothing() -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.listings = failures(JudgeFailure.TRANSIENT, 20)
    assert search.adopt() == batch_id
    assert search.seconds > 30.0
    assert search.bench.progress.heard("it failed as transient; looking again")


def test_a_list_that_fails_for_good_leaves_the_intent_to_a_later_run() -> None:
    search = begin()
    search.judge.listings = failures(JudgeFailure.TRANSIENT, 1000)
    with pytest.raises(JudgeWaitingError, match="the batches the service would list"):
        search.adopt()
    assert search.bench.ledger.states == ["intent"]


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.UNKNOWN, JudgeFailure.INVALID])
def test_a_list_that_is_refused_stops_the_run_and_the_intent_stays(kind: JudgeFailure) -> None:
    search = begin()
    search.judge.listings = failures(kind, 1)
    with pytest.raises(JudgeError, match=f"failed as {kind}"):
        search.adopt()
    assert search.bench.ledger.states == ["intent"]


@pytest.mark.parametrize(
    ("reading", "seconds"), [(cut_after(0), 1.0), (cut_after(1), 0.0), (end_early(1), 0.0)]
)
def test_results_that_break_off_prove_a_batch_by_the_rows_that_came(
    reading: Reading, seconds: float
) -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.readings = [reading]
    assert search.adopt() == batch_id
    assert search.seconds == seconds


def test_results_that_end_before_their_first_row_disprove_nothing() -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.readings = [end_early(0)]
    assert search.adopt() == batch_id


def test_a_batch_that_is_listed_before_its_results_are_known_is_looked_at_again() -> None:
    search = begin()
    batch_id = search.accept()
    search.judge.unknown_until[batch_id] = 5.0
    assert search.adopt() == batch_id
    assert search.seconds == 7.0


def test_a_candidate_whose_results_are_archived_is_lost() -> None:
    search = begin()
    search.judge.archived.add(search.accept())
    with pytest.raises(JudgeError) as caught:
        search.adopt()
    assert caught.value.failure is JudgeFailure.LOST
