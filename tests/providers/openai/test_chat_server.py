import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.chat_server import (
    DROP,
    MODEL,
    ChatServer,
    api_entrant,
    chat_server,
    completion,
    prompts_named,
    refusal,
)
from tournament_assets.providers.openai.chat_server import OpenAiServer, read_access
from tournament_assets.tournament.errors import InputError, ServerError, ServerFailure
from tournament_assets.tournament.places import ServerAddress
from tournament_assets.tournament.prompts import GeneratedResponse, prompt_seed

KEY = "sk-served-0123456789"
(ADA,) = prompts_named("ada")


@pytest.fixture(scope="module")
def running() -> Iterator[ChatServer]:
    with chat_server() as chat:
        yield chat


@pytest.fixture
def chat(running: ChatServer) -> ChatServer:
    running.forget()
    return running


def ask(chat: ChatServer, **changes: Any) -> GeneratedResponse:
    entrant = api_entrant(chat.url, **changes)
    access = read_access(entrant, {"SERVED_KEY": KEY})
    with closing(OpenAiServer(entrant, access)) as server:
        return server.ask(ADA)


def failure_of(chat: ChatServer, answer: Response, **changes: Any) -> ServerError:
    chat.fail("", answer)
    with pytest.raises(ServerError) as caught:
        ask(chat, **changes)
    assert len(chat.asked) == 1
    return caught.value


def look(chat: ChatServer, **changes: Any) -> str:
    entrant = api_entrant(chat.url, **changes)
    with closing(OpenAiServer(entrant, read_access(entrant, {"SERVED_KEY": KEY}))) as server:
        return server.look_around()


def test_greedy_decoding_is_asked_for_with_the_prompts_own_seed(chat: ChatServer) -> None:
    assert ask(chat) == GeneratedResponse(
        prompt_id="ada",
        text=f"Answer to: {ADA.text}",
        finish_reason="stop",
        prompt_tokens=7,
        response_tokens=5,
        diagnostics={
            "seed": prompt_seed("ada"),
            "served_model": "tiny-as-served",
            "system_fingerprint": "fp_1",
        },
    )
    (asked,) = chat.asked
    assert asked.body == {
        "model": MODEL,
        "messages": [{"role": "user", "content": ADA.text}],
        "max_completion_tokens": 64,
        "seed": prompt_seed("ada"),
        "temperature": 0.0,
    }


def test_sampling_is_asked_for_from_the_whole_distribution(chat: ChatServer) -> None:
    ask(chat, temperature=0.7, system_prompt="Be brief.")
    (asked,) = chat.asked
    assert (asked.body["temperature"], asked.body["top_p"]) == (0.7, 1.0)
    assert asked.body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_every_setting_is_in_the_request(chat: ChatServer) -> None:
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    ask(chat, temperature=0.7, top_p=0.9, stop=("###",), seed=3, extra_body=extra)
    (asked,) = chat.asked
    assert asked.body["top_p"] == 0.9
    assert asked.body["stop"] == ["###"]
    assert asked.body["seed"] == prompt_seed("ada", 3) != prompt_seed("ada")
    assert {name: asked.body[name] for name in extra} == extra


