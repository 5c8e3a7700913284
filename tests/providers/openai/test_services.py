import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.chat_server import DROP, MODEL, ChatServer, completion, refusal
from tests.judging.builders import SETTINGS, requests_for
from tests.loopback.builders import judge_params
from tests.loopback.threaded_servers import LoopbackServer
from tests.providers.scripted_service import Script, run_script
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    MessageParams,
    ReplyRow,
    SubmittedRequest,
    TokenUsage,
    takes_batches,
)
from tournament_assets.judging.requests.verdict_parsing import output_config
from tournament_assets.providers.openai import services as adapter
from tournament_assets.providers.openai.services import OpenAiBatches, OpenAiChat, open_chat
from tournament_assets.providers.openai.wire_format import NEW_CAP
from tournament_assets.providers.openers import JudgeConnection, judge_problems
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.judges import Judge

KEY = "sk-judge-0123456789"


@contextmanager
def judge(url: str, key: str = "") -> Iterator[OpenAiChat]:
    with open_chat(ServiceConnection(key, url, Path("unused"), "MY_KEY")) as service:
        yield service


def params(**changes: Any) -> Any:
    (request, _) = requests_for(1, settings=SETTINGS)
    return {**request.params, **changes}


def ask(chat: ChatServer, asked: MessageParams | None = None, *, key: str = "") -> ReplyRow:
    with judge(chat.url, key) as service:
        return service.ask_directly(SubmittedRequest("ours", asked or params()))


def failure_of(chat: ChatServer, answer: Response) -> JudgeError:
    chat.fail("", answer, times=5)
    with pytest.raises(JudgeError) as caught:
        ask(chat)
    return caught.value


def test_the_system_text_the_cap_and_nothing_else_is_sent(chat: ChatServer) -> None:
    asked = params()
    ask(chat, asked)
    (sent,) = chat.asked
    assert sent.body == {
        "model": "judge-1",
        "messages": [
            {"role": "system", "content": asked["system"][0]["text"]},
            {"role": "user", "content": asked["messages"][0]["content"]},
        ],
        "max_tokens": 1024,
    }
    assert "authorization" not in sent.headers


def test_a_temperature_and_a_schema_are_sent_if_they_are_asked_for(chat: ChatServer) -> None:
    config: Any = output_config()
    ask(chat, params(temperature=0.0, output_config=config), key=KEY)
    (sent,) = chat.asked
    assert sent.body["temperature"] == 0.0
    wanted = sent.body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["strict"]) == ("json_schema", True)
    assert wanted["json_schema"]["schema"] == config["format"]["schema"]
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("words", "name", "dropped", "n_refused"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", NEW_CAP, "", 1),
        # Twice, since the fault might have passed.
        ("response_format: json_schema is not supported", "max_tokens", "response_format", 2),
    ],
)
def test_words_that_a_server_refuses_are_not_used_again(
    chat: ChatServer, words: str, name: str, dropped: str, n_refused: int
) -> None:
    chat.fail("", refusal(400, words), times=n_refused)
    asked = params(output_config=output_config())
    with judge(chat.url) as service:
        for _ in range(2):
            service.ask_directly(SubmittedRequest("ours", asked))
    assert len(chat.asked) == n_refused + 2
    for sent in chat.asked[n_refused:]:
        assert sent.body[name] == 1024
        assert dropped not in sent.body


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("STOP", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "tool_use"),
        ("a_reason_of_tomorrow", "a_reason_of_tomorrow"),
    ],
)
def test_how_a_reply_ended_is_told_in_the_words_of_all_judges(
    chat: ChatServer, said: str, meant: str
) -> None:
    chat.fail("", JSONResponse(completion("VERDICT: A", said)))
    row = ask(chat)
    assert (row.custom_id, row.result_type, row.stop_reason) == ("ours", "succeeded", meant)
    assert (row.text, row.model) == ("VERDICT: A", "tiny-as-served")


def test_a_refusal_is_a_refusal_however_it_ended(chat: ChatServer) -> None:
    chat.fail("", JSONResponse(completion(None, "stop", refusal="I will not judge.")))
    assert ask(chat).stop_reason == "refusal"


