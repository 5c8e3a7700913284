import time
from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.settlement import harvest as harvesting
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.harvest import harvest_batch
from tournament_assets.judging.settlement.records import BatchIntent, SubmittedBatch
from tournament_assets.judging.settlement.submission import create_batches
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

from .bench import Bench
from .builders import START, failure, keys_of, reply_row, requests_for
from .fake_judge import Reading, adding, cut_after, end_early, failing, key_in, unparsable


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvesting, "_CHUNK", 2)


def read_by(*readings: Reading, n_pairs: int = 2) -> Bench:
    """Settle some requests, reading the results of their batch in these ways first."""
    bench = Bench()
    bench.judge.readings = list(readings)
    bench.settle(requests_for(n_pairs))
    return bench


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("n_rows", range(4))
def test_rows_before_a_break_are_kept_and_the_rest_is_read_later(n_rows: int) -> None:
    bench = Bench()
    bench.judge.readings = [cut_after(n_rows)]
    kept: list[int] = []
    tally = bench.settle(requests_for(2), sleep=lambda _: kept.append(len(bench.ledger.replies)))
    assert kept == [n_rows]
    assert bench.ledger.answered() == set(keys_of(2))
    assert (tally.harvested, tally.failed, tally.batches) == (4, 0, 1)
    assert bench.progress.heard(f"gave {n_rows} of 4 results (it failed as transient)")


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("n_rows", range(4))
def test_a_stream_that_is_silently_short_is_read_again(n_rows: int) -> None:
    bench = read_by(end_early(n_rows))
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.progress.heard(f"gave {n_rows} of 4 results (the results ended early)")
    assert bench.judge.asked == [4]


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
    monkeypatch.setattr(harvesting, "_CHUNK", chunk)
    bench = read_by(n_pairs=n_pairs)
    assert bench.ledger.answered() == set(keys_of(n_pairs))
    assert bench.events.count("judge: results") == 1
    assert bench.events.count("ledger: rows") == -(-2 * n_pairs // chunk)


@pytest.mark.usefixtures("_small_chunks")
def test_progress_is_told_with_every_chunk() -> None:
    assert list(dict.fromkeys(read_by().progress.steps)) == [(0, 4), (2, 4), (4, 4)]


def test_several_short_readings_add_up() -> None:
    bench = read_by(
        lambda rows: iter(rows[:1]), lambda rows: iter(rows[1:2]), lambda rows: iter(rows[2:])
    )
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.events.count("judge: results") == 3


def test_what_is_missing_and_not_counted_either_has_failed_and_is_asked_again() -> None:
    bench = Bench(counted=3)
    bench.judge.readings = [end_early(3)] * 5
    bench.settle(requests_for(2))
    assert bench.judge.asked == [4, 1]
    ((key, row),) = bench.ledger.failures
    assert (key, row.result_type) == (keys_of(2)[0], "missing")
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.ledger.states == ["harvested", "harvested"]
    assert bench.progress.heard("has ended without a result for 1 of its requests")


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
    assert said == (
        "batch batch-0 holds 4 results as the service counts them, and none could be read for "
        f"{4 - n_rows} of its requests (the results ended early); these are paid, and nothing of "
        "the batch is asked again without --pay-again: run again later to read the rest, or rate "
        "what there is with --partial"
    )


def test_results_that_were_out_of_reach_are_read_by_a_later_run() -> None:
    bench = read_by(*[end_early(1)] * 5)
    tally = bench.settle(requests_for(2))
    assert (tally.submitted, tally.resumed, tally.answered) == (0, 1, 4)
    assert bench.ledger.states == ["harvested"]


def test_with_leave_to_pay_again_unread_results_are_read_once_more_and_then_written_off() -> None:
    bench = read_by(*[end_early(1)] * 10)
    tally = bench.settle(requests_for(2), may_pay_again=True)
    assert bench.judge.asked == [4, 3]
    assert (tally.submitted, tally.answered, tally.withheld) == (3, 4, set())
    assert bench.ledger.states == ["lost", "harvested"]


def test_leave_to_pay_again_is_for_one_time() -> None:
    bench = Bench()
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


def test_the_request_behind_a_line_that_is_never_json_is_asked_again_once() -> None:
    bench = read_by(*[unparsable(1)] * 5)
    assert bench.judge.asked == [4, 1]
    ((key, row),) = bench.ledger.failures
    assert (key, row.result_type, row.error_message) == (
        keys_of(2)[0],
        "unparsable",
        "{'custom_id",
    )
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.ledger.states == ["harvested", "harvested"]
    assert bench.progress.heard("1 lines of the results of batch batch-0 are not JSON")
    assert bench.progress.heard("asked again once, and may be paid for twice")


def test_a_request_that_comes_back_as_no_json_twice_is_withheld_until_somebody_pays_again() -> None:
    bench = Bench()
    bench.judge.readings = [unparsable(1)] * 10
    tally = bench.settle(requests_for(2))
    assert (bench.judge.asked, bench.judge.direct_requests) == ([4, 1], [])
    assert (tally.answered, tally.unparsable, tally.withheld) == (3, 2, {keys_of(2)[0]})
    assert bench.progress.heard("1 requests came back 2 times in a line that is not JSON")
    again = bench.settle(requests_for(2))
    assert (again.submitted, again.withheld) == (0, {keys_of(2)[0]})
    paid = bench.settle(requests_for(2), may_pay_again=True)
    assert (paid.submitted, paid.answered, paid.withheld) == (1, 4, set())


def test_with_leave_to_pay_again_a_line_that_is_never_json_is_paid_for_once_more_only() -> None:
    bench = Bench()
    bench.judge.readings = [unparsable(1)] * 100
    bench.settle(requests_for(1))
    assert bench.judge.asked == [2, 1]
    tally = bench.settle(requests_for(1), may_pay_again=True)
    assert (bench.judge.asked, bench.judge.direct_requests) == ([2, 1, 1], [])
    assert len(tally.withheld) == 1


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
    assert not bench.progress.heard("requests that it was not given")


def test_long_rows_are_written_down_before_many_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harvesting, "_CHUNK_CHARACTERS", 25)
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
    assert bench.progress.heard("returned 1 rows of requests that it was not given")