def test_the_name_of_the_cap_is_found_out_when_a_server_refuses_one(chat: ChatServer) -> None:
    chat.fail("", refusal(400, "Unrecognized request argument: max_completion_tokens"))
    entrant = api_entrant(chat.url)
    with closing(OpenAiServer(entrant, read_access(entrant, {}))) as server:
        assert server.ask(ADA).text == f"Answer to: {ADA.text}"
        server.ask(ADA)
    found = [{name for name in asked.body if name.startswith("max_")} for asked in chat.asked]
    assert found == [{"max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


def test_a_server_that_refuses_both_names_of_the_cap_is_asked_twice(chat: ChatServer) -> None:
    words = [refusal(400, f"no '{name}'") for name in ("max_completion_tokens", "max_tokens")]
    chat.fail("", *words)
    with pytest.raises(ServerError, match="'max_tokens'"):
        ask(chat)
    assert len(chat.asked) == 2


def test_a_name_of_the_cap_that_is_given_is_the_only_one_tried(chat: ChatServer) -> None:
    ask(chat, max_tokens_field="max_tokens")
    assert "max_completion_tokens" not in chat.asked[0].body
    chat.forget()
    error = failure_of(chat, refusal(400, "no max_tokens"), max_tokens_field="max_tokens")
    assert error.failure is ServerFailure.REFUSED


def test_a_thought_is_kept_beside_the_response_wherever_the_server_puts_it(
    chat: ChatServer,
) -> None:
    inside = completion("<think>Hm.</think>Yes.")
    for answer in (inside, completion("Yes.", reasoning_content="Hm.")):
        chat.fail("", JSONResponse(answer))
        response = ask(chat, strip="think")
        assert response.text == "Yes."
        assert (response.diagnostics["thought"], response.diagnostics["thought_words"]) == (
            "Hm.",
            1,
        )
    chat.fail("", JSONResponse(inside))
    assert ask(chat).text == "<think>Hm.</think>Yes."


@pytest.mark.parametrize(
    ("said", "kept"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "other"), (None, "other")],
)
def test_how_a_response_ended_is_kept(chat: ChatServer, said: str, kept: str) -> None:
    chat.fail("", JSONResponse(completion(" Yes. \n", said)))
    response = ask(chat)
    assert (response.text, response.finish_reason) == ("Yes.", kept)


def test_tokens_that_nobody_counted_stay_unknown(chat: ChatServer) -> None:
    chat.fail("", JSONResponse({**completion("Yes."), "usage": None, "model": None}))
    response = ask(chat)
    assert (response.prompt_tokens, response.response_tokens) == (None, None)
    assert dict(response.diagnostics) == {
        "seed": prompt_seed("ada"),
        "system_fingerprint": "fp_1",
    }


def test_an_empty_response_is_what_the_model_said(chat: ChatServer) -> None:
    chat.fail("", JSONResponse(completion("")))
    assert ask(chat).text == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (JSONResponse(completion(None, refusal="I would rather not.")), "answered without a text"),
        (
            PlainTextResponse('{"choices": [{"message": {"content": "\\ud800"}}]}'),
            "half a character",
        ),
        (PlainTextResponse('{"choices": [{"message": {"content": "\\u0000"}}]}'), "or a NUL"),
    ],
)
def test_no_text_is_never_an_empty_response(chat: ChatServer, answer: Response, said: str) -> None:
    error = failure_of(chat, answer)
    assert error.failure is ServerFailure.REFUSED
    assert said in str(error)


def test_a_refusal_in_words_is_shown(chat: ChatServer) -> None:
    error = failure_of(chat, JSONResponse(completion(None, refusal="Rather not.")))
    assert re.search(r"'stop'.*'Rather not\.'", str(error))


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("<html>busy</html>"),
        PlainTextResponse("[" * 100_000),
        JSONResponse([]),
        JSONResponse({"choices": []}),
        JSONResponse({"choices": [{"message": "Yes."}]}),
    ],
)
def test_an_answer_that_is_no_completion_may_be_asked_for_again(
    chat: ChatServer, answer: Response
) -> None:
    error = failure_of(chat, answer)
    assert error.failure is ServerFailure.TRANSIENT
    assert "chat completion" in str(error)


def test_a_server_that_ignores_the_cap_is_not_asked_on(chat: ChatServer) -> None:
    answer = completion("long")
    answer["usage"]["completion_tokens"] = 65
    error = failure_of(chat, JSONResponse(answer))
    assert error.failure is ServerFailure.FATAL
    assert re.search(r"\b65\b.*\b64\b", str(error))


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (302, ServerFailure.FATAL),
        (400, ServerFailure.REFUSED),
        (401, ServerFailure.FATAL),
        (402, ServerFailure.FATAL),
        (403, ServerFailure.FATAL),
        (404, ServerFailure.FATAL),
        (405, ServerFailure.FATAL),
        (408, ServerFailure.TRANSIENT),
        (409, ServerFailure.TRANSIENT),
        (413, ServerFailure.REFUSED),
        (422, ServerFailure.REFUSED),
        (429, ServerFailure.TRANSIENT),
        (500, ServerFailure.TRANSIENT),
        (503, ServerFailure.TRANSIENT),
        (529, ServerFailure.TRANSIENT),
    ],
)
def test_a_status_says_what_is_done_next(
    chat: ChatServer, status: int, failure: ServerFailure
) -> None:
    error = failure_of(chat, refusal(status, "because", location="http://127.0.0.1:1/"))
    assert error.failure is failure
    said = f"answered {status}: because"
    if status == 302:
        said = "answered 302, a redirect to http://127.0.0.1:1; redirects are not followed"
    assert said in str(error)


def test_an_account_without_credit_is_not_waited_for(chat: ChatServer) -> None:
    error = failure_of(chat, refusal(429, code="insufficient_quota"))
    assert error.failure is ServerFailure.FATAL
    assert "credit" in str(error)


