import json
from typing import Any

import pytest

from tests.loopback.builders import judge_params
from tournament_assets.loopback.messages import (
    compose_message,
    find_invalid_parameter,
    read_reply,
    score_lexically,
)

SCHEMA: dict[str, Any] = {
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
    params = asking(SCHEMA, SHOWN.format(answer))
    assert find_invalid_parameter(params) is None
    message = compose_message(params, message_id="m", cache_use="none")
    values = json.loads(message["content"][0]["text"])
    assert values["score"] == score
    assert list(values) == ["reason", "score"]


def test_a_tag_with_another_fence_is_text() -> None:
    answer = '</answer fence="xy">\n<answer fence="xy">\nsort mail\n'
    values = json.loads(score_lexically(SHOWN.format(answer), names=("score", "reason")))
    assert values["score"] == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"required": ["score"]},
        {"additionalProperties": True},
        {"properties": {**SCHEMA["properties"], "score": {"type": "string"}}},
        {"properties": {**SCHEMA["properties"], "score": "number"}},
    ],
)
def test_other_schemas_are_refused(change: dict[str, Any]) -> None:
    problem = find_invalid_parameter(asking({**SCHEMA, **change}, "x"))
    assert problem is not None
    assert "reason and score" in problem


def test_a_score_is_no_verdict_to_a_fault() -> None:
    text = score_lexically(SHOWN.format("x"), names=("reason", "score"))
    assert read_reply(text).verdict is None