def test_a_row_under_our_nonce_that_was_not_in_the_batch_is_not_used() -> None:
    bench = Bench()
    strangers = keys_of(5)[-1]
    bench.judge.readings = [
        lambda rows: iter(
            [reply_row(custom_id(rows[0].custom_id[:12], strangers)), *rows],
        )
    ]
    tally = bench.settle(requests_for(2))
    assert bench.ledger.answered() == set(keys_of(2))
    assert (tally.harvested, tally.answered) == (4, 4)


def test_a_row_that_is_not_a_whole_key_is_not_used() -> None:
    bench = Bench()
    bench.judge.readings = [lambda rows: iter([reply_row(rows[0].custom_id[:17]), *rows])]
    bench.settle(requests_for(1))
    assert bench.ledger.answered() == set(keys_of(1))


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize("second", ["VERDICT: A", "VERDICT: B"])
def test_of_two_rows_for_one_request_the_first_counts(
    second: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvesting, "_CHUNK", chunk)
    bench = Bench()
    bench.judge.readings = [
        lambda rows: iter([rows[0], reply_row(rows[0].custom_id, text=second), *rows[1:], rows[1]])
    ]
    tally = bench.settle(requests_for(1))
    assert bench.ledger.text_of(keys_of(1)[0]) == "A is truer.\nVERDICT: A"
    assert (tally.harvested, tally.paid_twice) == (2, 0)


