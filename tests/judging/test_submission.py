import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeFailure, JudgeWaitingError
from tournament_assets.judging.batch_service import BatchStatus, ReplyRow
from tournament_assets.judging.requests.columns import Selection
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.records import SubmittedBatch
from tournament_assets.judging.settlement.submission import (
    adopt_batch,
    create_batches,
    cut_batch,
    list_since,
)

from .bench import Bench
from .builders import START, Clock, failures, keys_of, reply_row, requests_for, sizes
from .fake_judge import (
    Creation,
    FakeJudge,
    Reading,
    cut_after,
    end_early,
    refused,
)
from .searches import Search, begin


def cut(requests: JudgeRequests) -> list[Selection]:
    """Cut requests into batches, one after another."""
    rest, batches = Selection(requests), []
    while rest:
        batches.append(cut_batch(rest))
        rest = rest[len(batches[-1]) :]
    return batches


def test_batches_hold_no_more_requests_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 4)
    requests = requests_for(5)
    batches = cut(requests)
    assert sizes(batches) == [4, 4, 2]
    assert [request for batch in batches for request in batch] == list(requests)


def test_batches_hold_no_more_bytes_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = requests_for(3)
    (size,) = set(requests.columns.sizes.tolist())
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 2 * size)
    assert sizes(cut(requests)) == [2, 2, 2]
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 2 * size - 1)
    assert sizes(cut(requests)) == [1] * 6


def test_a_request_larger_than_a_batch_may_be_is_left_to_the_provider_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_BYTES", 1)
    assert sizes(cut(requests_for(1))) == [1, 1]


def test_no_requests_make_no_batch() -> None:
    assert cut(requests_for(0)) == []


def test_the_provider_accepts_what_is_cut() -> None:
    assert submission.MAX_BATCH_REQUESTS <= 100_000
    assert submission.MAX_BATCH_BYTES < 256_000_000


def test_a_service_that_names_a_time_is_given_it(bench: Bench) -> None:
    limit = refused(JudgeFailure.NOT_ACCEPTED, retry_after=17.0)
    bench.judge.creations = [limit, refused(JudgeFailure.NOT_ACCEPTED, retry_after=0.5), limit]
    bench.settle(requests_for(1))
    assert bench.clock.naps == [17.0, 2.0, 17.0]


def test_a_rate_limit_is_not_waited_out_beyond_the_deadline(bench: Bench) -> None:
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


def test_an_intent_says_what_is_asked_of_whom_and_when(bench: Bench) -> None:
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