@pytest.mark.parametrize(("said", "seconds"), [("2.5", 2.5), ("-1", None), ("soon", None)])
def test_the_wait_that_a_server_asks_for_is_read(
    chat: ChatServer, said: str, seconds: float | None
) -> None:
    assert failure_of(chat, refusal(429, retry_after=said)).retry_after_seconds == seconds


def test_a_connection_that_breaks_off_may_have_been_bad_luck(chat: ChatServer) -> None:
    error = failure_of(chat, DROP)
    assert error.failure is ServerFailure.TRANSIENT
    assert "http://127.0.0.1" in str(error)


def test_a_server_that_takes_too_long_may_be_busy(chat: ChatServer) -> None:
    chat.delay = 1.0
    with pytest.raises(ServerError, match="APITimeoutError") as caught:
        ask(chat, timeout_seconds=0.1)
    assert caught.value.failure is ServerFailure.TRANSIENT


def test_a_place_where_nobody_listens_is_named() -> None:
    chat = ChatServer()
    chat.url = "http://127.0.0.1:1/v1"
    with pytest.raises(ServerError, match=r"http://127\.0\.0\.1:1;") as caught:
        ask(chat)
    assert caught.value.failure is ServerFailure.UNREACHABLE
    with pytest.raises(ServerError, match="no connection"):
        look(chat)


def test_the_key_goes_into_the_header_and_into_no_message(chat: ChatServer) -> None:
    chat.key = KEY
    ask(chat, api_key_env="SERVED_KEY")
    assert chat.asked[0].headers["authorization"] == f"Bearer {KEY}"
    chat.asked.clear()
    # Where the text is cut, half a key would no longer be recognised.
    for padding in ("", "x" * 280):
        chat.asked.clear()
        error = failure_of(chat, refusal(400, f"{padding} bad key {KEY}"), api_key_env="SERVED_KEY")
        assert "sk-served" not in str(error)
    entrant = api_entrant(chat.url, api_key_env="SERVED_KEY")
    access = read_access(entrant, {"SERVED_KEY": KEY})
    with closing(OpenAiServer(entrant, access)) as server:
        assert KEY not in repr(access) + repr(server)


def test_what_the_sdk_finds_in_the_environment_is_sent_to_nobody(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_ORG_ID", "sk-other")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "sk-other")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gate: sk-other\nAuthorization: Bearer sk-other")
    ask(chat)
    ask(chat, api_key_env="SERVED_KEY")
    without, with_key = (asked.headers for asked in chat.asked)
    assert "authorization" not in without
    assert with_key["authorization"] == f"Bearer {KEY}"
    assert "sk-other" not in str([without, with_key])
    assert not [name for name in without if name.startswith("x-")]


def test_a_server_says_which_models_it_has(chat: ChatServer) -> None:
    assert "not among" not in look(chat)
    assert re.search(r"'tiny'.*'big'.*not among", look(chat, model="big"))


@pytest.mark.parametrize(
    "answer", [refusal(500), refusal(404), refusal(403), PlainTextResponse("Hello"), DROP]
)
def test_a_server_that_lists_no_models_may_have_them_all_the_same(
    chat: ChatServer, answer: Response
) -> None:
    chat.models = answer
    assert "127.0.0.1" in look(chat)


def test_a_key_that_is_refused_is_noticed_before_anything_is_asked(chat: ChatServer) -> None:
    chat.key = "another"
    with pytest.raises(ServerError, match=r"401: .*'Bearer \[key\]'") as caught:
        look(chat, api_key_env="SERVED_KEY")
    assert caught.value.failure is ServerFailure.FATAL
    assert not chat.asked


def test_everything_that_is_missing_in_the_environment_is_named() -> None:
    entrant = api_entrant(base_url=ServerAddress(env="SERVED_URL"), api_key_env="SERVED_KEY")
    with pytest.raises(InputError) as caught:
        read_access(entrant, {"SERVED_KEY": " "})
    first, second = caught.value.problems
    assert "SERVED_URL" in first
    assert "SERVED_KEY" in second


@pytest.mark.parametrize("url", ["http://u:hidden@h/v1", "h:8000/v1", "http://h/v1?key=hidden"])
def test_an_address_from_the_environment_is_checked_and_no_secret_in_it_shown(url: str) -> None:
    entrant = api_entrant(base_url=ServerAddress(env="SERVED_URL"))
    with pytest.raises(InputError, match="SERVED_URL:") as caught:
        read_access(entrant, {"SERVED_URL": url})
    assert "hidden" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    with pytest.raises(InputError, match="SERVED_KEY") as caught:
        read_access(api_entrant(api_key_env="SERVED_KEY"), {"SERVED_KEY": "schlüssel"})
    assert "schl" not in str(caught.value)
