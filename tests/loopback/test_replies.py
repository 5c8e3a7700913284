import json
from typing import Any

import pytest

from tests.loopback.builders import judge_params
from tests.loopback.faulty_judges import BATCHES, judge, results
from tournament_assets.loopback.batches import spoil_message
from tournament_assets.loopback.lexical_judge import judge_lexically
from tournament_assets.loopback.messages import compose_message, find_invalid_parameter, read_reply

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
    with judge() as (_, caller):
        direct = caller.post("/v1/messages", structured()).json()
        body = {"requests": [{"custom_id": "r", "params": structured()}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        (row,) = (json.loads(line) for line in results(caller, batch_id).text.splitlines())
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
        ("json", "output_config: expected an object"),
        ({"format": "json"}, "output_config.format.type"),
        ({"format": {"type": "json_object"}}, "output_config.format.type"),
        ({"format": {"type": "json_schema"}}, "output_config.format.schema: expected an object"),
        ({"format": {"type": "json_schema", "schema": []}}, "output_config.format.schema"),
    ],
)
def test_a_format_that_is_none_is_an_invalid_request(output_config: Any, complaint: str) -> None:
    params = asking_for(output_config)
    with judge() as (_, caller):
        refused = caller.post("/v1/messages", params)
        body = {"requests": [{"custom_id": "r", "params": params}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        (row,) = (json.loads(line) for line in results(caller, batch_id).text.splitlines())
    assert refused.status_code == 400
    for error in (refused.json()["error"], row["result"]["error"]["error"]):
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith(complaint)


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "array"},
        {"additionalProperties": True},
        {"required": ["verdict"]},
        {"required": "reasoning verdict"},
        {"properties": {"verdict": {"enum": ["A", "B", "TIE"]}}},
        {"properties": {"reasoning": {"type": "string"}, "verdict": {"enum": ["A", "B"]}}},
        {"properties": {"reasoning": {"type": "string"}, "verdict": {"type": "string"}}},
        {"properties": {"reasoning": {"type": "integer"}, "verdict": {"enum": ["A", "B", "TIE"]}}},
        {"properties": {"reasoning": [], "verdict": []}},
        {"properties": []},
    ],
)
def test_a_schema_of_anything_else_is_refused_with_what_is_known(changes: dict[str, Any]) -> None:
    problem = find_invalid_parameter(structured({**SCHEMA, **changes}))
    assert problem is not None
    assert "knows only schemas with reasoning and verdict" in problem


def test_faults_spoil_a_structured_reply_in_its_own_form() -> None:
    whole = compose_message(structured(), message_id="m", cache_use="none")
    texts = {
        fault: text_of(spoil_message(whole, fault))
        for fault in ("text_empty", "no_verdict", "verdict_abstain", "verdict_quoted",
                      "verdict_markdown", "two_verdicts", "content_empty")
    }  # fmt: skip
    assert texts["text_empty"] == texts["content_empty"] == ""
    assert list(json.loads(texts["no_verdict"])) == ["reasoning"]
    assert json.loads(texts["verdict_abstain"])["verdict"] == "ABSTAIN"
    quoted = json.loads(texts["verdict_quoted"])
    assert (quoted["verdict"], '{"verdict": "B"}' in quoted["reasoning"]) == ("A", True)
    assert texts["verdict_markdown"] == f"```json\n{text_of(whole)}\n```"
    first, second = texts["two_verdicts"].splitlines()
    assert (json.loads(first)["verdict"], json.loads(second)["verdict"]) == ("A", "B")


def test_a_second_row_contradicts_a_structured_reply() -> None:
    with judge("results_duplicate_different") as (_, caller):
        body = {"requests": [{"custom_id": "r", "params": structured()}]}
        batch_id = caller.post(BATCHES, body).json()["id"]
        rows = [json.loads(line) for line in results(caller, batch_id).text.splitlines()]
    verdicts = [json.loads(text_of(row["result"]["message"]))["verdict"] for row in rows]
    assert verdicts == ["A", "B"]


@pytest.mark.parametrize("text", ["", "No verdict here.", '{"reasoning": "x"}', "a\nVERDICT: TIE"])
def test_a_reply_taken_apart_can_be_put_together_again(text: str) -> None:
    assert read_reply(text).write() == text
