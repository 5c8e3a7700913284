import base64
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from tests.loopback.builders import judge_params, wait_until_ended
from tests.loopback.impostor import Impostor, succeeded
from tests.loopback.threaded_servers import LoopbackServer
from tests.providers.scripted_service import KEY, Script, batch, page, run_script
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    TakesBatches,
    TokenUsage,
)
from tournament_assets.providers.anthropic import message_batches as adapter
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches

SYSTEM = "Judge well. " * 200 + "\n# dimension: factuality\n"
Opener = Callable[..., AnthropicBatches]


def request(number: int = 1, **params: Any) -> SubmittedRequest:
    return SubmittedRequest(f"nonce-{number:02d}", judge_params() | params)


def cached_request(number: int) -> SubmittedRequest:
    params = judge_params(f"It is vitamin D, says {number}.", "It is vitamin C.", system=SYSTEM)
    return SubmittedRequest(f"nonce-{number:02d}", params)


@pytest.fixture
def connect() -> Iterator[Opener]:
    with ExitStack() as stack:

        def open_service(base_url: str | None, api_key: str = KEY) -> AnthropicBatches:
            service = AnthropicBatches(base_url=base_url, api_key=api_key)
            stack.enter_context(closing(service))
            return service

        yield open_service


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    with Impostor() as running:
        yield running


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(processing_seconds=0) as running:
        yield running


@pytest.fixture
def service(server: LoopbackServer) -> Iterator[AnthropicBatches]:
    connected = AnthropicBatches(base_url=server.url, api_key=KEY)
    yield connected
    connected.close()


def rows_of(service: AnthropicBatches, impostor: Impostor, *rows: Any) -> list[ReplyRow]:
    impostor.results = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return list(service.iterate_results("b1"))


