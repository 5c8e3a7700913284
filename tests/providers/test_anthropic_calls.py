import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from starlette.responses import JSONResponse

from tests.loopback.builders import judge_params, wait_until_ended
from tournament_assets.judging.batch_service import SubmittedRequest, TokenUsage
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.providers.anthropic import message_batches as adapter
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

from .scripted_service import KEY, Script, batch, page, run_script

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


def request(number: int = 1, **params: object) -> SubmittedRequest:
    return SubmittedRequest(f"nonce-{number:02d}", {**judge_params(), **params})


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
    with pytest.raises(JudgeError, match="create a batch of 0 requests") as caught:
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
    with pytest.raises(JudgeError, match="expected a page of batches") as caught:
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


def test_a_direct_question_that_is_invalid_is_said_to_be(service: AnthropicBatches) -> None:
    with pytest.raises(JudgeError, match="max_tokens") as caught:
        service.ask_directly(request(max_tokens=0))
    assert caught.value.failure is JudgeFailure.INVALID


def test_a_direct_reply_without_text_is_a_reply(script: Script) -> None:
    message = {"type": "message", "content": [], "stop_reason": "refusal"}
    row = script.give(JSONResponse(message)).ask_directly(request())
    assert (row.result_type, row.text, row.stop_reason) == ("succeeded", "", "refusal")
