from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tournament_assets.judging.batch_service import BatchStatus, ReplyRow
from tournament_assets.judging.requests.requests import serialised_size
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.records import SubmittedBatch
from tournament_assets.judging.settlement.submission import adopt_batch, create_batches, cut_batches
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .bench import Bench
from .builders import failures, keys_of, reply_row, requests_for, sizes
from .fake_judge import (
    Creation,
    FakeJudge,
    Reading,
    cut_after,
    end_early,
    refused,
)
from .searches import begin


def test_batches_hold_no_more_requests_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 4)
    requests = requests_for(5)
    batches = list(cut_batches(requests))
    assert sizes(batches) == [4, 4, 2]
    assert [request for batch in batches for request in batch] == list(requests)


def test_batches_hold_no_more_bytes_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = requests_for(3)
    (size,) = {serialised_size(request) for request in requests}
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 2 * size)
    assert sizes(list(cut_batches(requests))) == [2, 2, 2]
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 2 * size - 1)
    assert sizes(list(cut_batches(requests))) == [1] * 6


def test_a_request_larger_than_a_batch_may_be_is_left_to_the_provider_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 1)
    assert sizes(list(cut_batches(requests_for(1)))) == [1, 1]


def test_no_requests_make_no_batch() -> None:
    assert list(cut_batches([])) == []


def test_the_provider_accepts_what_is_cut() -> None:
    assert submission.MAX_BATCH_REQUESTS <= 100_000
    assert submission.MAX_BATCH_BYTES < 256_000_000


def test_a_service_that_names_a_time_is_given_it() -> None:
    bench = Bench()
    limit = refused(JudgeFailure.NOT_ACCEPTED, retry_after=17.0)
    bench.judge.creations = [limit, refused(JudgeFailure.NOT_ACCEPTED, retry_after=0.5), limit]
    bench.settle(requests_for(1))
    assert bench.clock.naps == [17.0, 2.0, 17.0]


def test_a_rate_limit_is_not_waited_out_beyond_the_deadline() -> None:
    bench = Bench()
    bench.judge.creations = [refused(JudgeFailure.NOT_ACCEPTED, retry_after=3600.0)] * 3
    with pytest.raises(JudgeError, match="not_accepted"):
        bench.settle(requests_for(1))
    assert bench.clock.naps == [100.0]
    assert bench.ledger.states == ["refused", "refused"]
    assert bench.settle(requests_for(1)).answered == 2


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.INVALID, JudgeFailure.UNKNOWN])
def test_a_refusal_for_good_closes_the_intent_and_stops_the_run(kind: JudgeFailure) -> None:
    bench = Bench()
    bench.judge.creations = [refused(kind)]
    with pytest.raises(JudgeError, match=kind) as caught:
        bench.settle(requests_for(1))
    assert caught.value.failure is kind
    assert bench.ledger.states == ["refused"]
    assert bench.clock.naps == []
    assert bench.settle(requests_for(1)).answered == 2


def test_a_request_that_is_too_large_by_itself_is_final_without_a_reply() -> None:
    bench = Bench(largest=0)
    tally = bench.settle(requests_for(1))
    assert (tally.answered, tally.harvested, tally.submitted, tally.batches) == (2, 2, 0, 0)
    for key in keys_of(1):
        _, row = bench.ledger.replies[key, 1]
        assert (row.result_type, row.error_type) == ("errored", "request_too_large")
        assert "too_large" in str(row.error_message)
    assert bench.ledger.states == ["refused"] * 3
    assert bench.settle(requests_for(1)).submitted == 0


def test_a_half_that_is_refused_for_good_stops_the_run_and_the_other_half_is_kept() -> None:
    bench = Bench(largest=2)
    bench.judge.creations = [Creation(), refused(JudgeFailure.FATAL)]
    with pytest.raises(JudgeError, match="fatal"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["refused", "created", "refused"]
    tally = bench.settle(requests_for(2))
    assert (tally.resumed, tally.answered) == (1, 4)
    assert set(bench.judge.paid.values()) == {1}


def test_an_intent_says_what_is_asked_of_whom_and_when() -> None:
    bench = Bench()
    session = bench.session()
    bench.clock.seconds = 7.0
    (batch,) = create_batches(session, requests_for(2), attempt=2).batches
    intent = bench.ledger.batches[batch.nonce].intent
    assert (intent.attempt, intent.judge_model, intent.channel) == (2, "judge-1", "batch")
    assert list(intent.request_keys) == keys_of(2)
    assert intent.begun_at == bench.clock.now() == batch.begun_at


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


def test_where_names_are_listed_ours_is_found_at_once_and_no_other_batch_is_looked_at() -> None:
    class Naming(FakeJudge):
        def list_batches(self) -> Iterator[BatchStatus]:
            for status in super().list_batches():
                is_ours = status.batch_id == batch_id
                yield replace(status, nonce=search.intent.nonce if is_ours else "0" * 12)

    search = begin()
    search.bench.judge = Naming(search.bench.clock, search.bench.events)
    search.session = replace(search.session, service=search.judge)
    batch_id = search.accept(duration=60.0)
    search.judge.add_foreign(2, duration=float("inf"))
    assert (search.adopt(), search.seconds) == (batch_id, 0.0)
    assert "judge: results" not in search.bench.events


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
    assert search.bench.progress.heard("transient")


def test_a_list_that_fails_for_good_leaves_the_intent_to_a_later_run() -> None:
    search = begin()
    search.judge.listings = failures(JudgeFailure.TRANSIENT, 1000)
    with pytest.raises(JudgeWaitingError, match="would list"):
        search.adopt()
    assert search.bench.ledger.states == ["intent"]


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.UNKNOWN, JudgeFailure.INVALID])
def test_a_list_that_is_refused_stops_the_run_and_the_intent_stays(kind: JudgeFailure) -> None:
    search = begin()
    search.judge.listings = failures(kind, 1)
    with pytest.raises(JudgeError, match=kind):
        search.adopt()
    assert search.bench.ledger.states == ["intent"]


def unparsable_first(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
    return iter([reply_row("", result_type="unparsable", error_message=rows[0].custom_id)])


@pytest.mark.parametrize(
    ("reading", "seconds"),
    [(cut_after(0), 1.0), (cut_after(1), 0.0), (end_early(1), 0.0), (unparsable_first, 0.0)],
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


def test_an_archived_batch_is_paid_again_only_if_somebody_says_so() -> None:
    search = begin()
    search.judge.archived.add(search.accept())
    bench = search.end()
    with pytest.raises(JudgeError, match="--pay-again"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["intent"]
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.submitted, tally.abandoned) == (2, 2, 0)
    assert bench.ledger.states == ["lost", "harvested"]