@pytest.mark.parametrize(
    ("details", "usage"),
    [
        ({"cached_tokens": 512}, TokenUsage(188, 40, 0, 512)),
        ({"cache_write_tokens": 600}, TokenUsage(100, 40, 600, 0)),
        ({"cached_tokens": 512, "cache_write_tokens": 128}, TokenUsage(60, 40, 128, 512)),
        ({"cached_tokens": 512, "cache_write_tokens": 600}, TokenUsage(0, 40, 188, 512)),
    ],
)
def test_tokens_read_from_and_written_to_the_cache_are_told_from_others(
    chat: ChatServer, details: dict[str, int], usage: TokenUsage
) -> None:
    chat.usage = {
        "prompt_tokens": 700,
        "completion_tokens": 40,
        "prompt_tokens_details": details,
    }
    assert ask(chat).usage == usage
    chat.usage = None
    assert ask(chat).usage is None


def test_what_no_database_holds_is_replaced_and_the_rest_is_kept_verbatim(chat: ChatServer) -> None:
    body = json.dumps(completion("a\x00b \ud83d VERDICT"))
    chat.fail("", Response(body, media_type="application/json"))
    row = ask(chat)
    assert row.text == "a\N{REPLACEMENT CHARACTER}b \N{REPLACEMENT CHARACTER} VERDICT"
    assert json.loads(row.raw)["object"] == "chat.completion"
    row.raw.encode()


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (refusal(401), JudgeFailure.FATAL),
        (refusal(402), JudgeFailure.FATAL),
        (refusal(403), JudgeFailure.FATAL),
        (refusal(404, "no such model"), JudgeFailure.UNKNOWN),
        (refusal(405), JudgeFailure.FATAL),
        (refusal(400, "too long"), JudgeFailure.INVALID),
        (refusal(422), JudgeFailure.INVALID),
        (refusal(413), JudgeFailure.TOO_LARGE),
        (refusal(425), JudgeFailure.NOT_ACCEPTED),
        (refusal(429), JudgeFailure.NOT_ACCEPTED),
        (refusal(429, code="insufficient_quota"), JudgeFailure.FATAL),
        (refusal(500), JudgeFailure.AMBIGUOUS),
        (refusal(503), JudgeFailure.AMBIGUOUS),
        (DROP, JudgeFailure.AMBIGUOUS),
        (JSONResponse({"object": "list"}), JudgeFailure.AMBIGUOUS),
        (PlainTextResponse("<html>502</html>"), JudgeFailure.AMBIGUOUS),
        (Response(status_code=307, headers={"location": "http://x.example/"}), JudgeFailure.FATAL),
    ],
)
def test_a_failure_says_what_is_done_next(
    chat: ChatServer, answer: Response, failure: JudgeFailure
) -> None:
    assert failure_of(chat, answer).failure is failure
    assert len(chat.asked) == 1


def test_nobody_there_is_certainly_no_answer() -> None:
    with judge("http://127.0.0.1:1/v1") as service, pytest.raises(JudgeError) as caught:
        service.ask_directly(SubmittedRequest("ours", params()))
    assert caught.value.failure is JudgeFailure.NOT_ACCEPTED
    assert "http://127.0.0.1:1" in str(caught.value)


def test_the_key_is_in_no_message(chat: ChatServer) -> None:
    chat.fail("", refusal(400, f"the key {KEY} is odd"))
    with judge(chat.url, KEY) as service:
        with pytest.raises(JudgeError) as caught:
            service.ask_directly(SubmittedRequest("ours", params()))
        assert KEY not in f"{caught.value}{service!r}"
        assert caught.value.__cause__ is None


def test_a_server_that_refuses_both_names_of_the_cap_is_asked_twice(chat: ChatServer) -> None:
    chat.fail("", *(refusal(400, f"no '{name}'") for name in ("max_tokens", NEW_CAP)))
    with pytest.raises(JudgeError, match=NEW_CAP):
        ask(chat)
    assert len(chat.asked) == 2


def test_a_setting_of_the_judge_that_a_model_refuses_is_named_with_what_to_do(
    chat: ChatServer,
) -> None:
    words = "Unsupported value: 'temperature' does not support 0.0 with this model."
    chat.refuses = lambda body: refusal(400, words) if "temperature" in body else None
    asked = SubmittedRequest("ours", params(temperature=0.0))
    with judge(chat.url) as service:
        with pytest.raises(JudgeError, match="asks for temperature: remove it there") as caught:
            service.ask_directly(asked)
        assert caught.value.failure is JudgeFailure.FATAL
        service.ask_directly(SubmittedRequest("ours", params()))
        # Once a request like it was answered, a refusal concerns one request.
        with pytest.raises(JudgeError, match="remove it there") as caught:
            service.ask_directly(asked)
        assert caught.value.failure is JudgeFailure.INVALID
    # Before a batch, settlement asks a few others to see whether it refuses them as well.
    with closing(connect(chat.url.removesuffix("/v1"))) as batches:
        with pytest.raises(JudgeError, match="remove it there") as caught:
            batches.ask_directly(asked)
        assert caught.value.failure is JudgeFailure.INVALID
    assert len(chat.asked) == 4


