from collections.abc import Callable, Iterator
from pathlib import Path

import anthropic
import httpx2
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.loopback.builders import judge_params
from tests.providers.scripted_service import KEY, Script, refusal, run_script
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.providers.service_words import classify_failure, read_retry_after

REQUEST = SubmittedRequest("r1", judge_params())
Task = Callable[[AnthropicBatches], object]
PAYING: dict[str, Task] = {
    "create": lambda service: service.create_batch([REQUEST]),
    "ask": lambda service: service.ask_directly(REQUEST),
}
LOOKING: dict[str, Task] = {
    "list": lambda service: list(service.list_batches()),
    "get": lambda service: service.get_batch("b1"),
    "results": lambda service: list(service.iterate_results("b1")),
    "model": lambda service: service.check_model("judge-1"),
}
A, P = JudgeFailure.AMBIGUOUS, JudgeFailure.TRANSIENT
CLASSES = {
    302: (JudgeFailure.FATAL, JudgeFailure.FATAL),
    400: (JudgeFailure.INVALID, JudgeFailure.INVALID),
    401: (JudgeFailure.FATAL, JudgeFailure.FATAL),
    402: (JudgeFailure.FATAL, JudgeFailure.FATAL),
    403: (JudgeFailure.FATAL, JudgeFailure.FATAL),
    404: (JudgeFailure.UNKNOWN, JudgeFailure.UNKNOWN),
    408: (A, P),
    409: (A, P),
    413: (JudgeFailure.TOO_LARGE, JudgeFailure.TOO_LARGE),
    418: (JudgeFailure.INVALID, JudgeFailure.INVALID),
    422: (JudgeFailure.INVALID, JudgeFailure.INVALID),
    429: (JudgeFailure.NOT_ACCEPTED, P),
    500: (A, P),
    502: (A, P),
    503: (A, P),
    504: (A, P),
    529: (JudgeFailure.OVERLOADED, P),
    599: (A, P),
}


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


def fail(script: Script, task: Task, *answers: Response) -> JudgeError:
    """Return how a task fails when the service gives some answers."""
    service = script.give(*answers)
    with pytest.raises(JudgeError) as caught:
        task(service)
    return caught.value


@pytest.mark.parametrize("status", CLASSES)
def test_every_status_has_its_class_whether_something_may_be_paid_for_or_not(
    script: Script, status: int
) -> None:
    for tasks, expected in zip((PAYING, LOOKING), CLASSES[status], strict=True):
        for name, task in tasks.items():
            if (name, status) == ("model", 404):  # gateways need not have this route
                assert "answered 404" in str(task(script.give(refusal(404))))
                continue
            error = fail(script, task, refusal(status))
            assert error.failure is expected, name
            assert f"answered {status}" in str(error)
            assert len(script.asked) == 1, name


@pytest.mark.parametrize("task", PAYING.values(), ids=PAYING)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
def test_what_may_be_paid_for_is_never_sent_twice_by_the_sdk(
    script: Script, task: Task, status: int
) -> None:
    answer = JSONResponse({}, status_code=status, headers={"x-should-retry": "true"})
    fail(script, task, answer)
    assert len(script.asked) == 1


@pytest.mark.parametrize("task", [*PAYING.values(), *LOOKING.values()], ids=[*PAYING, *LOOKING])
@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("rate_limit_error", {"error_code": "enforced_spend_limit_reached"}),
        ("enforced_spend_limit_reached", None),
    ],
)
def test_a_spend_limit_looks_like_a_rate_limit_and_is_fatal(
    script: Script, task: Task, kind: str, details: dict[str, str] | None
) -> None:
    error = fail(script, task, refusal(429, kind, "Spend limit.", details=details, retry_after="5"))
    assert error.failure is JudgeFailure.FATAL
    assert "spend limit" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("17", 17.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("86400", 3600.0),
        ("86401", None),
        ("inf", None),
        ("-1", None),
        ("nan", None),
        ("", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("next week", None),
    ],
)
def test_the_time_that_a_service_names_is_read_if_it_is_one(
    script: Script, header: str, seconds: float | None
) -> None:
    error = fail(script, PAYING["create"], refusal(429, retry_after=header))
    assert error.retry_after_seconds == seconds
    when = "in a while" if seconds is None else f"in {seconds:.0f} seconds"
    assert f"run again {when}" in str(error)


