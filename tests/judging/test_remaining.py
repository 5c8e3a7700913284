from typing import Any

import pytest

from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.judging.settlement.settlement import WorkLeft, ask_directly, find_work_left
from tournament_assets.tournament.errors import JudgeWaitingError

from .bench import Bench
from .builders import SCOPE, keys_of, reply_row, requests_for


def left_on(bench: Bench, n_pairs: int, reply_format: ReplyFormat = "line") -> WorkLeft:
    keys = keys_of(n_pairs)
    return find_work_left(keys, scope=SCOPE, ledger=bench.ledger, reply_format=reply_format)


def saying(*replies: dict[str, Any]) -> Bench:
    """Settle two requests whose first questions are answered in some ways, asking none twice."""
    waiting = list(replies)

    def answer(request: SubmittedRequest) -> ReplyRow:
        return reply_row(request.custom_id, **(waiting.pop(0) if waiting else {}))

    bench = Bench(answer=answer)
    session = bench.session()
    ask_directly(session, requests_for(1)[:1], attempt=1)
    ask_directly(session, requests_for(1)[1:], attempt=1)
    bench.ledger.release_lease(session.lease)
    return bench


def test_of_nothing_nothing_is_left() -> None:
    work = left_on(Bench(), 0)
    assert work == WorkLeft(0, 0, (), {}, ())
    assert work.is_done


def test_what_was_never_asked_is_left_in_its_order() -> None:
    work = left_on(Bench(), 2)
    assert work.unanswered == tuple(keys_of(2))
    assert (work.total, work.unreadable, work.open_batches) == (4, {}, ())
    assert not work.is_done


def test_a_key_that_comes_twice_counts_once() -> None:
    keys = keys_of(1)
    work = find_work_left([*keys, *keys], scope=SCOPE, ledger=Bench().ledger, reply_format="line")
    assert (work.total, work.unanswered) == (2, tuple(keys))


def test_when_everything_has_a_verdict_nothing_is_left() -> None:
    bench = Bench()
    bench.settle(requests_for(2))
    assert left_on(bench, 2).is_done


@pytest.mark.parametrize(
    "reply",
    [
        {"text": "VERDICT: ABSTAIN"},
        {"text": ""},
        {"text": None},
        {"stop_reason": "max_tokens"},
        {"stop_reason": "pause_turn"},
        {"stop_reason": None},
    ],
)
def test_an_unreadable_reply_leaves_a_second_question(reply: dict[str, Any]) -> None:
    work = left_on(saying(reply), 1)
    assert work.unanswered == ()
    (key,) = work.unreadable
    assert key == work.unreadable[key].request_key == keys_of(1)[0]
    assert not work.is_done


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"stop_reason": "refusal"},
        {"stop_reason": "model_context_window_exceeded"},
        {"result_type": "errored", "error_type": "invalid_request_error"},
    ],
)
def test_what_asking_again_cannot_mend_leaves_nothing(reply: dict[str, Any]) -> None:
    assert left_on(saying(reply), 1).is_done


@pytest.mark.parametrize("second", ["VERDICT: A", "nothing of use"])
def test_after_the_second_question_nothing_is_left_whatever_it_brought(second: str) -> None:
    bench = saying({"text": "Hm."})
    bench.judge.answer = lambda request: reply_row(request.custom_id, text=second)
    bench.settle(requests_for(1))
    assert left_on(bench, 1).is_done
    assert len(bench.judge.ours) == 1


def test_a_reply_is_read_in_the_format_that_was_asked_for() -> None:
    bench = saying({"text": '{"reasoning": "", "verdict": "A"}'}, {"text": "VERDICT: A"})
    assert len(left_on(bench, 1, "line").unreadable) == 1
    assert left_on(bench, 1, "json_schema").is_done


def test_a_batch_that_was_not_closed_is_left() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    work = left_on(bench, 1)
    assert [batch.batch_id for batch in work.open_batches] == ["batch-0"]
    assert work.unanswered == tuple(keys_of(1))
    assert not work.is_done


def test_looking_writes_nothing_and_asks_nobody() -> None:
    bench = saying({"text": "Hm."})
    bench.events.clear()
    left_on(bench, 3)
    assert bench.events == []
