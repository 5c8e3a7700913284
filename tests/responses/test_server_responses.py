"""Responses of a model behind a chat server: what is asked, what an answer means, what is kept."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.chat_server import (
    MODEL,
    ChatServer,
    api_entrant,
    completion,
    prompts_named,
    refusal,
    response_terms,
)
from tests.chat_server import complete as complete_entrant
from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.ledger import Ledger
from tournament_assets.responses import entrant_responses
from tournament_assets.responses.api_responses import (
    build_response_requests,
    server_connection,
    service_problems,
)
from tournament_assets.responses.entrant_responses import Wanted
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.places import ServerAddress
from tournament_assets.tournament.prompts import GeneratedResponse

NAMES = [f"p{number:02d}" for number in range(30)]
PROMPTS = prompts_named(*NAMES)
KEY = "sk-served-0123456789"
(ADA,) = prompts_named("ada")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield opened
    opened.close()


def complete(
    chat: ChatServer, ledger: Ledger, *, log: list[str] | None = None, **changes: Any
) -> CompletedResponses:
    return complete_entrant(api_entrant(chat.url, **changes), PROMPTS, ledger, log=log)


def ask(chat: ChatServer, ledger: Ledger, **changes: Any) -> GeneratedResponse:
    """Ask one prompt, and leave out how long that took."""
    entrant = api_entrant(chat.url, **changes)
    (response,) = complete_entrant(
        entrant, [ADA], ledger, environment={"SERVED_KEY": KEY}
    ).responses
    diagnostics = dict(response.diagnostics)
    assert diagnostics.pop("seconds") >= 0
    return GeneratedResponse(
        response.prompt_id,
        response.text,
        response.finish_reason,
        response.prompt_tokens,
        response.response_tokens,
        diagnostics,
    )


def names(completed: CompletedResponses) -> list[str]:
    return [response.prompt_id for response in completed.responses]


def kept(ledger: Ledger) -> int:
    entrant = api_entrant()
    fingerprints = [prompt.fingerprint for prompt in PROMPTS]
    return len(
        ledger.responses(
            entrant.fingerprint(entrant.content_hash), fingerprints, cuts_thoughts=False
        )
    )


def test_no_more_requests_are_under_way_than_allowed(chat: ChatServer, ledger: Ledger) -> None:
    chat.delay = 0.02
    log: list[str] = []
    completed = complete(chat, ledger, log=log, max_concurrency=5)
    assert 1 < chat.peak <= 5
    assert names(completed) == NAMES
    assert (completed.generated, completed.device) == (30, f"tiny behind {chat.url[:-3]}")
    assert log[-1] == "served responds: 30 of 30"
    assert completed.figures["tokens_per_second"] > 0
    assert not ledger.open_scopes("*")


def test_what_is_kept_is_not_asked_again_whoever_asks(chat: ChatServer, ledger: Ledger) -> None:
    complete(chat, ledger)
    chat.forget()
    again = complete(chat, ledger, entrant_id="renamed", max_concurrency=1)
    assert (names(again), again.generated) == (NAMES, 0)
    elsewhere = ServerAddress(env="NOT_SET")
    assert names(complete(chat, ledger, base_url=elsewhere, api_key_env="NOT_SET")) == NAMES
    assert (chat.asked, chat.looks) == ([], 0)
    assert complete(chat, ledger, revision="2").generated == 30


def test_a_reply_whose_reader_was_killed_is_read_by_the_next_run(
    chat: ChatServer, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_anything: object) -> None:
        raise Killed

    chat.fail("", JSONResponse(completion("Yes.", reasoning_content="Hm.")))
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "keep_responses", die)
        with pytest.raises(Killed):
            ask(chat, ledger, strip="think")
    entrant = api_entrant(chat.url, strip="think")
    (response,) = complete_entrant(entrant, [ADA], ledger).responses
    assert (response.text, response.diagnostics["thought"]) == ("Yes.", "Hm.")
    assert response.diagnostics["system_fingerprint"] == "fp_1"
    assert len(chat.asked) == 1


def test_what_fails_is_missing_with_its_reason_and_an_answer_without_a_text_is_final(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("p02", JSONResponse(completion(None, refusal="Rather not.")))
    chat.fail("p05", refusal(500, "broken", retry_after="0"), times=3)
    chat.fail("p07", refusal(422, "too long"))
    completed = complete(chat, ledger, max_retries=2)
    missing = ("p02", "p05", "p07")
    assert names(completed) == [name for name in NAMES if name not in missing]
    assert sorted(completed.reasons) == sorted(missing)
    assert re.search(r"filter.*'Rather not\.'", completed.reasons["p02"])
    assert completed.reasons["p05"].endswith("answered 500: broken")
    assert completed.reasons["p07"].endswith("answered 422: too long")
    again = complete(chat, ledger)
    assert (again.generated, list(again.reasons)) == (2, ["p02"])
    chat.forget()
    assert complete(chat, ledger, base_url=ServerAddress(env="NOT_SET")).generated == 0


def test_credit_that_runs_dry_stops_an_entrant_and_the_rest_is_asked_the_next_time(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("p07", refusal(400, "Your credit balance is too low to access the service."))
    with pytest.raises(GenerationError, match=r"credit balance .* add credit"):
        complete(chat, ledger, max_concurrency=1)
    n_asked = len(chat.asked)
    assert n_asked < len(NAMES)
    assert names(complete(chat, ledger)) == NAMES
    assert len(chat.asked) == len(NAMES) + 1


def test_a_server_that_refuses_everything_is_soon_left_alone(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("", refusal(400, "not today"), times=30)
    with pytest.raises(GenerationError, match=r"last 8 .* not today"):
        complete(chat, ledger, max_concurrency=2)
    assert len(chat.asked) <= 10


def test_prompts_that_a_server_refuses_for_ever_do_not_stop_a_later_run(
    chat: ChatServer, ledger: Ledger
) -> None:
    for name in NAMES[1:]:
        chat.fail(name, refusal(400, "too long"), times=2)
    for generated in (1, 0, 29):
        completed = complete(chat, ledger, max_concurrency=2)
        assert completed.generated == generated


def test_a_server_without_an_address_is_input_to_correct(chat: ChatServer, ledger: Ledger) -> None:
    with pytest.raises(InputError, match="NOT_SET"):
        complete(chat, ledger, base_url=ServerAddress(env="NOT_SET"))


def test_problems_of_a_server_are_found_without_asking_it(chat: ChatServer, ledger: Ledger) -> None:
    def problems(url: str, **changes: Any) -> list[str]:
        return [
            *service_problems(
                api_entrant(url, **changes),
                PROMPTS,
                ledger=ledger,
                environment={},
                terms=response_terms(),
            )
        ]

    assert problems(chat.url) == []
    (problem,) = problems("http://127.0.0.1:1/v1")
    assert problem.startswith("entrant 'served': ")
    (problem,) = problems(chat.url, api_key_env="NOT_SET")
    assert "NOT_SET" in problem
    assert not chat.asked
    complete(chat, ledger)
    assert problems("http://127.0.0.1:1/v1") == []


def test_greedy_decoding_is_asked_for_with_the_prompts_own_seed(
    chat: ChatServer, ledger: Ledger
) -> None:
    assert ask(chat, ledger) == GeneratedResponse(
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
        "max_tokens": 64,
        "seed": prompt_seed("ada"),
        "temperature": 0.0,
    }


def test_every_setting_is_in_the_request(chat: ChatServer, ledger: Ledger) -> None:
    ask(chat, ledger, temperature=0.7, system_prompt="Be brief.")
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    ask(chat, ledger, temperature=0.7, top_p=0.9, stop=("###",), seed=3, extra_body=extra)
    whole, narrow = (asked.body for asked in chat.asked)
    # From the whole distribution, unless the entrant says otherwise.
    assert (whole["temperature"], whole["top_p"]) == (0.7, 1.0)
    assert whole["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (narrow["top_p"], narrow["stop"]) == (0.9, ["###"])
    assert narrow["seed"] == prompt_seed("ada", 3) != prompt_seed("ada")
    assert {name: narrow[name] for name in extra} == extra


def test_the_key_of_a_request_is_that_of_the_entrant_and_the_prompt() -> None:
    (key,) = build_response_requests(api_entrant(), [ADA])
    assert key == "f18e05eb496b2dd365a2ba3335719f17c771d20f66194fa8d9859d19c29d21b4"
    moved = api_entrant("http://elsewhere:8000/v1", max_tokens_field="max_tokens")
    assert list(build_response_requests(moved, [ADA])) == [key]
    assert list(build_response_requests(api_entrant(seed=3), [ADA])) != [key]


def test_a_name_of_the_cap_that_is_given_is_the_only_one_tried(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("", refusal(400, "no max_completion_tokens"))
    with pytest.raises(GenerationError, match="no max_completion_tokens"):
        ask(chat, ledger, max_tokens_field="max_completion_tokens")
    (asked,) = chat.asked
    assert asked.body["max_completion_tokens"] == 64
    assert "max_tokens" not in asked.body


def _openai(param: str, words: str) -> Response:
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": "x"}
    return JSONResponse({"error": error}, 400)


def o_series(body: Mapping[str, Any]) -> Response | None:
    """https://github.com/openai/openai-python/issues/2072"""
    for name, instead in (("max_tokens", " Use 'max_completion_tokens' instead."), ("top_p", "")):
        if name in body:
            words = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
            return _openai(name, words)
    if body.get("temperature", 1) != 1:
        return _openai("temperature", "Unsupported value: 'temperature' does not support 0.0.")
    return None