@pytest.mark.parametrize(
    ("given", "sent", "named"),
    [
        ({"output_config": {"effort": "low"}}, "reasoning_effort", "effort"),
        ({"extra_body": {"top_k": 5}}, "top_k", "extra_body.top_k"),
    ],
)
def test_an_effort_or_a_further_field_that_a_model_refuses_is_named_as_in_the_config(
    chat: ChatServer, given: dict[str, Any], sent: str, named: str
) -> None:
    words = f"Unrecognized request argument supplied: {sent}"
    chat.refuses = lambda body: refusal(400, words) if sent in body else None
    with pytest.raises(JudgeError, match=f"asks for {named}: remove it there"):
        ask(chat, params(**given))
    assert len(chat.asked) == 1


def test_each_of_two_models_behind_one_door_is_asked_in_its_own_words(chat: ChatServer) -> None:
    refused = {"old": NEW_CAP, "new": "max_tokens"}
    chat.refuses = lambda body: (
        refusal(400, f"Unsupported parameter: '{refused[body['model']]}'")
        if refused[body["model"]] in body
        else None
    )
    with judge(chat.url) as service:
        for model in ("new", "old") * 3:
            service.ask_directly(SubmittedRequest("ours", params(model=model)))
    assert len(chat.asked) == 7


def test_a_batch_is_written_in_the_words_that_a_direct_request_has_found(script: Script) -> None:
    created = JSONResponse({"id": "b1", "status": "validating"})
    answer = JSONResponse(completion("VERDICT: A"))
    no_cap = refusal(400, f"Unsupported parameter: '{NEW_CAP}'")
    no_schema = refusal(400, "response_format is not supported")
    asked = SubmittedRequest("ours", params(output_config=output_config()))
    row = script.give(no_cap, no_schema, no_schema, answer, UPLOADED, created).ask_directly(asked)
    assert json.loads(row.raw)["tournament_not_sent"] == ["response_format"]
    script.service.create_batch([asked])
    named = json.loads(script.asked[5].body)["metadata"]["tournament_not_sent"]
    assert named == "response_format"
    line = next(each for each in script.asked[4].body.splitlines() if each.startswith(b'{"body'))
    body = json.loads(line)["body"]
    assert body.keys() == {"max_tokens", "messages", "model"}


PROMPT = "Does 'seed' or temperature matter in llama.cpp, or is response_format enough?"


