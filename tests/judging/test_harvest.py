import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import JudgeError, JudgeFailure, JudgeWaitingError
from tournament_assets.judging.batch_service import UNPARSABLE, BatchStatus, ReplyRow
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.settlement import harvest, submission
from tournament_assets.judging.settlement.harvest import (
    collect_batches,
    harvest_batch,
    harvest_ended,
)
from tournament_assets.judging.settlement.submission import create_batches

from .bench import Bench
from .builders import SCOPE, failed_row, failure, failures, keys_of, reply_row, requests_for
from .fake_judge import (
    FakeJudge,
    Reading,
    adding,
    cut_after,
    end_early,
    failing,
    key_in,
    unparsable,
)


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvest, "RESULTS_AT_ONCE", 2)


def read_by(*readings: Reading, n_pairs: int = 2) -> Bench:
    """Settle some requests, reading the results of their batch in these ways first."""
    bench = Bench()
    bench.judge.readings = list(readings)
    bench.settle(requests_for(n_pairs))
    return bench


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("n_rows", range(4))
def test_rows_before_a_break_are_kept_and_the_rest_is_read_later(n_rows: int, bench: Bench) -> None:
    bench.judge.readings = [cut_after(n_rows)]
    kept: list[int] = []
    tally = bench.settle(requests_for(2), sleep=lambda _: kept.append(len(bench.ledger.replies)))
    assert kept == [n_rows]
    assert bench.ledger.answered() == set(keys_of(2))
    assert (tally.harvested, tally.failed, tally.batches) == (4, 0, 1)
    assert bench.progress.heard(f"gave {n_rows} of 4 ")


