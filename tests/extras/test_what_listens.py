"""Every server of ours, on a free port, and clients that never come to an end."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import h11
import pytest
import uvicorn
from dagster_webserver import cli

from tests.extras.people.builders import desk
from tournament_assets.extras.people.label_records import LabelRecords
from tournament_assets.extras.people.labelling.server import create_label_app, serve_labelling
from tournament_assets.graph import guarded_pages
from tournament_assets.loopback import bounded_protocol, running

HOST = "127.0.0.1"
START = b"POST /votes HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def serve_labels() -> None:
    ledger = LabelRecords("sqlite://")
    app = create_label_app(desk(), ledger=ledger)
    serve_labelling(app, host=HOST, port=0, on_ready=lambda _: None)
    ledger.close()


def serve_pages() -> None:
    guarded_pages.main(HOST, 0, "", "definitions")


SERVERS = [serve_labels, serve_pages, lambda: running.serve(HOST, 0)]


async def read_all(_scope: Any, receive: Any, send: Any) -> None:
    """Stand for Dagster's webserver, and say whether a clock runs while it answers."""
    while (await receive()).get("more_body"):
        pass
    clock = receive.__self__.on_response.__self__._clock
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(clock).encode()})


@pytest.fixture(params=SERVERS, ids=["labels", "pages", "judge"])
def server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[uvicorn.Server]:
    servers: list[uvicorn.Server] = []
    is_up = threading.Event()
    run, start_up = uvicorn.Server.run, uvicorn.Server.startup

    def keep(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        servers.append(self)
        run(self, sockets)

    async def say(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await start_up(self, sockets)
        is_up.set()

    monkeypatch.setattr(uvicorn.Server, "run", keep)
    monkeypatch.setattr(uvicorn.Server, "startup", say)
    monkeypatch.setattr(uvicorn.Config, "configure_logging", lambda _: None)  # of all tests
    name = "host_dagster_ui_with_workspace_process_context"
    monkeypatch.setattr(cli, name, None)
    monkeypatch.setattr(cli, "cli", lambda *_, **__: getattr(cli, name)(0))
    monkeypatch.setattr(
        guarded_pages, "create_app_from_workspace_process_context", lambda *_, **__: read_all
    )
    thread = threading.Thread(target=request.param)
    thread.start()
    assert is_up.wait(60)
    yield servers[0]
    servers[0].should_exit = True
    thread.join()


def connected(server: uvicorn.Server) -> socket.socket:
    port = server.servers[0].sockets[0].getsockname()[1]
    return socket.create_connection((HOST, port), timeout=60)


def answer(connection: socket.socket) -> bytes:
    """Read until the server ends the connection."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("row", [b"x" * 1000, b"X-Small: 1\r\n" * 90])
def test_a_head_without_an_end_is_refused_after_some_bytes(
    server: uvicorn.Server, row: bytes
) -> None:
    with connected(server) as connection:
        connection.sendall(START + b"X-Endless: ")
        sent = 0
        with suppress(ConnectionError):
            while sent < 8 * 2**20:
                connection.sendall(row)
                sent += len(row)
        assert sent < 8 * 2**20


@pytest.mark.parametrize(
    ("waits_for", "part"),
    [
        ("IDLE", b""),
        ("IDLE", START),
        ("SEND_BODY", START + b"Content-Length: 9\r\nContent-Type: application/json\r\n\r\n[1"),
    ],
)
def test_a_request_that_never_comes_to_an_end_loses_its_connection(
    server: uvicorn.Server, waits_for: str, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = getattr(h11, waits_for)
    monkeypatch.setitem(bounded_protocol.SECONDS, state, 0.01)
    with connected(server) as connection:
        connection.sendall(part)
        assert b" 200 " not in answer(connection)


def test_one_connection_too_many_is_ended_and_the_others_are_answered(
    server: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_protocol, "MOST_CONNECTIONS", 2)
    head = b"Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    whole = START + head + b"{}"
    with connected(server) as first, connected(server), connected(server) as third:
        with suppress(ConnectionError):
            third.sendall(whole)
        assert answer(third) == b""
        first.sendall(whole)
        whole_answer = answer(first)
        assert whole_answer.startswith(b"HTTP/1.1 ")
        assert b"TimerHandle" not in whole_answer  # what takes long to answer is waited for