def mistral(body: Mapping[str, Any]) -> Response | None:
    """https://github.com/mistralai/platform-docs-public/issues/7"""
    if "seed" not in body:
        return None
    problem = {
        "type": "extra_forbidden",
        "loc": ["body", "seed"],
        "msg": "Extra inputs are not permitted",
        "input": {"temperature": 0, "max_tokens": 64},
    }
    return JSONResponse({"object": "error", "message": {"detail": [problem]}}, 422)


def gemini(body: Mapping[str, Any]) -> Response | None:
    """https://github.com/Vali-98/ChatterUI/issues/227"""
    if "seed" not in body:
        return None
    words = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
    return JSONResponse([{"error": {"code": 400, "message": words, "status": "INVALID"}}], 400)


def claude_behind_a_gateway(body: Mapping[str, Any]) -> Response | None:
    """https://github.com/langfuse/langfuse/issues/9882"""
    if {"temperature", "top_p"} <= body.keys():
        return refusal(400, "`temperature` and `top_p` cannot both be specified for this model.")
    return refusal(400, "seed: Extra inputs are not permitted") if "seed" in body else None


@pytest.mark.parametrize(
    ("server", "given", "not_sent", "n_refused"),
    [
        # A cap's other name is used at once; a field is left out when it is refused twice.
        (o_series, {}, ["temperature"], 3),
        (mistral, {}, ["seed"], 2),
        (gemini, {}, ["seed"], 2),
        (claude_behind_a_gateway, {"temperature": 0.7}, ["seed", "top_p"], 4),
    ],
)
def test_what_the_config_does_not_ask_for_is_left_out_where_a_server_refuses_it(
    chat: ChatServer,
    ledger: Ledger,
    server: Callable[[dict[str, Any]], Response | None],
    given: dict[str, Any],
    not_sent: list[str],
    n_refused: int,
) -> None:
    chat.refuses = server
    completed = complete(chat, ledger, max_concurrency=2, **given)
    assert names(completed) == NAMES
    assert len(chat.asked) == len(NAMES) + n_refused
    for response in completed.responses:
        assert response.diagnostics["not_sent"] == not_sent
        assert ("seed" in response.diagnostics) is ("seed" not in not_sent)
    other, warning = completed.warnings
    assert f"{len(NAMES)} of {len(NAMES)} " in other
    assert completed.figures["answered_by"] == other
    assert f"refuses {' and '.join(not_sent)}" in warning


