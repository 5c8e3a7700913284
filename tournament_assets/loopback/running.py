"""Running the loopback judge, in a thread or as a command, with the faults seen on the wire."""

import asyncio
import ipaddress
import json
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, Self

import click
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tournament_assets.loopback.batches import cut_lines, spoil_lines, spoil_message
from tournament_assets.loopback.faults import Fault, FaultPlan, describe_catalogue, plan_faults
from tournament_assets.loopback.messages import make_cache
from tournament_assets.loopback.openai_door import OpenAiDoor
from tournament_assets.loopback.server import (
    RequestLog,
    Shape,
    create_app,
    describe_page,
    keep_shape,
)
from tournament_assets.loopback.store import BatchStore
from tournament_assets.loopback.submissions import Refusal, answer_refusal, read_requests

_START_SECONDS = 15.0
_STOP_SECONDS = 15.0
_Protocol = Literal["auto"] | type[asyncio.Protocol]


class ThreadedServer:
    """Serves an application on a free port of 127.0.0.1, from a thread, while it is entered.

    Args:
        app: What to serve.
        http: How to read HTTP; a name or a class that uvicorn knows.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, app: ASGIApp, *, http: _Protocol = "auto") -> None:
        self._app = app
        self._http = http
        self.url = ""

    def __enter__(self) -> Self:
        # Bound here, so that the port is known, and taken, before the thread begins.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
            self._server = uvicorn.Server(
                uvicorn.Config(
                    self._app,
                    http=self._http,
                    # uvicorn would otherwise set up logging for the whole process.
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    lifespan="off",
                    ws="none",
                    timeout_graceful_shutdown=2,
                )
            )
            self._thread = threading.Thread(
                target=self._server.run,
                kwargs={"sockets": [self._socket]},
                name="loopback judge",
                daemon=True,
            )
            self._thread.start()
            self._wait_until_ready()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self._server.should_exit = True
                raise RuntimeError(
                    f"the loopback judge did not start on {self.url} within {_START_SECONDS:.0f} s"
                )
            time.sleep(0.005)


class LoopbackServer(ThreadedServer):
    """The loopback judge on a free port of 127.0.0.1, while it is entered.

    Args:
        directory: Where to keep the batches; None keeps them in memory only.
        processing_seconds: How long a batch takes.
        faults: What it does wrong, such as `create_drop_after:2`; see `faults`.

    Attributes:
        url: Where it listens; the base URL for a client.
        log: Counts what it accepted, also where the answer was lost.
        plan: Knows which faults have struck.
        store: Its batches.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        processing_seconds: float = 0.2,
        faults: Sequence[str] = (),
    ) -> None:
        self.plan = plan_faults(faults)
        self.store = _open_store(directory, processing_seconds, self.plan)
        self.log = RequestLog(self.store)
        app, http = _build_app(self.store, self.plan, directory)
        super().__init__(app, http=http)


def serve(
    host: str,
    port: int,
    directory: Path | None = None,
    *,
    processing_seconds: float = 0.2,
    faults: Sequence[str] = (),
) -> None:
    """Run the loopback judge in the foreground until it is interrupted.

    Args:
        host: An address of this machine that no other machine can reach.
        port: Where to listen; 0 picks a free port, which the log names.
        directory: Where to keep the batches; None keeps them in memory only.
        processing_seconds: How long a batch takes.
        faults: What it does wrong, such as `create_drop_after:2`; see `faults`.

    Raises:
        ValueError: If other machines could reach the host: anybody could then read the requests;
            or if one of the faults is none.
    """
    if not is_loopback(host):
        raise ValueError(
            f"the judge server was asked to listen on {host!r}; "
            "expected a loopback address such as '127.0.0.1', '::1' or 'localhost'"
        )
    plan = plan_faults(faults)
    store = _open_store(directory, processing_seconds, plan)
    app, http = _build_app(store, plan, directory)
    uvicorn.run(app, host=host, port=port, http=http, lifespan="off", ws="none")


def _open_store(directory: Path | None, processing_seconds: float, plan: FaultPlan) -> BatchStore:
    return BatchStore(
        directory, processing_seconds=processing_seconds, cache=make_cache(plan), plan=plan
    )


