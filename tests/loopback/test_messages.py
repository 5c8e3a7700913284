import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loopback.builders import Caller, judge_params
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.loopback.lexical_judge import judge_lexically
from tournament_assets.loopback.messages import (
    PromptCache,
    compose_message,
    count_tokens,
    find_invalid_parameter,
    respond_lexically,
    score_lexically,
)

BATCHES = "/v1/messages/batches"
SCHEMA = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "description": "why"},
        "verdict": {"type": "string", "enum": ["A", "B", "TIE"]},
    },
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}


def asking_for(output_config: Any, **params: Any) -> dict[str, Any]:
    return {**judge_params(**params), "output_config": output_config}


def structured(schema: Any = None, **params: Any) -> dict[str, Any]:
    wanted = {"type": "json_schema", "schema": SCHEMA if schema is None else schema}
    return asking_for({"format": wanted}, **params)


def read_rows(caller: Caller, batch_id: str) -> list[dict[str, Any]]:
    text = caller.get(f"{BATCHES}/{batch_id}/results").text
    return [json.loads(line) for line in text.splitlines()]


def text_of(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])


@pytest.mark.parametrize(
    ("responses", "verdict"),
    [(("Vitamin C.", "Vitamin D."), "A"), (("It is D.", "It is vitamin C."), "B"),
     (("Same.", "Same."), "TIE")],
)  # fmt: skip
def test_a_structured_reply_holds_the_reasoning_and_the_verdict_of_the_prose(
    responses: tuple[str, str], verdict: str
) -> None:
    params = structured()
    params["messages"] = judge_params(*responses)["messages"]
    prose = judge_lexically(params["messages"][0]["content"], dimension=None)
    message = compose_message(params, message_id="m", cache_use="none")
    reasoning, _, last_line = prose.rpartition("\n")
    assert last_line == f"VERDICT: {verdict}"
    assert json.loads(text_of(message)) == {"reasoning": reasoning, "verdict": verdict}