@pytest.mark.parametrize(
    "junk", [reply_row("foreign"), ReplyRow(result_type=UNPARSABLE, error_message="junk")]
)
@pytest.mark.parametrize("n_rows", [0, 4])
def test_results_that_never_end_are_read_to_ten_rows_a_request_and_their_lease_is_let_go(
    n_rows: int, junk: ReplyRow
) -> None:
    n_read = 0

    def endless(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        nonlocal n_read
        for row in chain(rows[:n_rows], repeat(junk)):
            n_read += 1
            yield row

    bench = Bench()
    bench.judge.readings = [endless] * 100
    tally = bench.settle(requests_for(2))
    assert n_read == 41 * bench.events.count("judge: results")
    assert bench.ledger.states == ["harvested" if n_rows else "created"]
    assert (tally.answered, len(tally.withheld), bench.judge.asked) == (n_rows, 4 - n_rows, [4])
    assert n_rows or bench.progress.heard("more than 40 rows for 4 requests")


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("kind", ["expired", "overloaded_error", "invalid_request_error"])
@pytest.mark.parametrize("place", [0, 4])
def test_a_reply_counts_wherever_a_failure_of_the_same_request_stands(
    kind: str, place: int
) -> None:
    def with_failure(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        more = list(rows)
        more.insert(place, failed_row(rows[2].custom_id, kind))
        return iter(more)

    bench = read_by(with_failure)
    assert bench.ledger.answered() == set(keys_of(2))
    assert {row.result_type for _, row in bench.ledger.replies.values()} == {"succeeded"}
    assert bench.events.count("judge: results") == 1


@pytest.mark.usefixtures("_small_chunks")
def test_a_break_after_the_last_row_needs_no_second_reading() -> None:
    bench = read_by(cut_after(4))
    assert bench.events.count("judge: results") == 1
    assert bench.ledger.states == ["harvested"]


@pytest.mark.parametrize("n_pairs", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5])
def test_every_row_is_read_whatever_the_chunks(
    n_pairs: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest, "RESULTS_AT_ONCE", chunk)
    bench = read_by(n_pairs=n_pairs)
    assert bench.ledger.answered() == set(keys_of(n_pairs))
    assert bench.events.count("judge: results") == 1
    assert bench.events.count("ledger: rows") == -(-2 * n_pairs // chunk)


@pytest.mark.usefixtures("_small_chunks")
def test_progress_is_told_with_every_chunk() -> None:
    assert list(dict.fromkeys(read_by().progress.steps)) == [(0, 4), (2, 4), (4, 4)]


def test_what_is_missing_and_not_counted_either_has_failed_and_is_asked_again() -> None:
    bench = Bench(counted=3)
    bench.judge.readings = [end_early(3)] * 5
    bench.settle(requests_for(2))
    assert bench.judge.asked == [4, 1]
    ((key, row),) = bench.ledger.failures
    assert (key, row.result_type) == (keys_of(2)[0], "missing")
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.ledger.states == ["harvested", "harvested"]


@pytest.mark.parametrize("n_rows", range(4))
@pytest.mark.parametrize("counted", [None, 0])
def test_results_that_are_counted_and_stay_out_of_reach_are_not_bought_again(
    n_rows: int, counted: int | None
) -> None:
    bench = Bench(counted=counted)
    bench.judge.readings = [end_early(n_rows)] * 5
    tally = bench.settle(requests_for(2))
    assert (bench.judge.asked, bench.judge.direct_requests) == ([4], [])
    assert tally.withheld == set(keys_of(2)) - bench.ledger.answered()
    assert (len(tally.withheld), tally.answered, tally.failed) == (4 - n_rows, n_rows, 0)
    assert (bench.ledger.states, bench.ledger.failures) == (["created"], [])
    (said,) = (note for note in bench.progress.notes if "--pay-again" in note)
    assert all(each in said for each in ("batch-0", " 4 ", f" {4 - n_rows} ", "--partial"))


def test_leave_to_pay_again_is_for_one_time(bench: Bench) -> None:
    bench.judge.readings = [end_early(0)] * 100
    tally = bench.settle(requests_for(2), may_pay_again=True)
    assert (bench.judge.asked, bench.judge.direct_requests) == ([4, 4], [])
    assert tally.withheld == set(keys_of(2))
    assert bench.ledger.states == ["lost", "created"]


def test_failed_rows_of_a_batch_that_is_not_all_read_are_not_asked_again_either() -> None:
    bench = Bench(answer=failing("expired"))
    bench.judge.readings = [lambda rows: iter(rows[:2])] * 5
    tally = bench.settle(requests_for(2))
    assert bench.judge.asked == [4]
    assert tally.withheld == set(keys_of(2)) - bench.ledger.answered()
    assert len(tally.withheld) == 3


def test_what_other_batches_left_over_is_asked_though_one_is_not_all_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 2)
    bench = Bench(answer=failing("expired", "expired"))
    bench.judge.readings = [reversed] + [end_early(1)] * 5
    tally = bench.settle(requests_for(2))
    assert bench.judge.asked == [2, 2, 2]
    assert len(tally.withheld) == 1
    assert tally.answered == 3


def test_results_that_are_counted_are_not_bought_again_because_one_line_is_no_json() -> None:
    bench = Bench()
    bench.judge.readings = [lambda rows: islice(unparsable(1)(rows), 3)] * 5
    tally = bench.settle(requests_for(2))
    assert bench.judge.asked == [4]
    assert len(tally.withheld) == 2
    assert (bench.ledger.states, bench.ledger.failures) == (["created"], [])


def test_a_line_that_is_no_json_besides_all_the_rows_does_not_matter() -> None:
    bench = read_by(adding(reply_row("", result_type="unparsable")))
    assert bench.judge.asked == [4]
    assert bench.events.count("judge: results") == 1
    assert not bench.progress.heard("1 rows")


def test_long_rows_are_written_down_before_many_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvest, "_CHARACTERS_AT_ONCE", 25)
    bench = Bench(answer=lambda request: reply_row(request.custom_id, raw="x" * 10))
    bench.settle(requests_for(4))
    assert bench.events.count("ledger: rows") == 3


def test_a_break_in_the_last_reading_proves_nothing_and_the_batch_is_read_on() -> None:
    bench = read_by(*[end_early(3)] * 4, cut_after(3))
    assert bench.judge.asked == [4]
    assert bench.ledger.failures == []
    assert bench.events.count("judge: results") == 6


@pytest.mark.parametrize(
    "name",
    ["nobody", "0123456789ab-", f"0123456789ab-{'A' * 43}", ""],
    ids=["no nonce", "bare", "of another batch", "empty"],
)
def test_a_foreign_row_is_not_used_and_does_not_matter(name: str) -> None:
    bench = read_by(adding(reply_row(name, text="VERDICT: B")))
    assert len(bench.ledger.replies) == 4
    assert bench.ledger.states == ["harvested"]
    assert bench.progress.heard("returned 1 rows")


def test_a_row_under_our_nonce_that_was_not_in_the_batch_is_not_used(bench: Bench) -> None:
    strangers = keys_of(5)[-1]
    bench.judge.readings = [
        lambda rows: iter(
            [reply_row(custom_id(rows[0].custom_id[:12], strangers)), *rows],
        )
    ]
    tally = bench.settle(requests_for(2))
    assert bench.ledger.answered() == set(keys_of(2))
    assert (tally.harvested, tally.answered) == (4, 4)


