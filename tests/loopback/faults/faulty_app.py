"""The loopback judge with the planned faults around it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import cycle, islice
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.loopback.faults.accounts import MessageLog
from tests.loopback.faults.catalogue import Fault, FaultPlan
from tests.loopback.faults.fates import FOREIGN, Fate, Fates
from tests.loopback.faults.spoiling import cut_lines, spoil_lines, spoil_message, spoil_row
from tests.loopback.faults.wire import (
    POLL_BURST,
    drop_connection,
    inject_answer,
    inject_not_found,
    inject_redirect,
    wait_for_disconnect,
)
from tournament_assets.loopback.batches import BatchStore, StoredBatch
from tournament_assets.loopback.openai_door import keep_answer
from tournament_assets.loopback.server import (
    Refusal,
    Shape,
    answer_refusal,
    describe_page,
    read_requests,
)

_BATCHES = "/v1/messages/batches"
_MESSAGES = "/v1/messages"
_MODELS = "/v1/models/"
_RESULTS_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-jsonl\r\nconnection: close\r\n"


class ConnectionDroppedError(Exception):
    """The connection was closed instead of answering."""


class FaultyApp:
    """Passes requests on to the judge and commits the planned faults on the way.

    Args:
        app: The judge.
        store: Its batches; a foreign batch is put there.
        plan: Which faults strike.
        fates: What becomes of the batches.
        messages: Where direct messages are written down that were answered.
        ahead: How far its clock is ahead.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: BatchStore,
        plan: FaultPlan,
        fates: Fates,
        messages: MessageLog,
        ahead: timedelta = timedelta(0),
    ) -> None:
        self._ahead = ahead
        self._app = app
        self._store = store
        self._plan = plan
        self._fates = fates
        self._messages = messages
        self._newest_id: str | None = None
        self._poll_failures = cycle(POLL_BURST)
        limit = plan.find("create_413_above")
        self._most_requests = None if limit is None else limit.argument

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, rightly or wrongly."""
        method, path = scope.get("method"), scope.get("path", "")
        if path == _BATCHES and method == "POST":
            answer = await self._create(scope, receive)
        elif path == _MESSAGES and method == "POST":
            answer = await self._answer_directly(scope, receive)
        elif path == _BATCHES and method == "GET":
            answer = await self._list(scope, receive)
        elif path.startswith(f"{_BATCHES}/") and path.endswith("/results"):
            answer = await self._show_results(scope, receive)
        elif path.startswith(f"{_BATCHES}/") and method == "GET":
            answer = await self._poll(scope, receive)
        elif path.startswith(_MODELS) and self._plan.take("model") is not None:
            answer = inject_not_found(Request(scope))
        else:
            answer = await keep_answer(self._app, scope, receive)
        await answer(scope, receive, send)

    async def _create(self, scope: Scope, receive: Receive) -> Response:
        body = await Request(scope, receive).body()
        size = _count_requests(body)
        if self._most_requests is not None and (size or 0) > self._most_requests:
            too_large = Refusal(413, "request_too_large", "Request exceeds the maximum size")
            return answer_refusal(Request(scope), too_large)
        fault = self._plan.take("create")
        answer = Response()
        if fault is None or _strikes_after_accepting(fault):
            answer = await keep_answer(self._app, scope, _replay(body, receive))
            if answer.status_code == 200:
                self._newest_id = _read(answer)["id"]
            elif fault is not None:
                self._plan.give_back(fault)
                fault = None
        if size is not None and self._plan.take("foreign") is not None:
            await self._add_foreign_batch(size)
        if fault is None:
            return answer
        if fault.name.startswith("create_drop"):
            await self._drop(scope, receive)
        if fault.name == "create_hang":
            with suppress(TimeoutError):
                await asyncio.wait_for(wait_for_disconnect(receive), fault.argument)
                raise ConnectionDroppedError
        if fault.name == "create_no_id":
            batch = _read(answer)
            del batch["id"]
            return _rewrite(answer, batch)
        return inject_answer(Request(scope), fault.name) or answer

    async def _answer_directly(self, scope: Scope, receive: Receive) -> Response:
        body = await Request(scope, receive).body()
        fault = self._plan.take("direct")
        if fault is None or _strikes_after_accepting(fault):
            answer = await keep_answer(self._app, scope, _replay(body, receive))
            if answer.status_code == 200:
                # Written down first: what was answered counts, whatever becomes of the answer.
                await run_in_threadpool(self._messages.record, json.loads(body))
            elif fault is not None:
                self._plan.give_back(fault)
                fault = None
        else:
            answer = inject_answer(Request(scope), fault.name) or Response()
        if fault is not None and fault.name.startswith("message_drop"):
            await self._drop(scope, receive)
        if answer.status_code == 200:
            reply_fault = self._plan.take_name("direct_reply")
            if reply_fault is not None:
                message = spoil_message(
                    _read(answer),
                    reply_fault.removeprefix("direct_"),
                    max_tokens=json.loads(body)["max_tokens"],
                )
                answer = _rewrite(answer, message)
        return answer

    async def _list(self, scope: Scope, receive: Receive) -> Response:
        answer = await keep_answer(self._app, scope, receive)
        page = _read(answer)
        if answer.status_code != 200:
            return answer
        rows = [self._describe(row) for row in page["data"]]
        shown = [row for row in rows if row["id"] != self._newest_id]
        if len(shown) < len(rows) and self._plan.take("list") is not None:
            rows = shown
        return _rewrite(answer, describe_page(rows, has_more=page["has_more"]))

    async def _poll(self, scope: Scope, receive: Receive) -> Response:
        name = self._plan.take_name("poll")
        request = Request(scope)
        if name == "poll_404":
            return inject_not_found(request)
        if name == "poll_redirect":
            return inject_redirect(request, 302)
        if name == "poll_5xx":
            return answer_refusal(request, next(self._poll_failures))
        answer = await keep_answer(self._app, scope, receive)
        if answer.status_code != 200:
            return answer
        batch = self._describe(_read(answer))
        if name == "unknown_status":
            changes = {"processing_status": "a_status_of_tomorrow", "results_url": None}
            batch = {**batch, **changes}
        elif batch["results_url"] is not None:
            path = f"{_BATCHES}/{batch['id']}/results"
            urls = {
                "ended_without_url": None,
                "foreign_host": f"http://foreign.invalid{path}",
                "relative_url": path,
            }
            name = self._plan.take_name("ended")
            batch = {**batch, "results_url": urls[name]} if name else batch
        return _rewrite(answer, batch)

    def _describe(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Say of a batch what its fate leaves of it."""
        created_at = datetime.fromisoformat(batch["created_at"]) + self._ahead
        batch = {**batch, "created_at": created_at.isoformat()}
        fate = self._fates.get(batch["id"])
        if fate is None or batch["processing_status"] != "ended":
            return batch
        if fate.fault == "never_ends":
            counts = {**dict.fromkeys(batch["request_counts"], 0)}
            counts["processing"] = sum(batch["request_counts"].values())
            changes = {"processing_status": "in_progress", "ended_at": None, "results_url": None}
            return {**batch, **changes, "request_counts": counts}
        counts = {**dict.fromkeys(batch["request_counts"], 0), **fate.counts}
        if fate.fault == "batch_canceled":
            batch = {**batch, "cancel_initiated_at": batch["created_at"]}
        if fate.fault == "archived":
            batch = {**batch, "archived_at": batch["ended_at"], "results_url": None}
        if fate.fault == "batch_refused":
            batch = {**batch, "refused": True}
        return {**batch, "request_counts": counts}

    async def _show_results(self, scope: Scope, receive: Receive) -> Response:
        fault = self._plan.take("results")
        if fault is not None and fault.name == "results_redirect":
            return inject_redirect(Request(scope), 302)
        batch = self._store.get(scope["path"].split("/")[-2])
        fate = None if batch is None else self._fates.get(batch.batch_id)
        if batch is not None and fate is not None and fate.fault in ("archived", "never_ends"):
            gone = fate.fault == "archived"
            kind = "not_found_error" if gone else "invalid_request_error"
            answer = answer_refusal(Request(scope), Refusal(404 if gone else 400, kind, fate.fault))
        elif fault is None and fate is None:
            return await keep_answer(self._app, scope, receive)
        else:
            shape: Shape = scope.pop("loopback.shape", iter)
            answer = await keep_answer(self._app, scope, receive)
        if answer.status_code != 200 or batch is None:
            if fault is not None:
                self._plan.give_back(fault)
            return answer
        lines = bytes(answer.body).splitlines(keepends=True)
        if fate is not None:
            lines = list(spoil_rows(lines, batch, fate))
        if fault is None:
            return _send(list(shape(lines)))
        lines = list(shape(spoil_lines(lines, fault.name)))
        if fault.name.startswith("results_cut"):
            is_silent = fault.name.endswith("_silent")
            length = b"" if is_silent else b"content-length: %d\r\n" % sum(map(len, lines))
            cut = cut_lines(lines, mid_line="mid_line" in fault.name)
            # Without a length, the end of the connection is the end of the answer.
            await self._drop(scope, receive, _RESULTS_HEAD + length + b"\r\n" + cut)
        if fault.name == "results_split_crlf":
            return StreamingResponse(_halve_line_ends(lines))
        return _send(lines)

    async def _add_foreign_batch(self, size: int) -> None:
        params = {
            "model": "claude-opus-5-5",
            "max_tokens": 16,
            "messages": [{"role": "user", "content": "Say hello."}],
        }
        requests = [(f"{FOREIGN}-{number}", params) for number in range(size)]
        await run_in_threadpool(self._store.create, requests)

    async def _drop(self, scope: Scope, receive: Receive, said: bytes = b"") -> None:
        await drop_connection(scope, receive, said)
        raise ConnectionDroppedError


