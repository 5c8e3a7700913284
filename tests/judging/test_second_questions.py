from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tournament_assets.foundation.errors import BudgetError, JudgeWaitingError
from tournament_assets.judging.batch_service import Channel, ReplyRow, SubmittedRequest
from tournament_assets.judging.requests.columns import ModelRequest

from .bench import Bench
from .builders import Approving, keys_of, reply_row, requests_for
from .fake_judge import Answer, key_in

UNREADABLE = {"text": "I cannot decide."}
CUT_OFF = {"text": "A is tru", "stop_reason": "max_tokens"}


def saying(by_key: dict[str, Sequence[dict[str, Any]]]) -> Answer:
    """Answer some requests in these ways, one after the other, and all others with a verdict."""
    times: Counter[str] = Counter()

    def answer(request: SubmittedRequest) -> ReplyRow:
        key = key_in(request.custom_id)
        replies = by_key.get(key, ())
        number, times[key] = times[key], times[key] + 1
        return reply_row(request.custom_id, **(replies[number] if number < len(replies) else {}))

    return answer


def test_the_second_question_is_the_same_to_the_byte() -> None:
    bench = Bench(answer=saying({keys_of(1)[1]: [UNREADABLE]}))
    bench.settle(requests_for(1))
    first, second = (batch.requests for batch in bench.judge.ours)
    assert second[0].params == first[1].params
    assert second[0].custom_id != first[1].custom_id


def test_a_reply_that_was_cut_off_gets_twice_the_room_and_no_other_does() -> None:
    cut, hazy, *_ = keys_of(2)
    bench = Bench(answer=saying({cut: [CUT_OFF], hazy: [UNREADABLE]}))
    bench.settle(requests_for(2))
    caps = {
        key_in(request.custom_id): request.params["max_tokens"]
        for request in bench.judge.ours[1].requests
    }
    assert caps == {cut: 2048, hazy: 1024}


def test_a_run_that_ends_between_the_two_questions_leaves_the_second_to_the_next() -> None:
    first, *_ = keys_of(1)
    bench = Bench(answer=saying({first: [UNREADABLE]}), durations=[0.0, 1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    bench.clock.seconds = 1000.0
    tally = bench.settle(requests_for(1))
    assert (tally.resumed, tally.second_questions, tally.submitted) == (1, 0, 0)
    assert str(bench.ledger.text_of(first, 2)).endswith("VERDICT: A")


def test_a_second_question_that_may_not_be_paid_is_asked_by_a_later_run() -> None:
    def allow_four(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        if len(requests) != 4:
            raise BudgetError("no more")

    first, *_ = keys_of(2)
    bench = Bench(answer=saying({first: [CUT_OFF]}))
    with pytest.raises(BudgetError):
        bench.settle(requests_for(2), approval=Approving(allow_four))
    assert bench.ledger.answered(attempt=2) == set()
    assert bench.settle(requests_for(2)).second_questions == 1
    assert bench.ledger.answered(attempt=2) == {first}


def test_approval_of_a_second_question_sees_the_larger_cap() -> None:
    caps: list[list[int]] = []

    def note(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        caps.append([request.params["max_tokens"] for request in requests])

    bench = Bench(answer=saying({keys_of(1)[1]: [CUT_OFF]}))
    bench.settle(requests_for(1), approval=Approving(note))
    assert caps == [[1024, 1024], [2048]]


def test_a_second_question_that_fails_in_passing_is_asked_in_rounds_and_then_directly() -> None:
    first, *_ = keys_of(1)
    expired = {"result_type": "expired", "text": None}
    bench = Bench(answer=saying({first: [CUT_OFF, expired, expired]}))
    tally = bench.settle(requests_for(1), max_rounds=2)
    assert bench.judge.asked == [2, 1, 1]
    assert (tally.direct, tally.second_questions) == (1, 1)
    assert bench.judge.direct_requests[0].params["max_tokens"] == 2048
    assert bench.ledger.answered(attempt=2) == {first}


def test_a_second_question_is_not_sent_ahead_to_warm_the_cache() -> None:
    bench = Bench(answer=saying({key: [UNREADABLE] for key in keys_of(1)}))
    bench.settle(requests_for(1), prewarms=True)
    assert bench.judge.asked == [2]
    assert len(bench.judge.direct_requests) == 2


def test_replies_are_read_in_the_format_that_was_asked_for() -> None:
    verdict = {"text": '{"reasoning": "A is truer.", "verdict": "A"}'}
    bench = Bench(answer=saying({key: [verdict] for key in keys_of(1)}))
    assert bench.settle(requests_for(1), reply_format="json_schema").second_questions == 0
    assert bench.settle(requests_for(1), reply_format="line").second_questions == 2
