"""What a service sends is bounded, in bytes, lines and seconds, whoever reads it."""

import gzip
import json
import socketserver
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.responses import JSONResponse, Response

from tests.loopback.builders import judge_params
from tests.providers.scripted_service import KEY, Script, batch, open_anthropic, run_script
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.providers import answers
from tournament_assets.providers.openai.services import OpenAiBatches
from tournament_assets.providers.service_words import parse_object
from tournament_assets.tournament.judge_services import ServiceConnection

MB = 1_000_000
REQUEST = SubmittedRequest("r1", judge_params())
N_REQUESTS = 2
COUNTS = {"total": N_REQUESTS, "completed": N_REQUESTS, "failed": 0, "processing": N_REQUESTS}
ENDED = JSONResponse(
    {
        **batch(processing_status="ended", request_counts=COUNTS),
        "status": "completed",
        "output_file_id": "f1",
    }
)
"""A batch, as both protocols show it."""
LOOKING: dict[str, Callable[[Any], object]] = {
    "list": lambda service: list(service.list_batches()),
    "get": lambda service: service.get_batch("b1"),
    "model": lambda service: service.check_model("judge-1"),
    "results": lambda service: list(service.iterate_results("b1")),
}
TASKS: dict[str, Callable[[Any], object]] = {
    **LOOKING,
    "create": lambda service: service.create_batch([REQUEST]),
    "ask": lambda service: service.ask_directly(REQUEST),
}


def open_openai(url: str) -> OpenAiBatches:
    return OpenAiBatches(ServiceConnection(KEY, url, Path("unused"), "MY_KEY"))


@pytest.fixture(scope="module", params=["anthropic", "openai"])
def script(request: pytest.FixtureRequest) -> Iterator[Script]:
    with run_script(open_openai) if request.param == "openai" else run_script() as running:
        yield running


def fail(script: Script, name: str, *given: Response) -> JudgeError:
    """Return how a task fails when the service gives some answer to it."""
    service = script.give(*([ENDED] if name == "results" else []), *given)
    with pytest.raises(JudgeError) as caught:
        TASKS[name](service)
    if name in LOOKING:
        assert caught.value.failure is JudgeFailure.TRANSIENT
    else:
        # A file that was not uploaded was certainly not accepted.
        assert caught.value.failure in (JudgeFailure.AMBIGUOUS, JudgeFailure.NOT_ACCEPTED)
    return caught.value


