import time
from typing import Any

import anthropic
import httpx2
import pytest

from tests.loopback.builders import judge_params
from tests.loopback.faulty_judges import judge, results
from tournament_assets.loopback.faults import CATALOGUE, STOP_REASONS

MESSAGES = "/v1/messages"


def text_of(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def test_a_direct_message_is_refused_in_every_way_and_then_answered() -> None:
    expected = {
        "message_400": (400, "invalid_request_error"),
        "message_401": (401, "authentication_error"),
        "message_429": (429, "rate_limit_error"),
        "message_429_bare": (429, "rate_limit_error"),
        "message_500": (500, "api_error"),
        "message_529": (529, "overloaded_error"),
        "message_spend_limit": (429, "rate_limit_error"),
    }
    with judge(*expected) as (server, caller):
        for fault, (status, kind) in expected.items():
            answer = caller.post(MESSAGES, judge_params())
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind), fault
            assert answer.headers.get("retry-after") == ("1" if fault == "message_429" else None)
        code = answer.json()["error"]["details"]["error_code"]
        assert code == "enforced_spend_limit_reached"
        assert server.log.messages == 0
        assert caller.post(MESSAGES, judge_params()).status_code == 200
        assert server.log.messages == 1
        assert server.plan.struck == list(expected)


def test_a_dropped_message_was_answered_or_not_and_the_client_cannot_tell() -> None:
    with judge("message_drop", "message_drop_after") as (server, caller):
        for n_answered in (0, 1):
            with pytest.raises(httpx2.TransportError):
                caller.post(MESSAGES, judge_params())
            assert server.log.messages == n_answered


def test_the_log_proves_that_the_sdk_asks_again_after_a_lost_answer() -> None:
    with (
        judge("message_drop_after") as (server, _),
        anthropic.Anthropic(base_url=server.url, api_key="any") as client,
    ):
        client.messages.create(**judge_params())
        assert server.log.messages == 2


def test_a_fault_of_direct_messages_leaves_batches_alone() -> None:
    with judge("message_500:always", "direct_stop_refusal:always") as (_, caller):
        for _ in range(3):
            assert caller.post(MESSAGES, judge_params()).status_code == 500
        batch_id = caller.create(2)
        assert results(caller, batch_id).text.count('"end_turn"') == 2


def test_a_direct_reply_stops_for_every_reason() -> None:
    with judge(*(f"direct_{name}" for name in STOP_REASONS)) as (server, caller):
        for reason in [*STOP_REASONS.values(), "end_turn"]:
            message = caller.post(MESSAGES, judge_params()).json()
            assert message["stop_reason"] == reason
            assert (message["stop_sequence"] is None) == (reason != "stop_sequence")
            assert text_of(message).endswith("VERDICT: A")
        assert server.log.messages == len(STOP_REASONS) + 1


def test_a_direct_reply_is_unreadable_in_every_way() -> None:
    faults = ("no_verdict", "text_empty", "content_empty", "verdict_abstain", "two_verdicts",
              "verdict_markdown", "verdict_quoted", "thinking_first")  # fmt: skip
    with judge(*(f"direct_{name}" for name in faults)) as (_, caller):
        messages = {name: caller.post(MESSAGES, judge_params()).json() for name in faults}
        whole = text_of(caller.post(MESSAGES, judge_params()).json())
    assert text_of(messages["no_verdict"]) == whole.removesuffix("\nVERDICT: A")
    assert messages["text_empty"]["content"] == [{"type": "text", "text": ""}]
    assert messages["content_empty"]["content"] == []
    assert text_of(messages["verdict_abstain"]).endswith("\nVERDICT: ABSTAIN")
    assert text_of(messages["two_verdicts"]).endswith("\nVERDICT: B")
    assert text_of(messages["verdict_markdown"]).endswith("\n**VERDICT: A**")
    assert text_of(messages["verdict_quoted"]).startswith('One response says "VERDICT: B"')
    assert messages["thinking_first"]["content"][0]["type"] == "thinking"


@pytest.mark.parametrize("fault", ["direct_no_verdict", "message_drop_after"])
def test_a_refused_message_does_not_use_up_a_fault_of_answers(fault: str) -> None:
    with judge(fault) as (server, caller):
        assert caller.post(MESSAGES, {}).status_code == 400
        assert server.plan.struck == []
        answer = caller.try_post(MESSAGES, judge_params())
        assert server.plan.struck == [fault]
        assert answer is None or "VERDICT" not in answer.text


def test_every_fault_of_a_batch_reply_has_a_direct_twin() -> None:
    in_batches = {name for name, kind in CATALOGUE.items() if kind.family == "message"}
    direct = {name for name, kind in CATALOGUE.items() if kind.family == "direct_reply"}
    assert direct == {f"direct_{name}" for name in in_batches}
    with judge("no_verdict") as (_, caller):
        assert caller.post(MESSAGES, judge_params()).text.count("VERDICT: A") == 1
        assert "VERDICT" not in results(caller, caller.create(1)).text


def test_a_cached_prefix_expires_between_two_batches() -> None:
    system = "Judge well. " * 200
    with judge("cache_expiry:0.2") as (_, caller):
        usages = []
        for pause in (0.0, 0.0, 0.25):
            time.sleep(pause)
            usages.append(caller.post(MESSAGES, judge_params(system=system)).json()["usage"])
        written = [usage["cache_creation_input_tokens"] for usage in usages]
    assert written == [600, 0, 600]