def test_thirty_requests_go_and_thirty_replies_come_back(connect: Opener) -> None:
    with LoopbackServer() as server:
        service: TakesBatches = connect(server.url)
        created = service.create_batch([cached_request(number) for number in range(30)])
        assert created == BatchStatus(created.batch_id, False, 30)
        ended = wait_until_ended(service, created.batch_id)
        assert ended == BatchStatus(created.batch_id, True, 30)
        rows = {row.custom_id: row for row in service.iterate_results(created.batch_id)}
        assert sorted(rows) == [f"nonce-{number:02d}" for number in range(30)]
        assert {row.result_type for row in rows.values()} == {"succeeded"}
        assert {row.stop_reason for row in rows.values()} == {"end_turn"}
        assert {row.model for row in rows.values()} == {"claude-opus-5-5"}
        verdicts = [(row.text or "").splitlines()[-1] for row in rows.values()]
        assert verdicts.count("VERDICT: B") >= 25
        usage = sum((row.usage or TokenUsage() for row in rows.values()), TokenUsage())
        prefix_tokens = -(-len(SYSTEM) // 4)
        assert usage.cache_creation_input_tokens == prefix_tokens
        assert usage.cache_read_input_tokens == 29 * prefix_tokens
        assert (server.log.batches, server.log.requests) == (1, 30)
        assert json.loads(rows["nonce-00"].raw)["custom_id"] == "nonce-00"


def test_the_tokens_of_a_request_are_counted_as_they_will_be_billed_and_cost_nothing(
    connect: Opener,
) -> None:
    with LoopbackServer() as server:
        service = connect(server.url)
        counted = service.count_tokens(cached_request(1).params)
        assert (server.log.batches, server.log.messages) == (0, 0)
        usage = service.ask_directly(cached_request(1)).usage
        assert usage is not None
        # The text that is cached and the rest are rounded up by themselves.
        assert 0 <= usage.read_tokens - counted <= 1


def test_a_service_that_does_not_count_is_told_apart(connect: Opener, impostor: Impostor) -> None:
    with pytest.raises(JudgeError, match=r"count.*tokens"):
        connect(impostor.url).count_tokens(request(1).params)


def test_a_known_model_passes(connect: Opener) -> None:
    with LoopbackServer() as server:
        connect(server.url).check_model("claude-opus-5-5")
        assert (server.log.batches, server.log.messages) == (0, 0)


def test_an_unknown_batch_is_an_error(connect: Opener) -> None:
    with LoopbackServer() as server:
        service = connect(server.url)
        with pytest.raises(JudgeError, match=r"msgbatch_x: .* 404"):
            service.get_batch("msgbatch_x")
        with pytest.raises(JudgeError, match=r"results.*msgbatch_x"):
            list(service.iterate_results("msgbatch_x"))


def test_results_before_the_end_are_an_error(connect: Opener) -> None:
    with LoopbackServer(processing_seconds=60) as server:
        service = connect(server.url)
        batch_id = service.create_batch([request(1)]).batch_id
        with pytest.raises(JudgeError, match="'in_progress'"):
            list(service.iterate_results(batch_id))


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (401, "authentication_error", "the API key was refused"),
        (403, "permission_error", "the API key was refused for this"),
        (404, "not_found_error", "not found"),
        (429, "rate_limit_error", "run again in 17 seconds"),
        (500, "api_error", "answered 500 (api_error): it repeats [key]"),
    ],
)
def test_every_refusal_says_what_to_do_and_never_tells_the_key(
    connect: Opener,
    impostor: Impostor,
    caplog: pytest.LogCaptureFixture,
    status: int,
    kind: str,
    sentence: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    # Where the words are cut, half a key would no longer be recognised.
    impostor.refuse(status, kind, f"it repeats {KEY} {'x' * 469}{KEY}", **{"retry-after": "17"})
    service = connect(impostor.url)
    tasks: list[Callable[[], object]] = [
        lambda: service.create_batch([request(1)]),
        lambda: service.get_batch("b1"),
        lambda: list(service.iterate_results("b1")),
    ]
    if status != 404:  # a service need not have that route
        tasks.append(lambda: service.check_model("claude-opus-5-5"))
    for task in tasks:
        with pytest.raises(JudgeError) as caught:
            task()
        assert sentence in str(caught.value)
        assert KEY[:10] not in str(caught.value)
        assert caught.value.__suppress_context__
    assert KEY not in repr(service)
    assert KEY not in caplog.text
    assert impostor.url in repr(service)


def test_a_key_that_ends_in_a_line_end_works_and_a_word_is_said(
    connect: Opener, impostor: Impostor, caplog: pytest.LogCaptureFixture
) -> None:
    service = connect(impostor.url, api_key=f"{KEY}\n")
    assert service._client.api_key == KEY
    assert "ANTHROPIC_API_KEY" in caplog.text


def test_a_missing_key_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(JudgeError, match="ANTHROPIC_API_KEY"):
        AnthropicBatches(base_url="http://127.0.0.1:1", api_key="")


def test_a_service_that_is_not_there_is_named_without_the_key(connect: Opener) -> None:
    service = connect("http://user:password@127.0.0.1:9")
    with pytest.raises(JudgeError) as caught:
        service.create_batch([request(1)])
    assert "http://127.0.0.1:9 (APIConnectionError: [Errno " in str(caught.value)
    assert KEY not in str(caught.value)
    assert "password" not in str(caught.value) + repr(service)


def test_an_html_failure_is_quoted_in_part(connect: Opener, impostor: Impostor) -> None:
    page = "<html>Bad gateway" + "!" * 10_000
    headers = {"x-should-retry": "false"}
    impostor.answers = [PlainTextResponse(page, status_code=502, headers=headers)]
    with pytest.raises(JudgeError, match=r"502 .*Bad gateway") as caught:
        connect(impostor.url).get_batch("b1")
    assert len(str(caught.value)) < 700


def test_a_retired_model_is_refused(connect: Opener, impostor: Impostor) -> None:
    impostor.answers = [JSONResponse({"id": "old", "type": "model", "lifecycle": "retired"})]
    with pytest.raises(JudgeError, match=r"'old'.*retired"):
        connect(impostor.url).check_model("old")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/r", "https://{host}/r", "http://[", "//x/r", "/v1/r", None]
)
def test_results_are_read_below_the_base_url_whatever_a_batch_says(
    connect: Opener, impostor: Impostor, url: str | None
) -> None:
    impostor.results_url = url and url.format(host=impostor.url.removeprefix("http://"))
    impostor.results = json.dumps(succeeded()).encode()
    (row,) = connect(f"{impostor.url}/gateway").iterate_results("b1")
    assert row.custom_id == "r1"
    prefix = "GET /gateway/v1/messages/batches/b1"
    assert impostor.asked == [prefix, f"{prefix}/results"]


