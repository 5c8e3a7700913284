import json
import re
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.loopback.builders import Caller, batch_body, judge_params
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.loopback.server import Refusal, read_requests


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(processing_seconds=0.05) as running:
        yield running


@pytest.fixture
def caller(server: LoopbackServer) -> Iterator[Caller]:
    with Caller(server) as calling:
        yield calling


def complaint(answer: Any) -> str:
    body = answer.json()
    assert answer.status_code == 400
    assert body["error"]["type"] == "invalid_request_error"
    assert body["request_id"] == answer.headers["request-id"]
    return str(body["error"]["message"])


def test_counts_stay_at_processing_until_the_end() -> None:
    with LoopbackServer(processing_seconds=60) as server, Caller(server) as caller:
        batch = caller.get(f"/v1/messages/batches/{caller.create(3)}").json()
        assert batch["processing_status"] == "in_progress"
        assert batch["results_url"] is None
        assert batch["request_counts"] == {
            "processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0
        }  # fmt: skip
        answer = caller.get(f"/v1/messages/batches/{batch['id']}/results")
        assert batch["id"] in complaint(answer)


def test_an_ended_batch_names_its_results(server: LoopbackServer, caller: Caller) -> None:
    batch = caller.wait(caller.create(3))
    assert batch["request_counts"]["succeeded"] == 3
    assert batch["request_counts"]["processing"] == 0
    assert batch["results_url"].startswith(f"{server.url}/v1/messages/batches/")
    assert len(caller.get(batch["results_url"]).text.splitlines()) == 3


def test_a_bad_parameter_fails_its_row_and_not_the_batch(caller: Caller) -> None:
    body = batch_body(2)
    del body["requests"][1]["params"]["max_tokens"]
    batch = caller.wait(caller.post("/v1/messages/batches", body).json()["id"])
    assert batch["request_counts"]["errored"] == 1
    with_error = [
        line for line in caller.get(batch["results_url"]).text.splitlines() if "errored" in line
    ]
    assert "invalid_request_error" in with_error[0]


@pytest.mark.parametrize(
    ("custom_id", "fine"),
    [("a" * 64, True), ("A_z-0", True), ("a" * 65, False), ("", False), ("a b", False),
     ("a.b", False), ("a\n", False), ("é", False), (7, False)],
)  # fmt: skip
def test_a_custom_id_has_64_plain_characters_at_most(
    caller: Caller, custom_id: Any, fine: bool
) -> None:
    body = {"requests": [{"custom_id": custom_id, "params": judge_params()}]}
    answer = caller.post("/v1/messages/batches", body)
    if fine:
        assert answer.status_code == 200
    else:
        assert "requests.0.custom_id" in complaint(answer)


def test_a_custom_id_is_used_once(caller: Caller) -> None:
    body = {"requests": [{"custom_id": "same", "params": judge_params()}] * 2}
    assert re.search(r"'same'.* 2 ", complaint(caller.post("/v1/messages/batches", body)))


@pytest.mark.parametrize("body", [{}, {"requests": []}, {"requests": [{"custom_id": "a"}]}, [], 1])
def test_a_batch_without_requests_or_params_is_refused(caller: Caller, body: Any) -> None:
    complaint(caller.post("/v1/messages/batches", body))


@pytest.mark.parametrize("headers", [{}, {"x-api-key": ""}, {"authorization": "Bearer"}])
def test_without_a_key_nothing_is_served(server: LoopbackServer, headers: dict[str, str]) -> None:
    with Caller(server, headers) as caller:
        for answer in (
            caller.get("/v1/messages/batches"),
            caller.post("/v1/messages", judge_params()),
            caller.post("/v1/messages/batches", batch_body()),
        ):
            assert answer.status_code == 401
            assert answer.json()["error"]["type"] == "authentication_error"


def test_a_bearer_token_is_a_key(server: LoopbackServer) -> None:
    with Caller(server, {"authorization": "Bearer abc"}) as caller:
        assert caller.get("/v1/messages/batches").status_code == 200


def test_what_is_not_there_is_a_404_in_the_api_shape(caller: Caller) -> None:
    for path in ("/v1/messages/batches/msgbatch_none", "/v1/nothing"):
        answer = caller.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "not_found_error"


