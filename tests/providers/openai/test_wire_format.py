"""What OpenAI's Batch API says about a batch and in its two files."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chat_server import completion
from tests.judging.bench import Bench
from tests.judging.builders import requests_for
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import BatchStatus, TokenUsage
from tournament_assets.judging.settlement.harvest import harvest_batch
from tournament_assets.judging.settlement.records import SubmittedBatch
from tournament_assets.judging.settlement.submission import create_batches
from tournament_assets.providers.openai.wire_format import (
    NONCE_KEY,
    Dialect,
    read_batch,
    read_batch_line,
)


def status(*, keeps_names: bool = True, **changes: Any) -> BatchStatus:
    batch = {
        "id": "batch_1",
        "status": "in_progress",
        "created_at": 1788264000,
        "request_counts": {"total": 10, "completed": 0, "failed": 0},
        "metadata": {NONCE_KEY: "0123456789ab"},
        **changes,
    }
    found = read_batch(
        batch, address="https://api.example", tidy=lambda text: text, keeps_names=keeps_names
    )
    assert found is not None
    return found


def test_a_batch_says_whose_it_is_how_large_and_since_when() -> None:
    found = status()
    assert (found.batch_id, found.n_requests, found.nonce) == ("batch_1", 10, "0123456789ab")
    assert found.created_at == datetime(2026, 9, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("metadata", [None, {}, {"team": "x"}, "none"])
def test_a_batch_without_our_name_is_somebody_elses_where_names_are_kept(metadata: Any) -> None:
    assert status(metadata=metadata).nonce == ""
    assert status(metadata=metadata, keeps_names=False).nonce is None


@pytest.mark.parametrize(
    ("word", "has_ended"),
    [
        ("validating", False),
        ("in_progress", False),
        ("finalizing", False),
        ("cancelling", False),
        ("a_status_of_tomorrow", False),
        ("completed", True),
        ("expired", True),
        ("cancelled", True),
        ("failed", True),
    ],
)
def test_a_status_of_tomorrow_is_waited_for(word: str, *, has_ended: bool) -> None:
    assert status(status=word).has_ended is has_ended


@pytest.mark.parametrize("word", ["expired", "cancelled"])
def test_what_expired_or_was_cancelled_need_not_have_a_row(word: str) -> None:
    counts = {"total": 10, "completed": 6, "failed": 1}
    assert status(status=word, request_counts=counts).n_results == 7
    assert status(status="completed", request_counts=counts).n_results is None


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("invalid_json_line", JudgeFailure.INVALID),
        ("token_limit_exceeded", JudgeFailure.NOT_ACCEPTED),
    ],
)
def test_a_batch_that_failed_as_a_whole_says_why(code: str, failure: JudgeFailure) -> None:
    refusal = status(status="failed", errors={"data": [{"code": code, "message": "No."}]}).refusal
    assert refusal is not None
    assert refusal.failure is failure
    assert f"{code}: No." in str(refusal)


def line(**row: Any) -> bytes:
    return json.dumps({"id": "r", "custom_id": "ours", **row}).encode() + b"\n"


def test_a_row_that_succeeded_is_a_reply() -> None:
    answered = {"status_code": 200, "body": completion("VERDICT: A")}
    row = read_batch_line(line(response=answered, error=None))
    assert row is not None
    assert (row.custom_id, row.text, row.stop_reason) == ("ours", "VERDICT: A", "end_turn")
    assert row.usage == TokenUsage(7, 5)


@pytest.mark.parametrize(
    ("response", "error", "meant"),
    [
        (None, {"code": "batch_expired", "message": "m"}, ("expired", None)),
        (None, {"code": "batch_cancelled", "message": "m"}, ("canceled", None)),
        (None, {"code": "a_code_of_tomorrow", "message": "m"}, ("errored", "a_code_of_tomorrow")),
        ((400, "invalid_request_error", None), None, ("errored", "invalid_request_error")),
        ((401, "x", None), None, ("errored", "authentication_error")),
        ((404, "x", "model_not_found"), None, ("errored", "not_found_error")),
        ((429, "x", "rate_limit_exceeded"), None, ("errored", "rate_limit_error")),
        ((429, "x", "insufficient_quota"), None, ("errored", "billing_error")),
        ((500, "server_error", None), None, ("errored", "server_error")),
        ((500, "invalid_request_error", None), None, ("errored", "api_error")),
    ],
)
def test_a_row_that_failed_says_what_asking_again_would_do(
    response: tuple[int, str, str | None] | None, error: Any, meant: tuple[str, str | None]
) -> None:
    said = None
    if response is not None:
        code, kind, name = response
        problem = {"type": kind, "code": name, "message": "m"}
        said = {"status_code": code, "body": {"error": problem}}
    row = read_batch_line(line(response=said, error=error))
    assert row is not None
    assert (row.result_type, row.error_type, row.error_message) == (*meant, "m")


@pytest.mark.parametrize("written", [b"", b"[]\n", b'{"custom_id": 7}\n', b'{"custom_id": "x\n'])
def test_a_line_that_is_no_row_is_none(written: bytes) -> None:
    assert read_batch_line(written) is None


def test_a_number_that_is_none_costs_no_row() -> None:
    written = line(response={"status_code": 200, "body": completion("VERDICT: A")})
    row = read_batch_line(written.replace(b'"index": 0', b'"index": NaN'))
    assert row is not None
    assert row.text == "VERDICT: A"


def harvest(bench: Bench, **found: Any) -> SubmittedBatch:
    session = bench.session()
    (batch,) = create_batches(session, requests_for(2), attempt=1).batches
    harvest_batch(session, batch, BatchStatus(batch.batch_id, True, 4, **found))
    return batch


def test_requests_without_a_row_of_an_expired_batch_are_asked_again() -> None:
    bench = Bench()
    bench.judge.readings = [lambda rows: iter(rows[:3])] * 5
    harvest(bench, n_results=3)
    assert len(bench.ledger.answered()) == 3
    assert [row.result_type for _, row in bench.ledger.failures] == ["missing"]
    assert bench.ledger.states == ["harvested"]


def test_a_batch_that_was_refused_for_want_of_room_is_asked_again_after_a_while() -> None:
    bench = Bench()
    harvest(bench, refusal=JudgeError("full", failure=JudgeFailure.NOT_ACCEPTED))
    assert bench.ledger.states == ["refused"]
    assert bench.clock.naps == [4.0]
    assert bench.ledger.answered() == set()
    assert bench.ledger.failures == []


def test_a_batch_that_would_be_refused_again_stops_the_run() -> None:
    bench = Bench()
    with pytest.raises(JudgeError, match="bad line"):
        harvest(bench, refusal=JudgeError("bad line", failure=JudgeFailure.INVALID))
    assert bench.ledger.states == ["refused"]


def test_a_server_that_refuses_every_word_is_asked_no_more_than_once_for_each() -> None:
    dialect: Dialect | None = Dialect("max_tokens", optional=frozenset({"response_format", "seed"}))
    tried = []
    while dialect is not None:
        tried.append(dialect)
        dialect = dialect.without(
            {"max_tokens", "max_completion_tokens", "response_format", "stop"}
        )
    assert [(each.cap, {*each.not_sent}) for each in tried] == [
        ("max_tokens", set()),
        ("max_tokens", {"response_format"}),
        ("max_completion_tokens", {"response_format"}),
    ]