@pytest.mark.parametrize(
    ("server", "given", "named"),
    [
        (o_series, {"temperature": 0.7}, "temperature"),
        (o_series, {"temperature": 1.0, "top_p": 0.9}, "top_p"),
        (mistral, {"seed": 1}, "seed"),
        (claude_behind_a_gateway, {"temperature": 0.7, "top_p": 0.9}, "temperature and top_p"),
    ],
)
def test_what_the_config_asks_for_is_refused_by_name_at_once(
    chat: ChatServer,
    ledger: Ledger,
    server: Callable[[dict[str, Any]], Response | None],
    given: dict[str, Any],
    named: str,
) -> None:
    chat.refuses = server
    with pytest.raises(GenerationError, match=f"asks for {named}: remove it there"):
        complete(chat, ledger, **given)
    assert len(chat.asked) <= 4


def test_a_refusal_of_one_prompt_that_names_fields_takes_nothing_from_the_others(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("p07", refusal(400, "seed, temperature and stop are words of p07"), times=3)
    completed = complete(chat, ledger, stop=("###",), max_concurrency=1)
    assert [*completed.reasons] == ["p07"]
    assert {"seed", "temperature", "stop"} <= chat.asked[-1].body.keys()
    assert completed.warnings == [completed.figures["answered_by"]]


def test_a_thought_is_kept_beside_the_response_wherever_the_server_puts_it(
    chat: ChatServer, ledger: Ledger
) -> None:
    inside = completion("<think>Hm.</think>Yes.")
    for number, answer in enumerate((inside, completion("Yes.", reasoning_content="Hm."))):
        chat.fail("", JSONResponse(answer))
        response = ask(chat, ledger, strip="think", revision=str(number))
        assert response.text == "Yes."
        told = (response.diagnostics["thought"], response.diagnostics["thought_words"])
        assert told == ("Hm.", 1)
    chat.fail("", JSONResponse(inside))
    assert ask(chat, ledger).text == "<think>Hm.</think>Yes."


def _cut_off(content: str | None, n_thought: int = 0, **message: Any) -> Response:
    answer = completion(content, "length", **message)
    details = {"completion_tokens_details": {"reasoning_tokens": n_thought}}
    return JSONResponse({**answer, "usage": {**answer["usage"], **details}})


@pytest.mark.parametrize(
    "answer",
    [
        _cut_off(None, reasoning_content="Hm."),  # https://github.com/vllm-project/vllm/pull/43757
        _cut_off("", reasoning="Hm."),
        _cut_off("<think>Hm."),
        # https://github.com/vllm-project/vllm/issues/35296
        _cut_off("Hm.", n_thought=5),
    ],
)
def test_a_thought_that_the_cap_cut_off_is_an_empty_response_whatever_its_form(
    chat: ChatServer, ledger: Ledger, answer: Response
) -> None:
    chat.fail("", answer)
    response = ask(chat, ledger, strip="think")
    assert (response.text, response.finish_reason) == ("", "length")
    assert response.diagnostics["thought"] == "Hm."
    chat.fail("", _cut_off("Yes, be", n_thought=2))
    assert ask(chat, ledger, strip="think", revision="2").text == "Yes, be"


@pytest.mark.parametrize(
    ("said", "finish_reason"),
    [("stop", "stop"), ("length", "length"), ("eos", "stop"), (None, "recorded"), ("x", "other")],
)
def test_how_a_response_ended_is_kept(
    chat: ChatServer, ledger: Ledger, said: str, finish_reason: str
) -> None:
    chat.fail("", JSONResponse(completion(" Yes. \n", said)))
    response = ask(chat, ledger)
    assert (response.text, response.finish_reason) == ("Yes.", finish_reason)


@pytest.mark.parametrize(
    ("content", "strip", "text", "thought"),
    [
        ([{"type": "text", "text": "Yes."}], None, "Yes.", None),
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Yes."},
            ],
            "think",
            "Yes.",
            "Hm.",
        ),
        ("[THINK]Hm.[/THINK]Yes.", "think", "Yes.", "Hm."),
        ("<seed:think>Hm.</seed:think>Yes.", None, "<seed:think>Hm.</seed:think>Yes.", None),
    ],
)
def test_parts_and_thoughts_are_read_whatever_their_form(
    chat: ChatServer, ledger: Ledger, content: object, strip: str | None, text: str, thought: object
) -> None:
    chat.fail("", JSONResponse(completion(content)))
    response = ask(chat, ledger, strip=strip)
    assert (response.text, response.diagnostics.get("thought")) == (text, thought)


