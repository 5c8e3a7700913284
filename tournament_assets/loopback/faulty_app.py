"""The judge's application with the faults that can be seen on the wire."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tournament_assets.loopback.bodies import read_requests
from tournament_assets.loopback.dropping import drop_connection, wait_for_disconnect
from tournament_assets.loopback.faults import Fault, FaultPlan
from tournament_assets.loopback.injected_answers import (
    inject_answer,
    inject_not_found,
    inject_poll_failure,
    inject_redirect,
)
from tournament_assets.loopback.refusals import Refusal
from tournament_assets.loopback.shapes import describe_page
from tournament_assets.loopback.spoiling import cut_lines, spoil_lines, spoil_message
from tournament_assets.loopback.store import BatchStore

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
        self._failed_polls = 0

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
            try:
                await asyncio.wait_for(wait_for_disconnect(receive), fault.argument)
            except TimeoutError:
                pass
            else:
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
            await _drain(scope, receive)
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
            answer = inject_poll_failure(request, self._failed_polls)
            self._failed_polls += 1
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
        name = self._plan.take_name("ended")
        if name == "ended_without_url":
            return _rewrite(answer, {**batch, "results_url": None})
        if name == "foreign_host":
            url = f"http://foreign.invalid{_BATCHES}/{batch['id']}/results"
            return _rewrite(answer, {**batch, "results_url": url})
        if name == "relative_url":
            url = f"{_BATCHES}/{batch['id']}/results"
            return _rewrite(answer, {**batch, "results_url": url})
        return answer

    async def _show_results(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._plan.take("results")
        if fault is None:
            await self._app(scope, receive, send)
            return
        if fault.name == "results_redirect":
            await inject_redirect(Request(scope), 302)(scope, receive, send)
            return
        answer = await self._ask(scope, receive)
        if answer.status_code != 200:
            self._plan.give_back(fault)
            await answer(scope, receive, send)
            return
        whole = bytes(answer.body)
        lines = whole.splitlines(keepends=True)
        if fault.name.startswith("results_cut"):
            is_silent = fault.name.endswith("_silent")
            length = b"" if is_silent else b"content-length: %d\r\n" % len(whole)
            cut = cut_lines(lines, mid_line="mid_line" in fault.name)
            # Without a length, the end of the connection is the end of the answer.
            await drop_connection(scope, receive, _RESULTS_HEAD + length + b"\r\n" + cut)
        elif fault.name == "results_split_crlf":
            await StreamingResponse(_halve_line_ends(lines))(scope, receive, send)
        else:
            spoiled = b"".join(spoil_lines(lines, fault.name))
            await Response(spoiled, media_type="application/x-jsonl")(scope, receive, send)

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


async def _drain(scope: Scope, receive: Receive) -> None:
    async for _ in Request(scope, receive).stream():
        pass


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