def test_no_redirect_is_followed_and_its_secrets_are_not_shown(
    connect: Opener, impostor: Impostor
) -> None:
    with Impostor() as elsewhere:
        target = elsewhere.url.replace("http://", "http://ada:hunter2@") + "/in?token=hunter3"
        impostor.answers = [Response(status_code=307, headers={"location": target})]
        service = connect(impostor.url)
        for ask in (
            lambda: service.create_batch([request(1)]),
            lambda: service.ask_directly(request(1)),
            lambda: list(service.list_batches()),
            lambda: service.get_batch("b1"),
            lambda: list(service.iterate_results("b1")),
            lambda: service.check_model("judge-1"),
        ):
            with pytest.raises(JudgeError, match=f"a redirect to {elsewhere.url};") as caught:
                ask()
            assert caught.value.failure is JudgeFailure.FATAL
            assert "hunter" not in str(caught.value)
        assert elsewhere.asked == []


def test_a_password_in_the_address_is_sent_and_shown_nowhere(
    connect: Opener, impostor: Impostor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with run_script() as script:
        host = str(script.service).split("//")[1].rstrip("')")
        service = connect(f"http://ada:hunter2@{host}")
        script.give(PlainTextResponse("ada said hunter2", 400))
        with pytest.raises(JudgeError) as caught:
            service.get_batch("b1")
        headers = script.asked[0].headers
    assert headers["authorization"] == f"Basic {base64.b64encode(b'ada:hunter2').decode()}"
    assert headers["x-api-key"] == KEY
    for shown in (str(caught.value), repr(service), caplog.text):
        assert "hunter2" not in shown
        assert KEY not in shown


def test_an_address_that_cannot_be_read_is_refused_without_showing_it() -> None:
    with pytest.raises(JudgeError, match="not a URL") as caught:
        AnthropicBatches(base_url="http://ada:hunter2@h:port", api_key=KEY)
    assert "hunter2" not in str(caught.value)


def test_text_blocks_are_joined_and_thinking_is_left_out(
    connect: Opener, impostor: Impostor
) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "text": "VERDICT: B", "signature": "s"},
        {"type": "text", "text": "Short.\n"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "VERDICT: A"},
    ]
    [row] = rows_of(connect(impostor.url), impostor, succeeded(content=content))
    assert row.text == "Short.\nVERDICT: A"


def test_rows_without_a_reply_say_why(connect: Opener, impostor: Impostor) -> None:
    overloaded = {
        "type": "errored",
        "error": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    }
    rows = rows_of(
        connect(impostor.url),
        impostor,
        {"custom_id": "r1", "result": overloaded},
        {"custom_id": "r2", "result": {"type": "expired"}},
        {"custom_id": "r3", "result": {"type": "vaporised", "message": None}},
        succeeded("r4", content=[], stop_reason="refusal"),
    )
    assert [row.result_type for row in rows] == ["errored", "expired", "vaporised", "succeeded"]
    assert (rows[0].error_type, rows[0].error_message) == ("overloaded_error", "busy")
    assert [row.text for row in rows] == [None, None, None, ""]
    assert rows[3].stop_reason == "refusal"
    assert {row.usage for row in rows} == {None}


