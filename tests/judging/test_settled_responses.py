from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeWaitingError
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest, TokenUsage
from tournament_assets.judging.settlement.harvest import is_final
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.providers.response_reading import NoResponse, read_response
from tournament_assets.responses.api_responses import build_response_requests, response_scope
from tournament_assets.tournament.entrants import AnthropicApiEntrant
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

from .bench import Bench
from .builders import SCOPE, failed_row, reply_row
from .fake_judge import failing

CLAUDE = AnthropicApiEntrant(
    entrant_id="claude", loader="anthropic_api", model="claude-opus-5-5", max_new_tokens=100
)
PROMPTS = [Prompt(prompt_id=f"p{n}", text=f"Question {n}?", source="test") for n in range(3)]
REQUESTS = list(build_response_requests(CLAUDE, PROMPTS).values())


def row(**changed: Any) -> ReplyRow:
    return reply_row("id", text="Vitamin C.", usage=TokenUsage(7, 5, 2, 1), **changed)


def settle(
    bench: Bench, told: list[str] | None = None, *, scope: JudgingScope | None = None, **policy: Any
) -> None:
    def listen(rows: Sequence[tuple[str, ReplyRow]]) -> None:
        # What is told is in the ledger already.
        final = [key for key, row in rows if is_final(row)]
        assert set(final) <= bench.ledger.answered()
        if told is not None:
            told.extend(final)

    session = bench.unbegun(
        scope=scope or response_scope(CLAUDE),
        reply_format=None,
        on_rows=listen,
        remedy="do this",
        **policy,
    )
    settle_requests(session, REQUESTS)


def test_a_prompt_is_one_user_message_and_settings_that_are_not_given_are_not_sent() -> None:
    assert dict(REQUESTS[0].params) == {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Question 0?"}],
    }
    entrant = CLAUDE.model_copy(update={"temperature": 0.0, "system_prompt": "Brief.\ud800"})
    (request,) = build_response_requests(entrant, PROMPTS[:1]).values()
    assert request.params["temperature"] == 0.0
    assert request.params["system"] == "Brief.\N{REPLACEMENT CHARACTER}"


def test_a_key_names_the_entrant_and_the_text_and_not_the_prompts_name() -> None:
    def keys(entrant: AnthropicApiEntrant = CLAUDE, **changed: Any) -> set[str]:
        return set(build_response_requests(entrant, [replace(PROMPTS[0], **changed)]))

    assert keys(prompt_id="renamed", gold_answer="C") == keys()
    others = [
        keys(),
        keys(text="Another?"),
        keys(CLAUDE.model_copy(update={"revision": "2"})),
        keys(CLAUDE.model_copy(update={"max_new_tokens": 200})),
    ]
    assert len(set.union(*others)) == len(others)
    both = build_response_requests(CLAUDE, [PROMPTS[0], replace(PROMPTS[0], prompt_id="twin")])
    ((key, request),) = both.items()
    assert key == request.request_key == keys().pop()
    assert [prompt.prompt_id for prompt in request.prompts] == ["p0", "twin"]


@pytest.mark.parametrize(
    ("changed", "finish_reason"),
    [
        ({}, "stop"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"text": ""}, "stop"),
        ({"text": "", "stop_reason": "max_tokens"}, "length"),
    ],
)
def test_what_the_model_said_is_a_response(changed: dict[str, Any], finish_reason: str) -> None:
    reply = replace(row(), **changed)
    assert read_response(CLAUDE, PROMPTS[0], reply) == GeneratedResponse(
        prompt_id="p0",
        text=reply.text or "",
        finish_reason=finish_reason,
        prompt_tokens=10,
        response_tokens=5,
        diagnostics={"served_model": "judge-1"},
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (row(stop_reason="refusal"), "a filter withheld the answer"),
        (row(stop_reason="model_context_window_exceeded"), "exceed the model's context"),
        (row(stop_reason="pause_turn"), "called a tool"),
        (row(stop_reason="error"), "broke the answer off"),
        (replace(row(), text=None), "without a text"),
        (failed_row("id", "errored:invalid_request_error"), "for good (invalid_request_error)"),
    ],
)
def test_whatever_is_no_response_is_missing_with_its_reason(reply: ReplyRow, reason: str) -> None:
    meaning = read_response(CLAUDE, PROMPTS[0], reply)
    assert isinstance(meaning, NoResponse)
    assert reason in meaning.reason


def test_final_rows_are_told_once_they_are_kept_those_of_direct_messages_among_them() -> None:
    bench, told = Bench(answer=failing("expired", "expired")), list[str]()
    settle(bench, told, max_rounds=1)
    assert len(bench.judge.direct_requests) == 2
    assert Counter(told) == {request.request_key: 1 for request in REQUESTS}


def test_a_reply_that_is_no_verdict_is_never_asked_for_twice() -> None:
    def answer(request: SubmittedRequest) -> ReplyRow:
        return reply_row(request.custom_id, text="No verdict.", stop_reason="max_tokens")

    bench = Bench(answer=answer)
    settle(bench)
    settle(bench)
    assert bench.judge.asked == [3]


def test_responses_and_verdicts_do_not_touch_each_others_batches() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError):
        settle(bench)
    assert bench.ledger.open_batches(response_scope(CLAUDE))
    assert not bench.ledger.open_batches(SCOPE)
    # A judging of the very same requests would have to ask for them itself.
    settle(bench, scope=SCOPE)
    assert bench.judge.asked == [3, 3]
    assert bench.ledger.states == ["created", "harvested"]


def test_a_renamed_entrant_keeps_what_is_under_way_and_other_settings_do_not() -> None:
    renamed = CLAUDE.model_copy(update={"entrant_id": "other"})
    changed = CLAUDE.model_copy(update={"max_new_tokens": 200})
    assert response_scope(renamed) == response_scope(CLAUDE) != response_scope(changed)


def test_messages_name_the_entrant_and_not_a_sensor_that_would_not_help() -> None:
    bench = Bench(durations=[1000.0])
    with pytest.raises(JudgeWaitingError) as caught:
        settle(bench)
    assert "'claude'" in str(caught.value)
    assert "batch-0" in str(caught.value)
    assert "sensor" not in str(caught.value)
    bench.ledger.acquire_lease(response_scope(CLAUDE))
    with pytest.raises(JudgeWaitingError, match=r"'claude'.*holder"):
        settle(bench)
    assert bench.progress.heard("entrant 'claude'")


def test_requests_that_are_all_refused_say_what_helps() -> None:
    bench = Bench(answer=failing(*["errored:invalid_request_error"] * 3))
    with pytest.raises(JudgeError, match=r"batch-0.*; do this$"):
        settle(bench)
    assert bench.judge.asked == [3]