def test_batches_are_listed_newest_first_page_by_page() -> None:
    with LoopbackServer() as server, Caller(server) as caller:
        made = [caller.create(1) for _ in range(5)]
        newest_first = made[::-1]
        path = "/v1/messages/batches"
        first = caller.get(path, limit=2).json()
        assert [row["id"] for row in first["data"]] == newest_first[:2]
        assert (first["has_more"], first["last_id"]) == (True, newest_first[1])
        last = caller.get(path, limit=3, after_id=first["last_id"]).json()
        assert [row["id"] for row in last["data"]] == newest_first[2:]
        assert last["has_more"] is False
        assert "limit" in complaint(caller.get(path, limit=0))
        with anthropic.Anthropic(base_url=server.url, api_key="any") as client:
            assert [batch.id for batch in client.messages.batches.list(limit=2)] == newest_first


def test_the_log_counts_what_was_accepted_and_nothing_else() -> None:
    with LoopbackServer() as server, Caller(server) as caller:
        assert caller.get("/loopback/log").json() == {"batches": 0, "requests": 0, "messages": 0}
        caller.wait(caller.create(3))
        caller.create(2)
        caller.post("/v1/messages/batches", {"requests": []})
        caller.post("/v1/messages", {})
        caller.post("/v1/messages", judge_params())
        caller.get("/v1/models/claude-opus-5-5")
        assert caller.get("/loopback/log").json() == {"batches": 2, "requests": 5, "messages": 1}
        assert (server.log.batches, server.log.requests, server.log.messages) == (2, 5, 1)


def test_the_sdk_reads_a_direct_message_with_all_its_fields(server: LoopbackServer) -> None:
    params = judge_params(model="claude-opus-9", system="x" * 4000)
    with anthropic.Anthropic(
        base_url=server.url, api_key="any", _strict_response_validation=True
    ) as client:
        message = client.messages.create(**params)
        again = client.messages.create(**params)
        model = client.models.retrieve("claude-opus-9")
    assert message.model == model.id == "claude-opus-9"
    assert message.stop_reason == "end_turn"
    assert message.content[0].type == "text"
    assert message.content[0].text.splitlines()[-1] == "VERDICT: A"
    assert message.usage.cache_creation_input_tokens == 1000
    assert again.usage.cache_read_input_tokens == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", ""), ("max_tokens", None), ("max_tokens", 0), ("messages", []), ("system", 3),
     ("stream", True), ("messages", [{"role": "user", "content": None}])],
)  # fmt: skip
def test_a_bad_parameter_of_a_direct_message_is_named(
    caller: Caller, name: str, value: Any
) -> None:
    answer = caller.post("/v1/messages", {**judge_params(), name: value})
    assert complaint(answer).startswith(name)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"requests": [1,]}', b'{"requests": []} x', b"\xff", b"{1: 2}", b"[" * 10**5],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="valid JSON"):
        read_requests(body)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [(b"[]", "not a JSON object"), (b"12", "not a JSON object"), (b"{}", "at least one request"),
     (b'{"requests": []}', "at least one"), (b'{"requests": {"a": 1}}', "at least one"),
     (b'{"requests": [1]}', "requests.0.custom_id"),
     (b'{"requests": [{"custom_id": "a"}]}', "requests.0.params")],
)  # fmt: skip
def test_json_that_is_no_batch_is_refused_by_name(body: bytes, complaint: str) -> None:
    with pytest.raises(Refusal, match=complaint):
        read_requests(body)


def test_more_than_100_000_requests_are_refused() -> None:
    rows = ",".join(f'{{"custom_id":"r{number}","params":{{}}}}' for number in range(100_001))
    with pytest.raises(Refusal, match="100000"):
        read_requests(f'{{"requests":[{rows}]}}'.encode())


def test_a_body_that_is_too_long_is_refused_as_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(batch_body(3)).encode()
    monkeypatch.setattr("tournament_assets.loopback.server.MAX_BATCH_BYTES", len(body))
    assert len(read_requests(body)) == 3
    with pytest.raises(Refusal) as refused:
        read_requests(body + b" ")
    assert (refused.value.status, refused.value.kind) == (413, "request_too_large")