def test_a_row_read_in_an_earlier_reading_counts_before_another_in_a_later_one() -> None:
    def contradict(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        return iter([reply_row(row.custom_id, text="VERDICT: B") for row in rows])

    bench = read_by(end_early(1), contradict, n_pairs=1)
    texts = {bench.ledger.text_of(key) for key in keys_of(1)}
    assert texts == {"A is truer.\nVERDICT: A", "VERDICT: B"}


def test_a_reply_that_another_batch_had_brought_is_counted_as_paid_twice() -> None:
    bench = Bench()
    bench.settle(requests_for(1))
    session = bench.session()
    (batch,) = create_batches(session, requests_for(1), attempt=1).batches
    harvest_batch(session, batch, bench.judge.get_batch(batch.batch_id))
    assert session.tally.paid_twice == 2
    assert sorted(bench.ledger.paid_twice) == sorted(keys_of(1))


@pytest.mark.parametrize("error", ["invalid_request_error", "request_too_large"])
def test_a_batch_of_invalid_requests_is_recorded_and_then_stops_the_run(error: str) -> None:
    bench = Bench(answer=failing(*[f"errored:{error}"] * 4))
    with pytest.raises(JudgeError, match="refused every request of batch batch-0 as invalid") as e:
        bench.settle(requests_for(2))
    assert e.value.failure is JudgeFailure.INVALID
    assert bench.ledger.answered() == set(keys_of(2))
    assert bench.ledger.states == ["harvested"]
    assert bench.settle(requests_for(2)).submitted == 0


def test_the_message_about_invalid_requests_repeats_what_the_service_said() -> None:
    bench = Bench(
        answer=lambda request: reply_row(
            request.custom_id,
            result_type="errored",
            error_type="invalid_request_error",
            error_message="max_tokens: must be less than 64000",
        )
    )
    with pytest.raises(JudgeError, match="as invalid: max_tokens: must be less than 64000; "):
        bench.settle(requests_for(1))


def test_an_invalid_request_among_others_does_not_stop_the_run() -> None:
    bench = Bench(answer=failing(*["errored:invalid_request_error"] * 3))
    assert bench.settle(requests_for(2)).answered == 4


@pytest.mark.parametrize(
    "error", ["authentication_error", "billing_error", "not_found_error", "permission_error"]
)
def test_a_row_that_nobody_can_answer_stops_the_run_after_all_rows_were_kept(error: str) -> None:
    bench = Bench(answer=failing(f"errored:{error}"))
    with pytest.raises(JudgeError, match=f"1 requests of batch batch-0 failed with {error}") as e:
        bench.settle(requests_for(2))
    assert e.value.failure is JudgeFailure.FATAL
    assert len(bench.ledger.replies) == 3
    assert [row.error_type for _, row in bench.ledger.failures] == [error]
    assert bench.ledger.states == ["harvested"]
    tally = bench.settle(requests_for(2))
    assert (tally.submitted, tally.answered) == (1, 4)


def test_a_failure_that_does_not_pass_keeps_what_was_read_in_earlier_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harvesting, "_CHUNK", 1)

    def refuse(rows: Sequence[ReplyRow]) -> Iterator[ReplyRow]:
        yield rows[0]
        raise failure(JudgeFailure.FATAL)

    bench = Bench()
    bench.judge.readings = [refuse]
    with pytest.raises(JudgeError, match="failed as fatal"):
        bench.settle(requests_for(1))
    assert len(bench.ledger.replies) == 1
    assert bench.ledger.states == ["created"]


def test_reading_a_large_batch_takes_time_in_proportion_to_its_size() -> None:
    bench = Bench()
    session = bench.session()
    keys = [f"{number:064x}" for number in range(30_000)]
    intent = BatchIntent("0" * 12, "judge-1", 1, "batch", START, keys)
    bench.ledger.record_intent(session.lease, intent)
    batch_id = bench.judge.add_batch([], [reply_row(custom_id("0" * 12, key)) for key in keys])
    begun = time.process_time()
    batch = SubmittedBatch("0" * 12, batch_id, START)
    harvest_batch(session, batch, bench.judge.get_batch(batch_id))
    assert len(bench.ledger.replies) == 30_000
    # A second or two; it was half a minute when the missing keys were looked up for every row.
    assert time.process_time() - begun < 10.0


permuted = st.permutations(range(6))


@settings(deadline=None, max_examples=60)
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
        patch.setattr(harvesting, "_CHUNK", chunk)
        tally = bench.settle(requests_for(3))
    assert tally.answered == tally.harvested == 6
    assert bench.judge.asked == [6]
    assert sorted(key for key, _ in bench.ledger.replies) == sorted(keys_of(3))
    assert all(key_in(row.custom_id) == key for (key, _), (_, row) in bench.ledger.replies.items())