def test_a_row_that_is_not_a_whole_key_is_not_used(bench: Bench) -> None:
    bench.judge.readings = [lambda rows: iter([reply_row(rows[0].custom_id[:17]), *rows])]
    bench.settle(requests_for(1))
    assert bench.ledger.answered() == set(keys_of(1))


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize("second", ["VERDICT: A", "VERDICT: B"])
def test_of_two_rows_for_one_request_the_first_counts(
    second: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest, "RESULTS_AT_ONCE", chunk)
    bench = Bench()
    bench.judge.readings = [
        lambda rows: iter([rows[0], reply_row(rows[0].custom_id, text=second), *rows[1:], rows[1]])
    ]
    tally = bench.settle(requests_for(1))
    assert "VERDICT: A" in str(bench.ledger.text_of(keys_of(1)[0]))
    assert (tally.harvested, tally.paid_twice) == (2, 0)


def test_a_row_read_in_an_earlier_reading_counts_before_another_in_a_later_one() -> None:
    def contradict(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        return iter([reply_row(row.custom_id, text="VERDICT: B") for row in rows])

    bench = read_by(end_early(1), contradict, n_pairs=1)
    texts = [str(bench.ledger.text_of(key)) for key in keys_of(1)]
    assert sorted(text[-1] for text in texts) == ["A", "B"]


def test_a_reply_that_another_batch_had_brought_is_counted_as_paid_twice(bench: Bench) -> None:
    bench.settle(requests_for(1))
    session = bench.session()
    (batch,) = create_batches(session, requests_for(1), attempt=1).batches
    harvest_batch(session, batch, bench.judge.get_batch(batch.batch_id))
    assert session.tally.paid_twice == 2
    assert sorted(bench.ledger.paid_twice) == sorted(keys_of(1))


def test_the_message_about_invalid_requests_repeats_what_the_service_said() -> None:
    bench = Bench(
        answer=lambda request: reply_row(
            request.custom_id,
            result_type="errored",
            error_type="invalid_request_error",
            error_message="max_tokens: must be less than 64000",
        )
    )
    with pytest.raises(JudgeError, match=r"max_tokens.*64000;"):
        bench.settle(requests_for(1))


@pytest.mark.parametrize(
    ("kind", "states"),
    [(JudgeFailure.NOT_ACCEPTED, ["refused", "harvested"]), (JudgeFailure.FATAL, ["refused"])],
)
def test_a_batch_that_is_refused_as_a_whole_is_asked_again_only_where_that_can_help(
    kind: JudgeFailure, states: list[str]
) -> None:
    class Refusing(FakeJudge):
        def get_batch(self, batch_id: str) -> BatchStatus:
            status = super().get_batch(batch_id)
            return replace(status, refusal=failure(kind)) if batch_id == "batch-0" else status

    bench = Bench()
    bench.judge = Refusing(bench.clock, bench.events)
    with suppress(JudgeError):
        bench.settle(requests_for(1))
    assert bench.ledger.states == states
    assert len(bench.ledger.answered()) == 2 * (len(states) - 1)


def test_an_invalid_request_among_others_does_not_stop_the_run() -> None:
    bench = Bench(answer=failing(*["errored:invalid_request_error"] * 3))
    assert bench.settle(requests_for(2)).answered == 4


def test_a_failure_that_does_not_pass_keeps_what_was_read_in_earlier_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harvest, "RESULTS_AT_ONCE", 1)

    def refuse(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        yield rows[0]
        raise failure(JudgeFailure.FATAL)

    bench = Bench()
    bench.judge.readings = [refuse]
    with pytest.raises(JudgeError, match="fatal"):
        bench.settle(requests_for(1))
    assert len(bench.ledger.replies) == 1
    assert bench.ledger.states == ["created"]


class Keys(set[str]):
    """Keys that count how often all that are missing were looked up."""

    looks = 0

    def __sub__(self, others: AbstractSet[object]) -> set[str]:
        Keys.looks += 1
        return super().__sub__(others)


def test_the_missing_keys_of_a_large_batch_are_looked_up_for_every_chunk_and_not_for_every_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harvest, "RESULTS_AT_ONCE", 100)
    bench = Bench()
    monkeypatch.setattr(bench.ledger, "batch_keys", lambda _nonce: Keys(keys_of(500)))
    bench.settle(requests_for(500))
    assert len(bench.ledger.replies) == 1000
    assert Keys.looks == 11


permuted = st.permutations(range(6))