@pytest.mark.parametrize(
    "words",
    [
        f"cannot parse: {PROMPT}",
        f"cannot parse: {PROMPT!r}",
        f"cannot parse: {json.dumps(json.dumps(PROMPT))}",
        f"cannot parse: …{PROMPT[8:-3]}…",
        'bad body: {"model": "tiny", "response_format": {"type": "json_schema"}, "seed": 1}',
        "bad body: {'model': 'tiny', 'response_format': {...}, 'seed': 1}",
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_refusal_that_quotes_the_request_refuses_no_field(
    chat: ChatServer, words: str, times: int
) -> None:
    chat.fail("", *[refusal(400, words)] * times)
    asked = params(
        output_config=output_config(), seed=1, messages=[{"role": "user", "content": PROMPT}]
    )
    with judge(chat.url) as service:
        with pytest.raises(JudgeError) as caught:
            service.ask_directly(SubmittedRequest("ours", asked))
        assert (caught.value.failure, caught.value.fields) == (JudgeFailure.INVALID, frozenset())
    assert len(chat.asked) == 1


def test_a_fault_that_passes_is_no_refusal_of_the_field_that_it_names(chat: ChatServer) -> None:
    chat.fail("", refusal(400, "response_format is not supported"))
    with judge(chat.url) as service:
        for _ in range(2):
            request = SubmittedRequest("ours", params(output_config=output_config()))
            row = service.ask_directly(request)
            assert "tournament_not_sent" not in json.loads(row.raw)
    assert ["response_format" in sent.body for sent in chat.asked] == [True] * 3


@pytest.mark.parametrize(("said", "seconds"), [("2.5", 2.5), ("-1", None), ("soon", None)])
def test_the_wait_that_a_server_asks_for_is_read(
    chat: ChatServer, said: str, seconds: float | None
) -> None:
    assert failure_of(chat, refusal(429, retry_after=said)).retry_after_seconds == seconds


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
    ask(chat, key=KEY)
    without, with_key = (asked.headers for asked in chat.asked)
    assert "authorization" not in without
    assert with_key["authorization"] == f"Bearer {KEY}"
    assert "sk-other" not in str([without, with_key])
    assert not [name for name in without if name.startswith("x-")]


def check(chat: ChatServer, model: str = MODEL, key: str = "") -> str | None:
    with judge(chat.url, key) as service:
        return service.check_model(model)


def test_a_model_that_a_server_does_not_have_is_told_with_those_that_it_has(
    chat: ChatServer,
) -> None:
    assert check(chat) is None
    assert re.search(r"\b404\b.*'big'.*lists 'tiny'$", check(chat, "big") or "")


@pytest.mark.parametrize(
    "answer", [refusal(500), refusal(404), refusal(403), PlainTextResponse("Hello")]
)
def test_a_server_that_lists_no_models_is_asked_all_the_same(
    chat: ChatServer, answer: Response
) -> None:
    chat.models = answer
    assert "127.0.0.1" in (check(chat) or "")


def test_a_key_that_is_refused_is_noticed_before_anything_is_asked(chat: ChatServer) -> None:
    chat.key = "another"
    with pytest.raises(JudgeError, match=r"401: .*'Bearer \[key\]'") as caught:
        check(chat, key=KEY)
    assert caught.value.failure is JudgeFailure.FATAL
    assert not chat.asked


def test_only_a_service_that_takes_batches_has_methods_for_them(chat: ChatServer) -> None:
    with judge(chat.url) as service:
        assert not takes_batches(service)
    with closing(connect(chat.url)) as batches:
        assert takes_batches(batches)


UPLOADED = JSONResponse({"id": "file-1"})


def connect(url: str) -> OpenAiBatches:
    return OpenAiBatches(ServiceConnection("any", f"{url}/v1", Path("unused"), "MY_KEY"))


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    with run_script(connect) as running:
        yield running


def requests(n: int) -> list[SubmittedRequest]:
    return [SubmittedRequest(f"request-{number}", judge_params()) for number in range(n)]


def create(service: OpenAiBatches) -> object:
    return service.create_batch(requests(1))


def look(service: OpenAiBatches) -> object:
    return service.get_batch("b1")


def read_list(service: OpenAiBatches) -> object:
    return list(service.list_batches())


def fail(script: Script, task: Callable[[Any], object], *answers: Response) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        task(script.give(*answers))
    return caught.value


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_all_pages_of_the_list_come_newest_first(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_PAGE", size)
    with LoopbackServer(tmp_path) as server, closing(connect(server.url)) as service:
        ids = [service.create_batch(requests(n)).batch_id for n in (1, 2, 3, 4, 5)]
        listed = list(service.list_batches())
    assert [each.batch_id for each in listed] == ids[::-1]
    assert [each.n_requests for each in listed] == [5, 4, 3, 2, 1]


def test_a_list_that_never_ends_is_said(script: Script) -> None:
    row = {"id": "b1", "status": "completed", "request_counts": {"total": 1}}
    again = [JSONResponse({"data": [row], "has_more": True}) for _ in range(3)]
    said = str(fail(script, read_list, *again))
    assert "2 pages and goes on after 'b1'; expected a list that ends" in said


@pytest.mark.parametrize(
    "answer",
    [
        {"has_more": False},
        {"data": "b1", "has_more": False},
        {"data": [], "has_more": True},
        {"data": [{"status": "completed"}], "has_more": True},
    ],
)
def test_half_a_list_is_worse_than_none(script: Script, answer: dict[str, Any]) -> None:
    assert fail(script, read_list, JSONResponse(answer)).failure is JudgeFailure.TRANSIENT


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"error": {"message": "no"}}, status_code=500),
        JSONResponse({"object": "file"}),
        Response("<html>", media_type="text/html"),
    ],
)
def test_a_file_that_was_not_taken_in_is_surely_no_batch(script: Script, answer: Response) -> None:
    error = fail(script, create, answer)
    assert error.failure is JudgeFailure.NOT_ACCEPTED
    assert {asked.path for asked in script.asked} == {"/v1/files"}


def test_a_batch_without_a_name_may_have_been_accepted(script: Script) -> None:
    error = fail(script, create, UPLOADED, JSONResponse({"object": "batch"}))
    assert error.failure is JudgeFailure.AMBIGUOUS
    assert fail(script, look, JSONResponse({})).failure is JudgeFailure.TRANSIENT