def test_without_the_header_no_time_is_named(script: Script) -> None:
    error = fail(script, PAYING["ask"], refusal(429))
    assert (error.failure, error.retry_after_seconds) == (JudgeFailure.NOT_ACCEPTED, None)


def test_an_overloaded_service_may_name_a_time_as_well(script: Script) -> None:
    assert fail(script, PAYING["ask"], refusal(529, retry_after="9")).retry_after_seconds == 9.0


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (PAYING["create"], JudgeFailure.NOT_ACCEPTED),
        (PAYING["ask"], JudgeFailure.NOT_ACCEPTED),
        (LOOKING["get"], P),
    ],
    ids=["create", "ask", "get"],
)
def test_a_refused_connection_has_certainly_not_been_heard(
    task: Task, expected: JudgeFailure
) -> None:
    service = AnthropicBatches(base_url="http://127.0.0.1:9", api_key=KEY)
    with pytest.raises(JudgeError, match=r"127\.0\.0\.1:9\b") as caught:
        task(service)
    assert caught.value.failure is expected
    service.close()


@pytest.mark.parametrize(
    ("cause", "paying", "looking"),
    [
        (httpx2.ConnectError("refused"), JudgeFailure.NOT_ACCEPTED, P),
        (httpx2.ConnectTimeout("slow"), JudgeFailure.NOT_ACCEPTED, P),
        (httpx2.ReadTimeout("slow"), A, P),
        (httpx2.WriteTimeout("slow"), A, P),
        (httpx2.ReadError("reset"), A, P),
        (httpx2.WriteError("reset"), A, P),
        (httpx2.RemoteProtocolError("gone"), A, P),
        (None, A, P),
    ],
)
def test_only_a_connection_that_never_stood_proves_that_nothing_was_sent(
    cause: Exception | None, paying: JudgeFailure, looking: JudgeFailure
) -> None:
    error = anthropic.APIConnectionError(request=httpx2.Request("POST", "http://localhost"))
    error.__cause__ = cause
    assert classify_failure(error, may_cost=True) is paying
    assert classify_failure(error, may_cost=False) is looking
    assert read_retry_after(error) is None


@pytest.mark.parametrize(
    "answer",
    [
        PlainTextResponse("<html>welcome</html>"),
        JSONResponse([]),
        JSONResponse(None),
        JSONResponse({"id": "b1"}),
        JSONResponse({"request_counts": {}}),
        JSONResponse({"id": None, "content": None, "data": None, "request_counts": {}}),
        Response(b"\xff\xfe", media_type="application/json"),
        Response(b"[" * 100_000, media_type="application/json"),
    ],
    ids=["page", "list", "null", "an id", "counts", "nulls", "no text", "deep"],
)
@pytest.mark.parametrize(
    ("task", "expected"),
    [
        *((task, A) for task in PAYING.values()),
        *((LOOKING[name], P) for name in ("list", "get", "results")),
    ],
    ids=[*PAYING, "list", "get", "results"],
)
def test_a_success_that_says_nothing_proves_nothing(
    script: Script, task: Task, expected: JudgeFailure, answer: Response
) -> None:
    assert fail(script, task, answer).failure is expected


def test_a_look_is_repeated_by_the_sdk_before_anybody_hears_of_it(script: Script) -> None:
    busy = JSONResponse({}, status_code=503, headers={"retry-after-ms": "1"})
    found = JSONResponse({"id": "judge-1", "type": "model"})
    script.give(busy, busy, found).check_model("judge-1")
    assert len(script.asked) == 3


def test_words_of_a_service_are_quoted_on_one_line_of_bearable_length(script: Script) -> None:
    error = fail(script, PAYING["create"], refusal(400, "invalid_request_error", "no\n" * 10_000))
    assert "\n" not in str(error)
    assert len(str(error)) < 700


def test_the_key_is_not_in_what_a_service_repeats_of_it(script: Script) -> None:
    for answer in (
        refusal(400, "invalid_request_error", f"what is {KEY}?"),
        refusal(500, KEY, "no"),
        PlainTextResponse(f"<html>{KEY}</html>"),
        JSONResponse({"content": None, "echo": KEY}),
    ):
        for task in (PAYING["create"], PAYING["ask"], LOOKING["get"], LOOKING["list"]):
            assert KEY not in str(fail(script, task, answer))


def test_a_batch_that_cannot_be_written_to_a_file_is_not_sent(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    error = fail(script, PAYING["create"], refusal(500))
    assert error.failure is JudgeFailure.FATAL
    assert script.asked == []