@given(
    orders=st.lists(st.tuples(permuted, st.integers(0, 6), st.booleans()), max_size=4),
    chunk=st.integers(1, 7),
)
def test_whatever_is_read_in_parts_adds_up_to_every_row_once(
    orders: list[tuple[list[int], int, bool]], chunk: int
) -> None:
    def reading(order: list[int], n_rows: int, breaks: bool) -> Reading:
        def read(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
            yield from [rows[index] for index in order][:n_rows]
            if breaks:
                raise failure(JudgeFailure.TRANSIENT)

        return read

    bench = Bench()
    bench.judge.readings = [reading(*each) for each in orders]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harvest, "RESULTS_AT_ONCE", chunk)
        tally = bench.settle(requests_for(3))
    assert tally.answered == tally.harvested == 6
    assert bench.judge.asked == [6]
    assert sorted(key for key, _ in bench.ledger.replies) == sorted(keys_of(3))
    assert all(key_in(row.custom_id) == key for (key, _), (_, row) in bench.ledger.replies.items())


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
    assert re.match(r"1 of 1 .* 100 s \(batch-0\)", str(caught.value))
    assert "sensor" in str(caught.value)
    assert bench.clock.seconds == 100.0
    assert bench.ledger.states == ["created"]
    assert bench.ledger.open_batches(SCOPE)[0].batch_id == "batch-0"
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    assert bench.judge.asked == [2]


def test_what_has_ended_by_the_deadline_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", 2)
    bench = Bench(durations=[float("inf"), 20.0])
    with pytest.raises(JudgeWaitingError, match=r"1 of 2 .* \(batch-0\)"):
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


def test_nothing_is_waited_for_without_batches(bench: Bench) -> None:
    collect_batches(bench.session(), [])
    assert bench.events == []
    assert bench.clock.naps == []


def test_looks_that_fail_until_the_deadline_leave_the_batch_to_a_later_run(bench: Bench) -> None:
    bench.judge.polls = failures(JudgeFailure.TRANSIENT, 1000)
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    assert bench.clock.seconds == 100.0
    assert bench.ledger.states == ["created"]


def test_results_that_break_off_every_time_leave_the_batch_to_a_later_run(bench: Bench) -> None:
    bench.judge.readings = [cut_after(1)] * 1000
    assert len(bench.settle(requests_for(1)).withheld) == 1
    assert bench.clock.seconds >= 100.0
    assert bench.progress.heard("transient")
    assert len(bench.ledger.replies) == 1
    assert bench.ledger.states == ["created"]
    bench.judge.readings.clear()
    assert bench.settle(requests_for(1)).answered == 2
    assert set(bench.judge.paid.values()) == {1}


def test_a_young_batch_that_the_service_does_not_know_yet_is_looked_at_again(bench: Bench) -> None:
    bench.judge.unknown_until["batch-0"] = _TEN_MINUTES - 10.0
    tally = bench.settle(requests_for(1), deadline_seconds=1000.0)
    assert (tally.answered, tally.batches) == (2, 1)


def test_a_batch_that_the_service_does_not_know_after_ten_minutes_stays_open(bench: Bench) -> None:
    bench.judge.unknown_until["batch-0"] = float("inf")
    with pytest.raises(JudgeError, match="--pay-again") as caught:
        bench.settle(requests_for(1), deadline_seconds=1000.0)
    assert caught.value.failure is JudgeFailure.UNKNOWN
    assert not isinstance(caught.value, JudgeWaitingError)
    assert _TEN_MINUTES <= bench.clock.seconds <= _TEN_MINUTES + 4.0
    assert bench.ledger.states == ["created"]
    assert bench.judge.asked == [2]


def test_an_unknown_batch_is_asked_again_if_somebody_says_so(bench: Bench) -> None:
    bench.judge.unknown_until["batch-0"] = float("inf")
    tally = bench.settle(requests_for(1), deadline_seconds=1000.0, may_pay_again=True)
    assert (tally.answered, tally.batches, tally.submitted) == (2, 2, 4)
    assert bench.ledger.states == ["lost", "harvested"]
    assert bench.progress.heard("unknown")


def test_an_unknown_batch_of_an_earlier_run_is_asked_again_if_somebody_says_so() -> None:
    bench = Bench(durations=[float("inf")])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    bench.clock.seconds = 5000.0
    bench.judge.unknown_until["batch-0"] = float("inf")
    with pytest.raises(JudgeError, match="--pay-again"):
        bench.settle(requests_for(1))
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (tally.answered, tally.resumed) == (2, 1)
    assert bench.ledger.states == ["lost", "harvested"]