def test_a_row_is_kept_as_it_was_received(connect: Opener, impostor: Impostor) -> None:
    row = succeeded(usage={"input_tokens": 3, "cache_read_input_tokens": None}, novelty=[1, {}])
    [read] = rows_of(connect(impostor.url), impostor, row)
    assert json.loads(read.raw) == row
    assert read.raw.startswith('{"custom_id":"r1","result":{"message":{"content":')
    assert read.usage == TokenUsage(input_tokens=3)


def test_readable_rows_survive_unreadable_ones(connect: Opener, impostor: Impostor) -> None:
    good = json.dumps(succeeded("r1")).encode()
    strange = json.dumps(succeeded("r2", novelty="a\u2028b\x85c"), ensure_ascii=False).encode()
    bad = [b"garbage", b"[]", b'{"custom_id": "r3"}', b'{"custom_id": 4, "result": {}}']
    impostor.results = b"\r\n".join([good, b"", *bad, strange, good[:-9]])
    rows = list(connect(impostor.url).iterate_results("b1"))
    assert [row.custom_id for row in rows] == ["r1", "", "", "", "", "r2"]
    unparsable = [row for row in rows if not row.custom_id]
    assert {row.result_type for row in unparsable} == {"unparsable"}
    assert [row.error_message for row in unparsable] == [line.decode() for line in bad]


def test_the_beginning_of_a_line_that_is_no_row_is_kept_without_the_key(
    connect: Opener, impostor: Impostor
) -> None:
    impostor.results = b'{"custom_id": "r1", \xff\x00' + KEY.encode() + b"x" * 10_000_000 + b"\n"
    (row,) = connect(impostor.url).iterate_results("b1")
    message = row.error_message or ""
    assert message.startswith('{"custom_id": "r1"')
    assert r"\xff" in message
    assert "[key]" in message
    assert KEY not in message
    assert len(message) < 1000


def test_a_row_that_repeats_the_key_is_read_without_it(connect: Opener, impostor: Impostor) -> None:
    said = f"bad header {KEY[:9]}\n {KEY[9:].upper()}"
    error = {"type": "error", "error": {"type": "api_error", "message": said}}
    failed = {"custom_id": "r1", "result": {"type": "errored", "error": error}}
    repeated = succeeded("r2", content=[{"type": "text", "text": f"{said}\nVERDICT: A"}])
    rows = rows_of(connect(impostor.url), impostor, failed, repeated)
    assert rows[0].error_message == "bad header [key]"
    assert rows[1].text == "bad header [key]\nVERDICT: A"
    assert all("0123456789" not in row.raw and "[key]" in row.raw for row in rows)


def test_in_a_reply_a_short_key_is_a_word_like_others(connect: Opener, impostor: Impostor) -> None:
    impostor.results = json.dumps(succeeded(model="loopback-lexical")).encode() + b"\n"
    (row,) = connect(impostor.url, "loopback").iterate_results("b1")
    assert row.model == "loopback-lexical"


@pytest.mark.parametrize("figure", [2**31, 2**63, 2**70, -1, 1.5, "7", True])
def test_a_bill_with_a_figure_that_cannot_be_one_is_no_bill(
    connect: Opener, impostor: Impostor, figure: object
) -> None:
    usage = {"input_tokens": 3, "output_tokens": figure}
    (row,) = rows_of(connect(impostor.url), impostor, succeeded(usage=usage))
    assert (row.text, row.usage) == ("VERDICT: A", None)
    assert json.loads(row.raw)["result"]["message"]["usage"] == usage


def test_a_reader_that_stops_early_closes_the_stream(connect: Opener, impostor: Impostor) -> None:
    service = connect(impostor.url)
    many = [succeeded(f"r{number}", padding="x" * 10_000) for number in range(200)]
    impostor.results = b"".join(json.dumps(row).encode() + b"\n" for row in many)
    rows = service.iterate_results("b1")
    assert next(rows).custom_id == "r0"
    rows.close()  # type: ignore[attr-defined]
    assert len(rows_of(service, impostor, succeeded())) == 1


NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def test_a_batch_is_sent_as_one_json_object_of_known_length(script: Script) -> None:
    requests = [request(number, note='é "quoted" \u2028') for number in range(3)]
    created = script.give(JSONResponse(batch(n_requests=3))).create_batch(iter(requests))
    assert (created.batch_id, created.n_requests, created.has_ended) == ("b1", 3, False)
    (asked,) = script.asked
    assert (asked.method, asked.path) == ("POST", "/v1/messages/batches")
    assert asked.headers["content-type"] == "application/json"
    assert int(asked.headers["content-length"]) == len(asked.body)
    assert json.loads(asked.body) == {
        "requests": [
            {"custom_id": each.custom_id, "params": dict(each.params)} for each in requests
        ]
    }


def test_requests_are_written_one_by_one_while_they_are_built(service: AnthropicBatches) -> None:
    built: list[int] = []

    def build() -> Iterator[SubmittedRequest]:
        for number in range(1200):
            built.append(number)
            yield request(number, system="x" * 3000)

    created = service.create_batch(build())
    assert created.n_requests == len(built) == 1200
    assert wait_until_ended(service, created.batch_id).n_requests == 1200
    assert len(list(service.iterate_results(created.batch_id))) == 1200


def test_an_empty_batch_is_left_to_the_service_to_refuse(service: AnthropicBatches) -> None:
    with pytest.raises(JudgeError, match=r"\b0 requests") as caught:
        service.create_batch([])
    assert caught.value.failure is JudgeFailure.INVALID


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_all_pages_of_the_list_come_newest_first(
    server: LoopbackServer,
    service: AnthropicBatches,
    size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "_PAGE", size)
    ids = [
        service.create_batch([request(number) for number in range(n)]).batch_id
        for n in (1, 2, 3, 4, 5)
    ]
    listed = list(service.list_batches())
    assert [each.batch_id for each in listed] == ids[::-1]
    assert [each.n_requests for each in listed] == [5, 4, 3, 2, 1]
    assert {each.has_ended for each in listed} == {True}
    times = [each.created_at for each in listed]
    assert all(time is not None and time.tzinfo is not None for time in times)
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]


def test_no_batches_make_an_empty_list(service: AnthropicBatches) -> None:
    assert list(service.list_batches()) == []


def test_a_list_is_read_page_by_page_and_no_further_than_somebody_looks(
    script: Script,
) -> None:
    service = script.give(
        page(batch("b4"), batch("b3"), more=True),
        page(batch("b2"), more=True),
        page(batch("b1")),
    )
    rows = service.list_batches()
    assert [next(rows).batch_id, next(rows).batch_id] == ["b4", "b3"]
    assert len(script.asked) == 1
    assert [row.batch_id for row in rows] == ["b2", "b1"]
    assert [asked.query for asked in script.asked] == [
        {"limit": "100"},
        {"limit": "100", "after_id": "b3"},
        {"limit": "100", "after_id": "b2"},
    ]


def test_a_row_of_the_list_says_when_how_far_and_how_many(script: Script) -> None:
    ended = batch(
        "b1",
        processing_status="ended",
        request_counts={"processing": 0, "succeeded": 4, "errored": 1, "canceled": 1, "expired": 1},
        created_at="2026-09-01T14:00:00+02:00",
    )
    listed = list(script.give(page(batch("b2"), ended)).list_batches())
    assert [(each.batch_id, each.has_ended, each.n_requests) for each in listed] == [
        ("b2", False, 2),
        ("b1", True, 7),
    ]
    assert [each.created_at for each in listed] == [NOON, NOON]


@pytest.mark.parametrize("written", [None, "", "yesterday", 1756728000, "2026-09-01T12:00:00"])
def test_a_time_that_cannot_be_read_is_not_guessed(script: Script, written: object) -> None:
    service = script.give(page(batch("b1", created_at=written)))
    assert [row.created_at for row in service.list_batches()] == [None]


def test_rows_that_name_no_batch_are_left_out(script: Script) -> None:
    rows = [batch("b2", id=None), batch("b3", request_counts=None), batch("b1")]
    assert [row.batch_id for row in script.give(page(*rows)).list_batches()] == ["b1"]