def test_what_is_kept_whole_is_read_as_the_config_says_today(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("", JSONResponse(completion("[THINK]Hm.[/THINK]Yes.")))
    assert ask(chat, ledger).text == "[THINK]Hm.[/THINK]Yes."
    cut = ask(chat, ledger, strip="think")
    assert (cut.text, cut.diagnostics["thought"]) == ("Yes.", "Hm.")
    assert ask(chat, ledger).text == "[THINK]Hm.[/THINK]Yes."
    assert len(chat.asked) == 1


@pytest.mark.parametrize("end", ["error", "abort"])
def test_an_answer_that_the_server_broke_off_is_asked_for_again(
    chat: ChatServer, ledger: Ledger, end: str
) -> None:
    chat.fail("", JSONResponse(completion("Yes, be", end)))
    assert ask(chat, ledger).text.startswith("Answer to")
    assert len(chat.asked) == 2


def answer_plainly(entrant: object, task: Wanted) -> CompletedResponses:
    texts = [
        GeneratedResponse(each.prompt_id, "<think>a</think>b", "stop") for each in task.prompts
    ]
    return CompletedResponses(texts, generated=len(texts), device="nowhere")


def test_strip_works_for_a_loader_that_knows_nothing_of_it(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    entrant = api_entrant(chat.url, strip="think", temperature=0.5)
    row = SimpleNamespace(answer=f"{__name__}:answer_plainly")
    monkeypatch.setattr(entrant_responses, "loader_of", lambda _: row)
    task = SimpleNamespace(prompts=PROMPTS[:2])
    answered = entrant_responses.answer_prompts(entrant, cast("Wanted", task))
    assert [(each.text, each.diagnostics["thought"]) for each in answered.responses] == [
        ("b", "a")
    ] * 2


def test_tokens_that_nobody_counted_stay_unknown(chat: ChatServer, ledger: Ledger) -> None:
    chat.fail("", JSONResponse({**completion("Yes."), "usage": None, "model": None}))
    response = ask(chat, ledger)
    assert (response.prompt_tokens, response.response_tokens) == (None, None)
    assert dict(response.diagnostics) == {
        "seed": prompt_seed("ada"),
        "system_fingerprint": "fp_1",
    }


def test_an_empty_response_is_what_the_model_said(chat: ChatServer, ledger: Ledger) -> None:
    chat.fail("", JSONResponse(completion("")))
    assert ask(chat, ledger).text == ""


@pytest.mark.parametrize("escape", ["\\ud800", "\\u0000"])
def test_what_no_database_holds_is_replaced(chat: ChatServer, ledger: Ledger, escape: str) -> None:
    content = f'{{"choices": [{{"message": {{"content": "a{escape}b"}}}}]}}'
    chat.fail("", PlainTextResponse(content))
    assert ask(chat, ledger).text == "a\N{REPLACEMENT CHARACTER}b"


def test_a_server_that_takes_too_long_may_be_busy(chat: ChatServer, ledger: Ledger) -> None:
    chat.delay = 1.0
    with pytest.raises(GenerationError, match="APITimeoutError"):
        ask(chat, ledger, timeout_seconds=0.1, max_retries=1)
    assert len(chat.asked) == 2


def test_the_key_goes_into_the_header_and_into_no_message(chat: ChatServer, ledger: Ledger) -> None:
    chat.key = KEY
    ask(chat, ledger, api_key_env="SERVED_KEY")
    assert chat.asked[0].headers["authorization"] == f"Bearer {KEY}"
    # Where the text is cut, half a key would no longer be recognised.
    for number, padding in enumerate(("", "x" * 480)):
        chat.fail("", refusal(400, f"{padding} bad key {KEY}"))
        with pytest.raises(GenerationError) as caught:
            ask(chat, ledger, api_key_env="SERVED_KEY", revision=str(number))
        assert "sk-served" not in str(caught.value)
    chat.fail("", JSONResponse(completion(f"The key is {KEY}.")))
    said = ask(chat, ledger, api_key_env="SERVED_KEY", revision="3")
    assert said.text == "The key is [key]."
    connection = server_connection(
        api_entrant(chat.url, api_key_env="SERVED_KEY"), {"SERVED_KEY": KEY}
    )
    assert KEY not in repr(connection)


def test_everything_that_is_missing_in_the_environment_is_named() -> None:
    entrant = api_entrant(base_url=ServerAddress(env="SERVED_URL"), api_key_env="SERVED_KEY")
    with pytest.raises(InputError) as caught:
        server_connection(entrant, {"SERVED_KEY": " "})
    first, second = caught.value.problems
    assert "SERVED_URL" in first
    assert "SERVED_KEY" in second


@pytest.mark.parametrize("url", ["http://u:hidden@h/v1", "h:8000/v1", "http://h/v1?key=hidden"])
def test_an_address_from_the_environment_is_checked_and_no_secret_in_it_shown(url: str) -> None:
    entrant = api_entrant(base_url=ServerAddress(env="SERVED_URL"))
    with pytest.raises(InputError, match="SERVED_URL:") as caught:
        server_connection(entrant, {"SERVED_URL": url})
    assert "hidden" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    with pytest.raises(InputError, match="SERVED_KEY") as caught:
        server_connection(api_entrant(api_key_env="SERVED_KEY"), {"SERVED_KEY": "schlüssel"})
    assert "schl" not in str(caught.value)


def test_a_header_and_a_query_change_no_fingerprint() -> None:
    plain = api_entrant()
    other = api_entrant(headers={"x-team": "blue"}, query={"api-version": "2024-10-21"})
    assert other.fingerprint(other.content_hash) == plain.fingerprint(plain.content_hash)