def _build_app(
    store: BatchStore, plan: FaultPlan, directory: Path | None
) -> tuple[ASGIApp, _Protocol]:
    """Return the judge with its faults; without any, it is the plain one."""
    if plan.is_empty:
        return OpenAiDoor(create_app(store), directory), "auto"
    limit = plan.find("create_413_above")
    app = create_app(store, max_requests=math.inf if limit is None else limit.argument)
    return OpenAiDoor(FaultyApp(app, store, plan), directory), DroppableProtocol


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_faults(_context: Any, _option: Any, faults: tuple[str, ...]) -> tuple[str, ...]:
    try:
        plan_faults(faults)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return faults


@click.command("judge-server")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free port.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep batches here, so that a restarted server still knows them.",
)
@click.option(
    "--processing-seconds",
    type=click.FloatRange(min=0),
    default=0.2,
    show_default=True,
    help="How long a batch takes.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[:ARG]",
    callback=_check_faults,
    help="Inject this fault, such as create_drop_after:2. May be repeated.",
)
@click.option("--list-faults", is_flag=True, help="List all faults, and stop.")
def judge_server_command(
    port: int,
    state: Path | None,
    processing_seconds: float,
    faults: tuple[str, ...],
    list_faults: bool,
) -> None:
    """Run the loopback judge on 127.0.0.1, in the foreground, until interrupted.

    It is a lexical scorer, not a language model. It speaks the Messages and Message Batches
    protocol; to use it, export ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any

    It also speaks OpenAI's chat completions and Batch API, at judge.base_url
    http://127.0.0.1:PORT/v1
    """
    if list_faults:
        click.echo(describe_catalogue())
        return
    serve("127.0.0.1", port, state, processing_seconds=processing_seconds, faults=faults)


class DroppableProtocol(H11Protocol):
    """HTTP/1.1 that lets the application close the connection under its own answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Hand the connection to the application with every request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


async def drop_connection(scope: Scope, receive: Receive, said: bytes = b"") -> None:
    """Close a request's connection after some last bytes, which need not be a whole answer."""
    transport: asyncio.Transport = scope["state"]["transport"]
    transport.write(said)
    transport.close()
    # Had the application returned before the end was noticed, uvicorn would answer 500.
    await wait_for_disconnect(receive)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


_INJECTED = "The loopback judge injects this."
_RATE_LIMIT = Refusal(429, "rate_limit_error", "Number of requests exceeds your limit")
_REFUSALS = {
    "400": Refusal(400, "invalid_request_error", _INJECTED),
    "401": Refusal(401, "authentication_error", "invalid x-api-key"),
    "402": Refusal(402, "billing_error", "Your credit balance is too low."),
    "403": Refusal(403, "permission_error", "Your API key may not use this resource."),
    "413": Refusal(413, "request_too_large", "Request exceeds the maximum size"),
    "429": _RATE_LIMIT,
    "429_bare": _RATE_LIMIT,
    "500": Refusal(500, "api_error", "Internal server error"),
    "504": Refusal(504, "timeout_error", "The request timed out"),
    "529": Refusal(529, "overloaded_error", "Overloaded"),
}
_POLL_BURST = (
    Refusal(500, "api_error", _INJECTED),
    Refusal(503, "api_error", _INJECTED),
    Refusal(504, "timeout_error", _INJECTED),
    Refusal(529, "overloaded_error", _INJECTED),
)
_SPEND_LIMIT = {
    "type": "error",
    "error": {
        "type": "rate_limit_error",
        "message": "You have reached your spend limit.",
        "details": {"error_code": "enforced_spend_limit_reached"},
    },
    "request_id": "req_loopback",
}
_GATEWAY_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>502</body></html>"


def inject_answer(request: Request, fault: str) -> Response | None:
    """Return what a fault of creations or of direct messages says; None if it says nothing."""
    _, _, name = fault.removesuffix("_after").partition("_")
    if name == "html_502":
        return HTMLResponse(_GATEWAY_PAGE, 502)
    if name == "redirect":
        return inject_redirect(request, 307)
    if name == "spend_limit":
        return JSONResponse(_SPEND_LIMIT, 429)
    if name not in _REFUSALS:
        return None
    answer = answer_refusal(request, _REFUSALS[name])
    if name == "429":
        answer.headers["retry-after"] = "1"
    return answer