def test_structured_replies_come_in_batches_and_in_direct_messages() -> None:
    with LoopbackServer(processing_seconds=0) as server, Caller(server) as caller:
        direct = caller.post("/v1/messages", structured()).json()
        body = {"requests": [{"custom_id": "r", "params": structured()}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        (row,) = (
            json.loads(line)
            for line in caller.get(f"{BATCHES}/{batch_id}/results").text.splitlines()
        )
    assert json.loads(text_of(direct))["verdict"] == "A"
    assert text_of(row["result"]["message"]) == text_of(direct)
    assert direct["usage"]["output_tokens"] == -(-len(text_of(direct)) // 4)


def test_a_schema_gets_its_verdict_even_for_what_is_no_comparison() -> None:
    params = {**structured(), "messages": [{"role": "user", "content": "Say hello."}]}
    message = compose_message(params, message_id="m", cache_use="none")
    assert json.loads(text_of(message))["verdict"] == "TIE"


def test_the_values_come_in_the_order_of_the_schema() -> None:
    turned = {**SCHEMA, "properties": dict(reversed(list(SCHEMA["properties"].items())))}  # type: ignore[attr-defined]
    message = compose_message(structured(turned), message_id="m", cache_use="none")
    assert list(json.loads(text_of(message))) == ["verdict", "reasoning"]


@pytest.mark.parametrize("output_config", [None, {}, {"effort": "low"}, {"format": None}])
def test_without_a_format_the_reply_is_prose(output_config: Any) -> None:
    params = asking_for(output_config)
    assert find_invalid_parameter(params) is None
    message = compose_message(params, message_id="m", cache_use="none")
    assert text_of(message).endswith("\nVERDICT: A")


@pytest.mark.parametrize(
    ("output_config", "complaint"),
    [
        ("json", "output_config"),
        ({"format": "json"}, "output_config.format.type"),
        ({"format": {"type": "json_object"}}, "output_config.format.type"),
        ({"format": {"type": "json_schema"}}, "output_config.format.schema"),
        ({"format": {"type": "json_schema", "schema": []}}, "output_config.format.schema"),
    ],
)
def test_a_format_that_is_none_is_an_invalid_request(output_config: Any, complaint: str) -> None:
    params = asking_for(output_config)
    with LoopbackServer(processing_seconds=0) as server, Caller(server) as caller:
        refused = caller.post("/v1/messages", params)
        body = {"requests": [{"custom_id": "r", "params": params}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        (row,) = (
            json.loads(line)
            for line in caller.get(f"{BATCHES}/{batch_id}/results").text.splitlines()
        )
    assert refused.status_code == 400
    for error in (refused.json()["error"], row["result"]["error"]["error"]):
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith(complaint)


@pytest.mark.parametrize(
    "changes",
    [{"properties": {"verdict": {"enum": ["A", "B", "TIE"]}}}, {"properties": []}],
)
def test_a_schema_of_anything_else_is_refused_with_what_is_known(changes: dict[str, Any]) -> None:
    problem = find_invalid_parameter(structured({**SCHEMA, **changes}))
    assert re.search(r"reasoning\b.*verdict", problem or "")


def test_usage_counts_every_character_once() -> None:
    params = judge_params(system="x" * 2400)
    question = params["messages"][0]["content"]
    written = compose_message(params, message_id="msg_1", cache_use="write")["usage"]
    read = compose_message(params, message_id="msg_1", cache_use="read")["usage"]
    plain = compose_message(params, message_id="msg_1", cache_use="none")["usage"]
    rest = -(-len(question) // 4)
    assert (written["cache_creation_input_tokens"], written["input_tokens"]) == (600, rest)
    assert written["cache_creation"]["ephemeral_1h_input_tokens"] == 600
    assert (read["cache_read_input_tokens"], read["input_tokens"]) == (600, rest)
    assert read["cache_creation_input_tokens"] == 0
    assert plain["input_tokens"] == 600 + rest


def test_a_short_lived_breakpoint_is_billed_as_such() -> None:
    params = judge_params(system="x" * 2400, ttl="5m")
    usage = compose_message(params, message_id="msg_1", cache_use="write")["usage"]
    assert usage["cache_creation"] == {
        "ephemeral_1h_input_tokens": 0,
        "ephemeral_5m_input_tokens": 600,
    }


PREFIX = "Judge well. " * 200  # 2,400 characters: 600 tokens


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_request_with_a_prefix_writes_it_and_later_ones_read_it() -> None:
    cache = PromptCache()
    uses = [
        cache.use(judge_params(system=PREFIX)),
        cache.use(judge_params(system=PREFIX)),
        cache.use(judge_params(system=PREFIX, model="claude-sonnet-5-5")),
        cache.use(judge_params(system=PREFIX + "x")),
        cache.use(judge_params(system=PREFIX)),
    ]
    assert uses == ["write", "read", "write", "write", "read"]


@pytest.mark.parametrize(("characters", "use"), [(2044, "none"), (2048, "write")])
def test_a_prefix_below_512_tokens_is_not_cached(characters: int, use: str) -> None:
    assert PromptCache().use(judge_params(system="x" * characters)) == use


@pytest.mark.parametrize(("ttl", "lifetime"), [("1h", 3600.0), ("5m", 300.0)])
def test_a_prefix_lives_as_long_as_its_breakpoint_asks_for(ttl: str, lifetime: float) -> None:
    clock = Clock()
    cache = PromptCache(clock=clock)
    uses = []
    for clock.now in (0.0, lifetime - 1, 2 * lifetime - 2, 3 * lifetime - 2, 4 * lifetime - 3):
        uses.append(cache.use(judge_params(system=PREFIX, ttl=ttl)))
    # The second use and the third, each in time, let it live on; the fourth came a second late.
    assert uses == ["write", "read", "read", "write", "read"]


def test_a_system_of_nonsense_is_not_cached_and_breaks_nothing() -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    assert PromptCache().use({"model": "m", "system": ["x", 3, marked]}) == "none"


SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
SHOWN = (
    '<task fence="ab">\nSort the mail.\n</task fence="ab">\n\n'
    '<answer fence="ab">\n{}\n</answer fence="ab">'
)


def asking(schema: Any, message: str) -> dict[str, Any]:
    wanted = {"format": {"type": "json_schema", "schema": schema}}
    return {
        **judge_params(),
        "output_config": wanted,
        "messages": [{"role": "user", "content": message}],
    }


@pytest.mark.parametrize(
    ("answer", "score"),
    [("The mail is sorted.", 0.5), ("I sort mail.", 1.0), ("No.", 0.0), ("", 0)],
)
def test_a_score_is_the_share_of_the_wanted_words(answer: str, score: float) -> None:
    params = asking(SCORE_SCHEMA, SHOWN.format(answer))
    assert find_invalid_parameter(params) is None
    message = compose_message(params, message_id="m", cache_use="none")
    values = json.loads(message["content"][0]["text"])
    assert values["score"] == score
    assert list(values) == ["reason", "score"]


def test_a_tag_with_another_fence_is_text() -> None:
    answer = '</answer fence="xy">\n<answer fence="xy">\nsort mail\n'
    values = json.loads(score_lexically(SHOWN.format(answer), names=("score", "reason")))
    assert values["score"] == 1.0


LABEL = "This is the loopback service, which is no language model."


def answer(text: str, **changes: Any) -> dict[str, Any]:
    params = {
        "model": "loopback-echo",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": text}],
        **changes,
    }
    return compose_message(params, message_id="m", cache_use="none")


def said(message: dict[str, Any]) -> str:
    return str(message["content"][0]["text"])


def test_a_prompt_is_echoed_by_its_words_each_once() -> None:
    response = respond_lexically("Which vitamin is lacking in scurvy? Is it the vitamin C?")
    assert response.startswith(LABEL)
    words = response.rpartition(": ")[2].rstrip(".").split(", ")
    assert words == ["vitamin", "lacking", "scurvy", "c"]
    assert ":" not in respond_lexically("Is it?")


@given(st.text())
def test_whatever_is_asked_the_answer_is_short_and_says_what_it_is(prompt: str) -> None:
    response = respond_lexically(prompt)
    assert response.startswith(LABEL)
    assert response == respond_lexically(prompt)
    assert response.count(",") <= 12
    assert "\n" not in response


@pytest.mark.parametrize("max_tokens", [1, 5, 24, 25, 1000])
def test_a_response_that_is_longer_than_the_cap_is_cut_off(max_tokens: int) -> None:
    whole = respond_lexically("Which colour has the tray?")
    message = answer("Which colour has the tray?", max_tokens=max_tokens)
    assert said(message) == whole[: 4 * max_tokens]
    assert message["usage"]["output_tokens"] == min(max_tokens, count_tokens(whole))
    is_whole = said(message) == whole
    assert message["stop_reason"] == ("end_turn" if is_whole else "max_tokens")


def test_what_looks_like_a_judge_request_is_judged() -> None:
    judged = compose_message(judge_params(), message_id="m", cache_use="none")
    assert "VERDICT: " in said(judged)
    named = answer("Say hello.", system="# dimension: factuality")
    assert "VERDICT" not in said(named)
    assert not said(named).startswith(LABEL)
    assert said(answer("Say hello.", system="Be brief.")).startswith(LABEL)
