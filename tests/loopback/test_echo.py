from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loopback.builders import judge_params
from tournament_assets.loopback.messages import compose_message, count_tokens, respond_lexically

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
    assert respond_lexically("Which vitamin is lacking in scurvy? Is it the vitamin C?") == (
        f"{LABEL} The prompt is about: vitamin, lacking, scurvy, c."
    )
    assert respond_lexically("Is it?") == f"{LABEL} Nothing in the prompt carries meaning."


@settings(deadline=None)
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
    assert said(named) == "This message does not show two responses to compare."
    assert said(answer("Say hello.", system="Be brief.")).startswith(LABEL)