def inject_redirect(request: Request, status: int) -> Response:
    """Send the client to this server under another name, which is another host to it."""
    return RedirectResponse(request.url.replace(hostname="localhost"), status)


def inject_not_found(request: Request) -> Response:
    """Return that there is no such thing."""
    return answer_refusal(request, Refusal(404, "not_found_error", _INJECTED))


_BATCHES = "/v1/messages/batches"
_MESSAGES = "/v1/messages"
_MODELS = "/v1/models/"
_RESULTS_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-jsonl\r\nconnection: close\r\n"


class FaultyApp:
    """Passes requests on to the judge and commits the planned faults on the way.

    Args:
        app: The judge.
        store: Its batches; a foreign batch is put there.
        plan: Which faults strike.
    """

    def __init__(self, app: ASGIApp, store: BatchStore, plan: FaultPlan) -> None:
        self._app = app
        self._store = store
        self._plan = plan
        self._newest_id: str | None = None
        self._poll_failures = cycle(_POLL_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, rightly or wrongly."""
        method, path = scope.get("method"), scope.get("path", "")
        if path == _BATCHES and method == "POST":
            await self._create(scope, receive, send)
        elif path == _MESSAGES and method == "POST":
            await self._answer_directly(scope, receive, send)
        elif path == _BATCHES and method == "GET":
            await self._list(scope, receive, send)
        elif path.startswith(f"{_BATCHES}/") and path.endswith("/results"):
            await self._show_results(scope, receive, send)
        elif path.startswith(f"{_BATCHES}/") and method == "GET":
            await self._poll(scope, receive, send)
        elif path.startswith(_MODELS) and self._plan.take("model") is not None:
            await inject_not_found(Request(scope))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _create(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Response()
        size: int | None = None
        fault = self._plan.take("create")
        if fault is None or _strikes_after_accepting(fault):
            answer = await self._ask(scope, receive)
            if answer.status_code == 200:
                self._newest_id = _read(answer)["id"]
                size = sum(_read(answer)["request_counts"].values())
            elif fault is not None:
                self._plan.give_back(fault)
                fault = None
        else:
            size = await _count_requests(scope, receive)
        await self._add_foreign_batch(size)
        if fault is not None and fault.name.startswith("create_drop"):
            await drop_connection(scope, receive)
            return
        if fault is not None and fault.name == "create_hang":
            with suppress(TimeoutError):
                await asyncio.wait_for(wait_for_disconnect(receive), fault.argument)
                return
        if fault is not None and fault.name == "create_no_id":
            batch = _read(answer)
            del batch["id"]
            answer = _rewrite(answer, batch)
        elif fault is not None:
            answer = inject_answer(Request(scope), fault.name) or answer
        await answer(scope, receive, send)

    async def _answer_directly(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""

        async def overhear() -> Message:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        fault = self._plan.take("direct")
        if fault is None or _strikes_after_accepting(fault):
            answer = await self._ask(scope, overhear)
            if answer.status_code != 200 and fault is not None:
                self._plan.give_back(fault)
                fault = None
        else:
            await Request(scope, receive).body()
            answer = inject_answer(Request(scope), fault.name) or Response()
        if fault is not None and fault.name.startswith("message_drop"):
            await drop_connection(scope, receive)
            return
        if answer.status_code == 200:
            reply_fault = self._plan.take_name("direct_reply")
            if reply_fault is not None:
                message = spoil_message(
                    _read(answer),
                    reply_fault.removeprefix("direct_"),
                    max_tokens=json.loads(body)["max_tokens"],
                )
                answer = _rewrite(answer, message)
        await answer(scope, receive, send)

    async def _list(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._ask(scope, receive)
        rows = _read(answer).get("data", [])
        shown = [row for row in rows if row["id"] != self._newest_id]
        if len(shown) < len(rows) and self._plan.take("list") is not None:
            has_more = _read(answer)["has_more"]
            answer = _rewrite(answer, describe_page(shown, has_more=has_more))
        await answer(scope, receive, send)

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = self._plan.take_name("poll")
        request = Request(scope)
        if name == "poll_404":
            answer = inject_not_found(request)
        elif name == "poll_redirect":
            answer = inject_redirect(request, 302)
        elif name == "poll_5xx":
            answer = answer_refusal(request, next(self._poll_failures))
        else:
            answer = await self._ask(scope, receive)
            if answer.status_code == 200:
                answer = self._spoil_status(answer, name)
        await answer(scope, receive, send)

    def _spoil_status(self, answer: Response, name: str | None) -> Response:
        batch = _read(answer)
        if name == "unknown_status":
            changes = {"processing_status": "a_status_of_tomorrow", "results_url": None}
            return _rewrite(answer, {**batch, **changes})
        if batch["results_url"] is None:
            return answer
        path = f"{_BATCHES}/{batch['id']}/results"
        urls = {
            "ended_without_url": None,
            "foreign_host": f"http://foreign.invalid{path}",
            "relative_url": path,
        }
        name = self._plan.take_name("ended")
        return _rewrite(answer, {**batch, "results_url": urls[name]}) if name else answer

    async def _show_results(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._plan.take("results")
        if fault is None:
            await self._app(scope, receive, send)
            return
        if fault.name == "results_redirect":
            await inject_redirect(Request(scope), 302)(scope, receive, send)
            return
        shape: Shape = scope.pop("loopback.shape", keep_shape)
        answer = await self._ask(scope, receive)
        if answer.status_code != 200:
            self._plan.give_back(fault)
            await answer(scope, receive, send)
            return
        lines = spoil_lines(bytes(answer.body).splitlines(keepends=True), fault.name)
        lines = list(shape(lines))
        whole = b"".join(lines)
        if fault.name.startswith("results_cut"):
            is_silent = fault.name.endswith("_silent")
            length = b"" if is_silent else b"content-length: %d\r\n" % len(whole)
            cut = cut_lines(lines, mid_line="mid_line" in fault.name)
            # Without a length, the end of the connection is the end of the answer.
            await drop_connection(scope, receive, _RESULTS_HEAD + length + b"\r\n" + cut)
        elif fault.name == "results_split_crlf":
            await StreamingResponse(_halve_line_ends(lines))(scope, receive, send)
        else:
            await Response(whole, media_type="application/x-jsonl")(scope, receive, send)

    async def _add_foreign_batch(self, size: int | None) -> None:
        if size is None or self._plan.take("foreign") is None:
            return
        params = {
            "model": "claude-opus-5-5",
            "max_tokens": 16,
            "messages": [{"role": "user", "content": "Say hello."}],
        }
        requests = [(f"foreign-{number}", params) for number in range(size)]
        await run_in_threadpool(self._store.create, requests, is_foreign=True)

    async def _ask(self, scope: Scope, receive: Receive) -> Response:
        """Return the judge's whole answer instead of sending it."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        start, *rest = messages
        answer = Response(b"".join(each.get("body", b"") for each in rest), start["status"])
        answer.raw_headers = list(start["headers"])
        return answer


def _strikes_after_accepting(fault: Fault) -> bool:
    return fault.name.endswith("_after") or fault.name in ("create_hang", "create_no_id")


async def _count_requests(scope: Scope, receive: Receive) -> int | None:
    """Read a submission to its end; None if it would not have been accepted anyway."""
    try:
        return len(await read_requests(Request(scope, receive).stream()))
    except Refusal:
        return None


async def _halve_line_ends(lines: list[bytes]) -> AsyncIterator[bytes]:
    """Yield lines that end in CRLF, broken between the two."""
    rest = b""
    for line in lines:
        yield rest + line.rstrip(b"\n") + b"\r"
        rest = b"\n"
        # Two chunks that are written at once may arrive as one.
        await asyncio.sleep(0)
    yield rest


def _read(answer: Response) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(bytes(answer.body))
    return value


def _rewrite(answer: Response, value: dict[str, Any]) -> Response:
    return JSONResponse(value, headers={"request-id": answer.headers["request-id"]})