def test_a_list_that_never_ends_or_is_a_web_page_is_said(script: Script) -> None:
    again = [page(batch(name), more=True) for name in ("b2", "b1", "b2", "b1")]
    with pytest.raises(JudgeError, match=r"3 pages and goes on after 'b2'; expected .* ends"):
        list(script.give(*again).list_batches())
    proxy = HTMLResponse("<html><body>Please log in")
    with pytest.raises(JudgeError, match=r"answered '<html><body>Please log in'") as caught:
        list(script.give(proxy).list_batches())
    assert caught.value.failure is JudgeFailure.TRANSIENT


@pytest.mark.parametrize(
    "answer",
    [
        {"has_more": False},
        {"data": {}, "has_more": False},
        {"data": [batch("b1")], "has_more": True},
        {"data": [batch("b1")], "has_more": True, "last_id": None},
    ],
)
def test_half_a_list_is_an_error_because_it_would_prove_what_it_does_not(
    script: Script, answer: dict[str, object]
) -> None:
    service = script.give(JSONResponse(answer))
    with pytest.raises(JudgeError, match=r"page.*batches") as caught:
        list(service.list_batches())
    assert caught.value.failure is JudgeFailure.TRANSIENT


def test_a_direct_question_is_answered_at_once(
    server: LoopbackServer, service: AnthropicBatches
) -> None:
    row = service.ask_directly(request())
    assert (row.custom_id, row.result_type, row.stop_reason) == (
        "nonce-01",
        "succeeded",
        "end_turn",
    )
    assert (row.text or "").splitlines()[-1] == "VERDICT: A"
    assert (row.model, row.error_type, row.error_message) == ("claude-opus-5-5", None, None)
    assert row.usage is not None
    assert row.usage.output_tokens > 0
    assert json.loads(row.raw)["type"] == "message"
    assert (server.log.messages, server.log.batches) == (1, 0)


def test_a_direct_question_is_sent_with_the_parameters_of_a_batch(script: Script) -> None:
    message = {
        "type": "message",
        "model": "judge-1",
        "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "B"}, {"type": "text", "text": "VERDICT: A"}],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    asked = request(temperature=0.3, output_config={"format": {}})
    row = script.give(JSONResponse(message)).ask_directly(asked)
    assert (row.text, row.usage) == ("VERDICT: A", TokenUsage(7, 3))
    (sent,) = script.asked
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert json.loads(sent.body) == asked.params
    assert sent.headers["content-type"] == "application/json"
    assert "custom_id" not in json.loads(sent.body)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 0.0, "`temperature` is deprecated for this model."),
        ("thinking", {"type": "enabled", "budget_tokens": 1024}, '"thinking.type.enabled" is not'),
        ("thinking", {"type": "disabled"}, '"thinking.type.disabled" is not supported'),
    ],
)
def test_a_setting_that_the_model_refuses_is_named_with_what_to_do(
    connect: Opener, impostor: Impostor, name: str, value: Any, message: str
) -> None:
    impostor.refuse(400, "invalid_request_error", message)
    with pytest.raises(JudgeError, match=f"asks for {name}: remove it there") as caught:
        connect(impostor.url).ask_directly(request(**{name: value}))
    assert caught.value.failure is JudgeFailure.INVALID


def test_a_direct_question_that_is_invalid_is_said_to_be(service: AnthropicBatches) -> None:
    with pytest.raises(JudgeError, match="max_tokens") as caught:
        service.ask_directly(request(max_tokens=0))
    assert caught.value.failure is JudgeFailure.INVALID


def test_a_direct_reply_without_text_is_a_reply(script: Script) -> None:
    message = {"type": "message", "content": [], "stop_reason": "refusal"}
    row = script.give(JSONResponse(message)).ask_directly(request())
    assert (row.result_type, row.text, row.stop_reason) == ("succeeded", "", "refusal")