@cache
def packed(unit: bytes, n_bytes: int = 100 * MB) -> bytes:
    return gzip.compress(unit * (n_bytes // len(unit)), 1)


def gzipped(body: bytes, status: int = 200) -> Response:
    return Response(body, status, {"content-encoding": "gzip", "x-should-retry": "false"})


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("name", TASKS)
def test_an_answer_that_unpacks_to_too_much_is_not_read_to_its_end(
    script: Script, name: str, status: int
) -> None:
    answer = gzipped(packed(b" "), status)
    tracemalloc.start()
    try:
        error = fail(script, name, answer)
        assert tracemalloc.get_traced_memory()[1] < 60 * MB
    finally:
        tracemalloc.stop()
    assert ("larger than" in str(error)) is (name != "results" or status == 400)


@pytest.mark.parametrize("name", ["get", "results"])
def test_an_answer_that_unpacks_to_next_to_nothing_is_not_read_to_its_end(
    script: Script, name: str
) -> None:
    body = gzip.compress(bytes(ENDED.body)) + b"\0" * 40 * MB
    assert "bytes hold" in str(fail(script, name, gzipped(body)))


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
ENDLESS = {
    "head": [bytes([each]) for each in HEAD] * 9,
    "informational answers": [b"HTTP/1.1 100 Continue\r\n\r\n"] * 900,
    "body": [HEAD, *[b"1\r\n \r\n"] * 900],
}


def whole(answer: Response, *headers: str) -> list[bytes]:
    """Return the parts of an answer, which has no `Date` unless it is among some headers."""
    body = bytes(answer.body)
    head = HEAD.replace(b"\r\n", "".join(f"\r\n{each}" for each in [*headers, ""]).encode(), 1)
    return [head, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)]


def connect_to(monkeypatch: pytest.MonkeyPatch, *given: list[bytes]) -> None:
    """Let each connection give the parts of one answer, each when it is read."""
    waiting = [*given]

    def connect(*_place: object, **_settings: object) -> httpcore2.NetworkStream:
        return httpcore2.MockStream([*waiting.pop(0)])

    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("name", TASKS)
def test_an_answer_that_comes_byte_by_byte_ends(
    script: Script, name: str, parts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to(monkeypatch, *[whole(ENDED)] * (name == "results"), *[parts] * 3)
    seconds = iter(range(0, 1_000_000, 10))
    monkeypatch.setattr(answers, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    assert "it is not complete after" in str(fail(script, name))


NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("open_service", "written"),
    [(open_anthropic, NOON.isoformat()), (open_openai, NOON.timestamp())],
)
@pytest.mark.parametrize("days", [None, -1, 0, 1, 2_900_000])
def test_a_time_is_read_by_the_clock_that_the_answer_shows_and_is_none_without(
    open_service: Callable[[str], Any],
    written: object,
    days: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(UTC)
    date = format_datetime(now + timedelta(days=days or 0), usegmt=True)
    status = JSONResponse({**json.loads(bytes(ENDED.body)), "created_at": written})
    connect_to(monkeypatch, whole(status, *([] if days is None else [f"Date: {date}"])))
    with closing(open_service("http://127.0.0.1:9")) as service:
        created_at = service.get_batch("b1").created_at
    if days is None or days > 1:
        assert created_at is None
    else:
        assert abs(created_at + timedelta(days=days) - NOON) < timedelta(minutes=10)


@pytest.mark.parametrize(
    ("unit", "n_rows"),
    [
        (b"\n", 0),
        (b" ", 0),
        (b"x", 0),
        (b"junk\n", 20),
        (b'{"custom_id": "r9", "result": {"type": "expired"}, "error": {}}\n', 20),
    ],
    ids=["blank lines", "blanks", "a line without an end", "no rows", "rows of others"],
)
def test_results_that_go_on_for_ever_are_read_to_ten_rows_a_request(
    script: Script, unit: bytes, n_rows: int
) -> None:
    results = script.give(ENDED, gzipped(packed(unit))).iterate_results("b1")
    rows: list[ReplyRow] = []
    with pytest.raises(JudgeError, match=r"a row a line|than 20 rows for 2 requests") as caught:
        rows.extend(results)
    assert caught.value.failure is JudgeFailure.TRANSIENT
    assert len(rows) == n_rows


def test_results_may_be_larger_than_any_other_answer(script: Script) -> None:
    lines = b"x" * MB + b"\n"
    results = script.give(ENDED, gzipped(packed(lines, 20 * MB))).iterate_results("b1")
    assert sum(1 for _ in results) == 19


def test_what_would_take_a_hundred_times_its_bytes_is_no_object() -> None:
    reply = {"text": "f({[" * 100_000 + "é" * MB}
    assert parse_object(json.dumps(reply)) == reply
    for unit in ("{},", "[],", '"a",', '"",'):
        text = f'{{"a": [{unit * 1_100_000}0]}}'
        assert parse_object(text) is None
        assert parse_object(text.encode()) is None


def self_signed(path: Path) -> Path:
    """Write a key and a certificate that nobody but its owner has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def https_server(folder: Path) -> Iterator[str]:
    """Offer TLS with a certificate that nobody has signed, to whoever connects."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder / "self_signed.pem"))

    class Shakes(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                context.wrap_socket(self.request, server_side=True).close()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shakes) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("open_service", [open_anthropic, open_openai])
@pytest.mark.parametrize("name", ["create", "ask", "model"])
def test_a_certificate_that_is_refused_is_named_and_stops_everything(
    name: str, open_service: Callable[[str], Any], tmp_path: Path
) -> None:
    with https_server(tmp_path) as url, closing(open_service(url)) as service:
        with pytest.raises(JudgeError, match=r"certificate is refused \(self.signed") as caught:
            TASKS[name](service)
        assert "SSL_CERT_FILE" in str(caught.value)
        assert caught.value.failure is JudgeFailure.FATAL