def test_a_batch_that_cannot_be_written_to_a_file_is_not_sent(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    error = fail(script, create, UPLOADED)
    assert error.failure is JudgeFailure.FATAL
    assert script.asked == []


def test_results_whose_file_is_gone_are_lost(script: Script) -> None:
    ended = {"id": "b1", "status": "completed", "output_file_id": "file-2"}
    gone = JSONResponse({"error": {"message": "no such file"}}, status_code=404)

    def read(service: OpenAiBatches) -> object:
        return list(service.iterate_results("b1"))

    assert fail(script, read, JSONResponse(ended), gone).failure is JudgeFailure.LOST
    begun = JSONResponse({"id": "b1", "status": "in_progress"})
    assert fail(script, read, begun).failure is JudgeFailure.TRANSIENT


def test_what_a_batch_had_to_do_without_is_kept_with_its_replies(script: Script) -> None:
    metadata = {"tournament_not_sent": "response_format,seed"}
    ended = {"id": "b1", "status": "completed", "output_file_id": "file-2", "metadata": metadata}
    answer = {"status_code": 200, "body": completion("VERDICT: A")}
    line = json.dumps({"custom_id": "r1", "response": answer, "error": None}) + "\n"
    (row,) = script.give(JSONResponse(ended), PlainTextResponse(line)).iterate_results("b1")
    assert json.loads(row.raw)["tournament_not_sent"] == ["response_format", "seed"]


def test_a_row_that_repeats_the_key_is_read_without_it() -> None:
    body = {"error": {"code": "invalid_api_key", "message": f"bad key\n{' '.join(KEY)}"}}
    row = {"custom_id": "r1", "response": {"status_code": 400, "body": body}, "error": None}
    ended = {"id": "b1", "status": "completed", "error_file_id": "file-3"}

    def connect_with_key(url: str) -> OpenAiBatches:
        return OpenAiBatches(ServiceConnection(KEY, f"{url}/v1", Path("unused"), "MY_KEY"))

    with run_script(connect_with_key) as script:
        service = script.give(JSONResponse(ended), PlainTextResponse(json.dumps(row) + "\n"))
        (found,) = service.iterate_results("b1")
    assert found.error_message == "bad key\n[key]"
    assert "0 1 2" not in found.raw
    assert "[key]" in found.raw


def test_headers_and_query_go_with_every_request_and_secrets_into_no_word(
    chat: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    chat.wants = ({"api-key": KEY, "x-team": "blue"}, {"api-version": "2024-10-21"})
    config = Judge.model_validate(
        {
            "service": "openai_api",
            "model": MODEL,
            "base_url": chat.url,
            "headers": {"api-key": {"env": "AZURE_KEY"}, "X-Team": "blue"},
            "query": {"api-version": date(2024, 10, 21)},
        }
    )
    connection = JudgeConnection(Path("unused"), {"AZURE_KEY": f"{KEY}\n"})
    with connection.service(config) as service:
        assert service.check_model(MODEL) is None
        assert isinstance(service, OpenAiChat)
        assert service.list_models() == [MODEL]
        asked = params(model=MODEL)
        assert service.ask_directly(SubmittedRequest("ours", asked)).result_type == "succeeded"
        chat.wants = ({"api-key": "other"}, {})
        with pytest.raises(JudgeError) as caught:
            service.ask_directly(SubmittedRequest("ours", asked))
    assert chat.looks == 1
    for text in (str(caught.value), caplog.text, repr(connection), repr(config)):
        assert KEY not in text
    assert "AZURE_KEY" in judge_problems(config, {})[0]


@pytest.mark.parametrize(
    "additions",
    [
        {"headers": {"api-key": "plain"}},
        {"headers": {"x-any": "sk-0123456789abcdefghijklmn"}},
        {"headers": {"x-any": "Bearer me"}},
        {"headers": {"Host": "elsewhere"}},
        {"headers": {"x-any": "two\nlines"}},
        {"headers": {"x any": "value"}},
        {"query": {"api-key": "plain"}},
        {"query": {"sig": "plain"}},
    ],
)
def test_a_header_that_is_a_secret_or_cannot_be_sent_is_refused_unseen(additions: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Judge.model_validate({"service": "openai_api", "model": MODEL, **additions})
    assert not any(word in str(caught.value) for word in ("plain", "sk-01", "Bearer me"))