def unparsable_first(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
    return iter([reply_row("", result_type="unparsable", error_message=rows[0].custom_id)])


def accepted(
    search: Search, *, created_at: float | None = None, knows: float = 0.0, **batch: float
) -> str:
    """Let the service have accepted the batch, with another clock or before it knows of it."""
    batch_id = search.accept(**batch)
    if created_at is not None:
        search.judge.batches[-1].created_at = created_at
    search.judge.unknown_until[batch_id] = knows
    return batch_id


def read_as(reading: Reading) -> Callable[[Search], str]:
    """Let the service have accepted the batch, and the first reading go wrong."""

    def arrange(search: Search) -> str:
        search.judge.readings = [reading]
        return search.accept()

    return arrange


def beside(*foreign: float, after: bool, **batch: float) -> Callable[[Search], str]:
    """Let the service have accepted the batch, before or after somebody else's."""

    def arrange(search: Search) -> str:
        for seconds in () if after else foreign:
            search.judge.add_foreign(2, created_at=seconds)
        batch_id = search.accept(**batch)
        for seconds in foreign if after else ():
            search.judge.add_foreign(2, created_at=seconds)
        return batch_id

    return arrange


def without_times(search: Search) -> str:
    search.judge.tells_times = False
    return search.accept()


def behind_failures(search: Search) -> str:
    search.judge.listings = failures(JudgeFailure.TRANSIENT, 20)
    return search.accept()


@pytest.mark.parametrize(
    ("arrange", "seconds"),
    [
        # 1, 2, 4, 4, …: the first look after the end is at 63 seconds.
        (lambda search: accepted(search, duration=60.0), 63.0),
        (lambda search: accepted(search, lag=29.0), 31.0),
        (lambda search: accepted(search, knows=5.0), 7.0),
        # The clocks of the two sides may differ by minutes.
        (lambda search: accepted(search, created_at=-299.0), 0.0),
        (lambda search: accepted(search, created_at=309.0), 0.0),
        (without_times, 0.0),
        (beside(0.0, after=False), 0.0),
        (beside(1.0, after=True), 0.0),
        # Results that break off prove a batch by the rows that came, and disprove none.
        (read_as(cut_after(0)), 1.0),
        (read_as(cut_after(1)), 0.0),
        (read_as(end_early(1)), 0.0),
        (read_as(end_early(0)), 1.0),
        (read_as(unparsable_first), 0.0),
        (behind_failures, 75.0),
    ],
)
def test_a_batch_that_was_accepted_is_found(
    arrange: Callable[[Search], str], seconds: float, search: Search
) -> None:
    batch_id = arrange(search)
    assert (search.adopt(), search.seconds) == (batch_id, seconds)


@pytest.mark.parametrize(
    ("foreign", "since", "until"),
    [
        # The list may be 30 seconds behind, so that only a look at 30 seconds or later is proof.
        (None, 0.0, 31.0),
        (None, 4.0, 35.0),
        # The creation had arrived after 10 seconds, and the grace period was over after 40.
        (None, 1000.0, 1000.0),
        # A batch of our size that runs may be ours; one of another size or time is not looked at.
        ({"n_requests": 2, "duration": 50.0}, 0.0, 51.0),
        ({"n_requests": 1, "duration": math.inf}, 0.0, 31.0),
        ({"n_requests": 3, "duration": math.inf}, 0.0, 31.0),
        ({"n_requests": 2, "duration": math.inf, "created_at": -301.0}, 400.0, 400.0),
        ({"n_requests": 2, "duration": math.inf, "created_at": 311.0}, 400.0, 400.0),
    ],
)
def test_a_batch_that_was_never_accepted_is_known_to_be_missing_after_the_grace_period(
    foreign: dict[str, Any] | None, since: float, until: float, search: Search
) -> None:
    if foreign:
        search.judge.add_foreign(**foreign)
    search.bench.clock.seconds = since
    assert (search.adopt(), search.seconds) == (None, until)
    assert search.bench.ledger.states == ["intent"]
    is_read = foreign is not None and foreign["duration"] < math.inf
    assert ("judge: results" in search.bench.events) is is_read


def test_a_foreign_batch_is_read_once_and_then_left_alone(search: Search) -> None:
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


@pytest.mark.parametrize("order", ["newest first", "oldest first", "shuffled", "old page first"])
def test_no_order_of_a_list_hides_a_batch_and_only_a_sorted_one_is_left_early(order: str) -> None:
    ages = [*range(10), *range(40, 440)]
    if order == "old page first":
        ages = [*ages[110:210], *ages[:110], *ages[210:]]
    elif order != "newest first":
        ages.reverse()
    if order == "shuffled":
        random.Random(0).shuffle(ages)
    n_read = 0

    class Lists(FakeJudge):
        def list_batches(self) -> Iterator[BatchStatus]:
            nonlocal n_read
            for age in ages:
                n_read += 1
                created_at = START - timedelta(days=age)
                yield BatchStatus(f"b{age}", has_ended=True, n_requests=1, created_at=created_at)

    listed = list_since(Lists(Clock()), START - timedelta(days=29))
    assert sorted(int(each.batch_id[1:]) for each in listed) == [*range(10)]
    n_to_end = 260 if order == "old page first" else len(ages)
    assert n_read == (160 if order == "newest first" else n_to_end)


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


@pytest.mark.parametrize("days", [-10_000, -40, -1, 0, 1, 40])
def test_where_names_are_listed_ours_is_found_at_once_and_no_other_batch_is_looked_at(
    days: int,
) -> None:
    class Naming(FakeJudge):
        def list_batches(self) -> Iterator[BatchStatus]:
            for status in super().list_batches():
                is_ours = status.batch_id == batch_id
                moment = START + timedelta(days=days)
                nonce = search.intent.nonce if is_ours else "0" * 12
                yield replace(status, nonce=nonce, created_at=moment)

    search = begin()
    search.bench.judge = Naming(search.bench.clock, search.bench.events)
    search.session = replace(search.session, service=search.judge)
    batch_id = search.accept(duration=60.0)
    search.judge.add_foreign(2, duration=float("inf"))
    assert (search.adopt(), search.seconds) == (batch_id, 0.0)
    assert "judge: results" not in search.bench.events


def test_a_batch_that_the_ledger_knows_is_not_looked_at(bench: Bench) -> None:
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


def test_an_intent_of_another_day_is_looked_for_at_its_own_time(search: Search) -> None:
    batch_id = search.accept()
    search.bench.clock.seconds = timedelta(days=2).total_seconds()
    for _ in range(3):
        search.judge.add_foreign(2)
    assert search.adopt() == batch_id
    assert search.bench.events.count("judge: results") == 1


@pytest.mark.parametrize(
    ("kind", "times", "error", "problem"),
    [
        (JudgeFailure.TRANSIENT, 1000, JudgeWaitingError, r"would list.*failed as transient"),
        *(
            (kind, 1, JudgeError, kind.value)
            for kind in (JudgeFailure.FATAL, JudgeFailure.UNKNOWN, JudgeFailure.INVALID)
        ),
    ],
)
def test_a_list_that_fails_for_good_stops_the_run_and_the_intent_stays(
    kind: JudgeFailure, times: int, error: type[Exception], problem: str, search: Search
) -> None:
    search.judge.listings = failures(kind, times)
    with pytest.raises(error, match=problem):
        search.adopt()
    assert search.bench.ledger.states == ["intent"]


def test_a_candidate_whose_results_are_archived_is_lost(search: Search) -> None:
    search.judge.archived.add(search.accept())
    with pytest.raises(JudgeError) as caught:
        search.adopt()
    assert caught.value.failure is JudgeFailure.LOST


def test_an_archived_batch_is_paid_again_only_if_somebody_says_so(search: Search) -> None:
    search.judge.archived.add(search.accept())
    bench = search.end()
    with pytest.raises(JudgeError, match="--pay-again"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["intent"]
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.submitted, tally.abandoned) == (2, 2, 0)
    assert bench.ledger.states == ["lost", "harvested"]
