import pytest

from tournament_assets.judging.requests.requests import serialised_size
from tournament_assets.judging.settlement import submission
from tournament_assets.judging.settlement.submission import create_batches, cut_batches
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .bench import Bench
from .builders import keys_of, requests_for, sizes
from .fake_judge import ANSWER_LOST, REQUEST_LOST, Creation, refused


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


def test_a_rate_limit_is_waited_out_and_each_try_has_a_name_of_its_own() -> None:
    bench = Bench()
    bench.judge.creations = [refused(JudgeFailure.NOT_ACCEPTED)] * 3
    tally = bench.settle(requests_for(1))
    assert bench.clock.naps == [1.0, 2.0, 4.0]
    assert bench.ledger.states == ["refused"] * 3 + ["harvested"]
    assert (tally.batches, tally.submitted, tally.answered) == (1, 2, 2)
    assert bench.progress.heard("it failed as not_accepted; trying again")
    assert "judge: list" not in bench.events


def test_a_service_that_names_a_time_is_given_it() -> None:
    bench = Bench()
    limit = refused(JudgeFailure.NOT_ACCEPTED, retry_after=17.0)
    bench.judge.creations = [limit, refused(JudgeFailure.NOT_ACCEPTED, retry_after=0.5), limit]
    bench.settle(requests_for(1))
    assert bench.clock.naps == [17.0, 2.0, 17.0]


def test_a_rate_limit_is_not_waited_out_beyond_the_deadline() -> None:
    bench = Bench()
    bench.judge.creations = [refused(JudgeFailure.NOT_ACCEPTED, retry_after=3600.0)] * 3
    with pytest.raises(JudgeError, match="failed as not_accepted"):
        bench.settle(requests_for(1))
    assert bench.clock.naps == [100.0]
    assert bench.ledger.states == ["refused", "refused"]
    assert bench.settle(requests_for(1)).answered == 2


@pytest.mark.parametrize("kind", [JudgeFailure.FATAL, JudgeFailure.INVALID, JudgeFailure.UNKNOWN])
def test_a_refusal_for_good_closes_the_intent_and_stops_the_run(kind: JudgeFailure) -> None:
    bench = Bench()
    bench.judge.creations = [refused(kind)]
    with pytest.raises(JudgeError, match=f"failed as {kind}") as caught:
        bench.settle(requests_for(1))
    assert caught.value.failure is kind
    assert bench.ledger.states == ["refused"]
    assert bench.clock.naps == []
    assert bench.settle(requests_for(1)).answered == 2


def test_a_batch_that_is_too_large_goes_in_halves() -> None:
    bench = Bench(largest=3)
    tally = bench.settle(requests_for(5))
    assert bench.judge.asked == [2, 3, 2, 3]
    assert [batch.state for batch in bench.ledger.batches.values()].count("refused") == 3
    assert (tally.batches, tally.submitted, tally.answered) == (4, 10, 10)
    assert set(bench.judge.paid.values()) == {1}
    assert bench.progress.heard("a batch of 10 requests is too large for the service")


def test_a_request_that_is_too_large_by_itself_is_final_without_a_reply() -> None:
    bench = Bench(largest=0)
    tally = bench.settle(requests_for(1))
    assert (tally.answered, tally.harvested, tally.submitted, tally.batches) == (2, 2, 0, 0)
    for key in keys_of(1):
        _, row = bench.ledger.replies[key, 1]
        assert (row.result_type, row.error_type) == ("errored", "request_too_large")
        assert row.error_message == "it failed as too_large"
    assert bench.ledger.states == ["refused"] * 3
    assert bench.settle(requests_for(1)).submitted == 0


def test_a_half_that_is_refused_for_good_stops_the_run_and_the_other_half_is_kept() -> None:
    bench = Bench(largest=2)
    bench.judge.creations = [Creation(), refused(JudgeFailure.FATAL)]
    with pytest.raises(JudgeError, match="failed as fatal"):
        bench.settle(requests_for(2))
    assert bench.ledger.states == ["refused", "created", "refused"]
    tally = bench.settle(requests_for(2))
    assert (tally.resumed, tally.answered) == (1, 4)
    assert set(bench.judge.paid.values()) == {1}


def test_a_batch_whose_confirmation_got_lost_is_found_and_not_sent_again() -> None:
    bench = Bench(durations=[20.0])
    bench.judge.creations = [ANSWER_LOST]
    tally = bench.settle(requests_for(1))
    assert bench.judge.asked == [2]
    assert (tally.batches, tally.submitted, tally.adopted, tally.answered) == (1, 2, 1, 2)
    assert bench.ledger.states == ["harvested"]
    assert tally.abandoned == tally.paid_twice == 0


def test_a_batch_that_never_arrived_is_sent_again_under_another_name() -> None:
    bench = Bench()
    bench.judge.creations = [REQUEST_LOST]
    tally = bench.settle(requests_for(1))
    assert bench.judge.asked == [2]
    assert (tally.batches, tally.submitted, tally.abandoned, tally.adopted) == (1, 2, 2, 0)
    assert bench.ledger.states == ["abandoned", "harvested"]
    first, second = bench.ledger.batches
    assert first != second
    assert bench.judge.ours[0].requests[0].custom_id.startswith(second)


def test_a_service_that_loses_three_batches_in_a_row_stops_the_run() -> None:
    bench = Bench()
    bench.judge.creations = [REQUEST_LOST] * 4
    with pytest.raises(JudgeError, match="failed as ambiguous"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["abandoned"] * 3
    assert len(bench.judge.creations) == 1


def test_a_batch_lost_twice_and_then_found_is_paid_once() -> None:
    bench = Bench()
    bench.judge.creations = [REQUEST_LOST, REQUEST_LOST, ANSWER_LOST]
    tally = bench.settle(requests_for(1))
    assert (tally.adopted, tally.answered) == (1, 2)
    assert bench.judge.asked == [2]
    assert bench.ledger.states == ["abandoned", "abandoned", "harvested"]


def test_while_it_cannot_be_told_nothing_is_sent_and_the_intent_stays() -> None:
    bench = Bench()
    bench.judge.creations = [ANSWER_LOST]
    bench.judge.durations = [10_000.0]
    with pytest.raises(JudgeWaitingError, match="not known yet"):
        bench.settle(requests_for(1))
    assert bench.ledger.states == ["intent"]
    bench.clock.seconds = 20_000.0
    assert bench.settle(requests_for(1)).answered == 2
    assert set(bench.judge.paid.values()) == {1}


def test_a_rate_limit_after_a_lost_batch_is_waited_out() -> None:
    bench = Bench()
    bench.judge.creations = [REQUEST_LOST, refused(JudgeFailure.NOT_ACCEPTED), ANSWER_LOST]
    assert bench.settle(requests_for(1)).answered == 2
    assert bench.ledger.states == ["abandoned", "refused", "harvested"]


def test_an_intent_says_what_is_asked_of_whom_and_when() -> None:
    bench = Bench()
    session = bench.session()
    bench.clock.seconds = 7.0
    (batch,) = create_batches(session, requests_for(2), attempt=2).batches
    intent = bench.ledger.batches[batch.nonce].intent
    assert (intent.attempt, intent.judge_model, intent.channel) == (2, "judge-1", "batch")
    assert list(intent.request_keys) == keys_of(2)
    assert intent.begun_at == bench.clock.now() == batch.begun_at