def spoil_rows(lines: list[bytes], batch: StoredBatch, fate: Fate) -> Iterator[bytes]:
    """Yield the lines of a batch's results that its fate leaves to be seen."""
    shown = {"results_stay_short": len(lines) // 2, "results_stay_empty": 0}
    n_shown = shown.get(fate.fault or "", len(lines))
    for line, request in islice(zip(lines, batch.iterate_requests(), strict=True), n_shown):
        fault = fate.rows.get(request.custom_id)
        cap = request.params.get("max_tokens", 0)
        yield line if fault is None else spoil_row(line, fault, max_tokens=cap)


def _strikes_after_accepting(fault: Fault) -> bool:
    return fault.name.endswith("_after") or fault.name in ("create_hang", "create_no_id")


def _count_requests(body: bytes) -> int | None:
    """Count the requests of a submission; None if it would not be accepted anyway."""
    try:
        return len(read_requests(body))
    except Refusal:
        return None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Let a body be read that was read already."""
    rest = [body]

    async def replay() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return replay


async def _halve_line_ends(lines: list[bytes]) -> AsyncIterator[bytes]:
    """Yield lines that end in CRLF, broken between the two."""
    rest = b""
    for line in lines:
        yield rest + line.rstrip(b"\n") + b"\r"
        rest = b"\n"
        # Two chunks that are written at once may arrive as one.
        await asyncio.sleep(0)
    yield rest


def _send(lines: list[bytes]) -> Response:
    return Response(b"".join(lines), media_type="application/x-jsonl")


def _read(answer: Response) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(bytes(answer.body))
    return value


def _rewrite(answer: Response, value: dict[str, Any]) -> Response:
    return JSONResponse(value, headers={"request-id": answer.headers["request-id"]})
