"""An adapter through which the loopback judge speaks OpenAI's protocol.

Requests are translated into the Messages API and passed to the judge behind it, and its answers are
translated back. So both protocols share one judge and one log.
"""

import json
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tournament_assets.loopback.server import Refusal, answer_refusal, invalid, read_object

_CHAT = "/v1/chat/completions"
_MESSAGES = "/v1/messages"
_BATCHES = "/v1/batches"
_FILES = "/v1/files"
_MODELS = "/v1/models"
_RESULTS = {"output": "file-output-", "error": "file-error-"}
"""The prefixes of the names of a batch's two files; the batch's own name follows."""
_DEFAULT_CAP = 4096
_FINISH_REASONS = {"end_turn": "stop", "max_tokens": "length"}
_PASSED = (b"host", b"authorization", b"x-api-key")


def read_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a chat completion's parameters into those of the Messages API.

    Raises:
        Refusal: If they are not a valid chat.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
        raise invalid("messages: expected a list of messages")
    system = [each for each in messages if each.get("role") in ("system", "developer")]
    params = {
        "model": body.get("model"),
        "max_tokens": body.get("max_completion_tokens", body.get("max_tokens", _DEFAULT_CAP)),
        "messages": [each for each in messages if each not in system],
    }
    if system:
        text = "\n\n".join(str(each.get("content", "")) for each in system)
        params["system"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    reply_format = body.get("response_format")
    if isinstance(reply_format, Mapping) and reply_format.get("type") == "json_schema":
        schema = (reply_format.get("json_schema") or {}).get("schema")
        params["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if body.get("stream"):
        params["stream"] = True
    return params


def read_line(line: bytes) -> dict[str, Any]:
    """Return a line of an uploaded file as a request of the Message Batches API.

    Raises:
        Refusal: If it is not one.
    """
    try:
        row = json.loads(line)
        return {"custom_id": row["custom_id"], "params": read_chat(row["body"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise invalid(f"{line[:60]!r} is not a request of a batch.") from None


def read_upload(body: bytes, content_type: str) -> bytes:
    """Return the file in a form, which is its longest part.

    Raises:
        Refusal: If there is none.
    """
    _, _, boundary = content_type.partition("boundary=")
    mark = b"--" + boundary.strip('"').encode()
    parts = [part.partition(b"\r\n\r\n")[2] for part in body.split(mark)]
    content = max(parts, key=len, default=b"").removesuffix(b"\r\n")
    if not boundary or not content:
        raise invalid("file: expected a form with a file")
    return content


class OpenAiDoor:
    """An application that serves both protocols.

    Args:
        app: The judge, which speaks the Messages API.
        directory: Where to keep uploaded files, so that a restarted server still has them.
    """

    def __init__(self, app: ASGIApp, directory: Path) -> None:
        self._app = app
        self._directory = directory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in its own protocol."""
        answer = self._find_answer(scope)
        if answer is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await answer(request)
        except (Refusal, HTTPException) as error:
            response = answer_refusal(request, error)
        await response(scope, receive, send)

    def write_completion(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message of the Messages API as a chat completion."""
        usage = message["usage"]
        cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        read = usage["input_tokens"] + cached + written
        text = "".join(block.get("text", "") for block in message["content"])
        reason = message["stop_reason"]
        return {
            "id": f"chatcmpl-{message['id']}",
            "object": "chat.completion",
            "created": 0,
            "model": message["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": None},
                    "finish_reason": _FINISH_REASONS.get(reason, reason),
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": usage["output_tokens"],
                "total_tokens": read + usage["output_tokens"],
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    def write_batch(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch of the Message Batches API as one of the Batch API."""
        counts, has_ended = batch["request_counts"], batch["processing_status"] == "ended"
        n_failed = sum(counts.values()) - counts["processing"] - counts["succeeded"]
        n_rows = {"output": counts["succeeded"], "error": n_failed} if has_ended else {}
        return {
            "id": batch["id"],
            "object": "batch",
            "endpoint": _CHAT,
            "completion_window": "24h",
            "status": "completed" if has_ended else batch["processing_status"],
            "errors": None,
            **{
                f"{kind}_file_id": f"{prefix}{batch['id']}" if n_rows.get(kind) else None
                for kind, prefix in _RESULTS.items()
            },
            "created_at": int(datetime.fromisoformat(batch["created_at"]).timestamp()),
            "request_counts": {
                "total": sum(counts.values()),
                "completed": counts["succeeded"],
                "failed": n_failed,
            },
            "metadata": batch.get("metadata"),
        }

    def write_row(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a batch's file for the result of a request."""
        if result["type"] == "succeeded":
            body = self.write_completion(result["message"])
            return {"response": {"status_code": 200, "body": body}, "error": None}
        error = {**result["error"]["error"], "code": None, "param": None}
        return {"response": {"status_code": 400, "body": {"error": error}}, "error": None}

    def write_error(self, error: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a refusal says."""
        return {"message": error["message"], "type": error["type"], "param": None, "code": None}

    def _write_page(self, page: Mapping[str, Any]) -> dict[str, Any]:
        return {**page, "object": "list", "data": [self.write_batch(each) for each in page["data"]]}

    def _write_results(self, lines: Iterable[bytes], *, kind: str) -> Iterator[bytes]:
        """Yield the lines of one of a batch's two files; unreadable lines are in the first one."""
        for line in lines:
            try:
                row = json.loads(line)
                name, result = row["custom_id"], row["result"]
            except (ValueError, TypeError):
                if kind == "output":
                    yield line
                continue
            if (result["type"] == "succeeded") is (kind == "output"):
                row = {"id": f"batch_req_{name}", "custom_id": name, **self.write_row(result)}
                yield json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    def _find_answer(self, scope: Scope) -> Callable[[Request], Awaitable[Response]] | None:
        method, path = scope.get("method"), scope.get("path", "")
        if method == "POST" and path == _CHAT:
            return self._complete
        if method == "POST" and path == _FILES:
            return self._upload
        if path == _BATCHES:
            return self._create if method == "POST" else self._list
        if path.startswith(f"{_BATCHES}/"):
            return self._show_batch
        if path.startswith(f"{_FILES}/") and path.endswith("/content"):
            return self._show_file
        return self._show_model if path.startswith(f"{_MODELS}/") else None

    async def _complete(self, request: Request) -> Response:
        params = read_chat(await read_object(request))
        return await self._ask(request, "POST", _MESSAGES, params, write=self.write_completion)

    async def _show_model(self, request: Request) -> Response:
        return await self._ask(request, "GET", request.url.path, write=dict)

    async def _upload(self, request: Request) -> Response:
        content = read_upload(await request.body(), request.headers.get("content-type", ""))
        file_id = f"file-{uuid.uuid4().hex}"
        await run_in_threadpool(self._uploaded(file_id).write_bytes, content)
        return JSONResponse({"id": file_id, "object": "file", "purpose": "batch"})

    async def _create(self, request: Request) -> Response:
        body = await read_object(request)
        path = self._uploaded(str(body.get("input_file_id")))
        if not path.is_file():
            raise Refusal(404, "not_found_error", f"No such File object: {path.stem}")
        requests = [read_line(line) for line in path.read_bytes().split(b"\n") if line.strip()]
        return await self._ask(
            request,
            "POST",
            f"{_MESSAGES}/batches",
            {"requests": requests},
            write=self.write_batch,
            metadata=body.get("metadata") or {},
        )

    async def _list(self, request: Request) -> Response:
        parameters = request.query_params
        query = {"limit": parameters.get("limit", "20")}
        if "after" in parameters:
            query["after_id"] = parameters["after"]
        path = f"{_MESSAGES}/batches"
        return await self._ask(request, "GET", path, write=self._write_page, query=urlencode(query))

    async def _show_batch(self, request: Request) -> Response:
        path = f"{_MESSAGES}/batches/{request.url.path.removeprefix(_BATCHES).lstrip('/')}"
        return await self._ask(request, request.method, path, write=self.write_batch)

    async def _show_file(self, request: Request) -> Response:
        file_id = request.url.path.removeprefix(f"{_FILES}/").removesuffix("/content")
        for kind, prefix in _RESULTS.items():
            if file_id.startswith(prefix):
                path = f"{_MESSAGES}/batches/{file_id.removeprefix(prefix)}/results"
                shape = partial(self._write_results, kind=kind)
                return await self._ask(request, "GET", path, write=dict, shape=shape)
        raise Refusal(404, "not_found_error", f"No such File object: {file_id}")

    def _uploaded(self, file_id: str) -> Path:
        return self._directory / f"{Path(file_id).name}.upload"

    async def _ask(
        self,
        request: Request,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        write: Callable[[dict[str, Any]], Mapping[str, Any]],
        query: str = "",
        **more: Any,
    ) -> Response:
        """Ask the judge behind the door.

        Args:
            request: The incoming request.
            method: The method of the request to the judge.
            write: Translates an answer other than a refusal into this protocol.
            query: Its query string.
            more: Further entries of the ASGI scope, under names that begin with `loopback.`.
        """
        sent = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8")
        headers = [(name, value) for name, value in request.scope["headers"] if name in _PASSED]
        if not any(name == b"authorization" for name, _ in headers):
            # Many servers of this protocol need no key.
            headers.append((b"x-api-key", b"none"))
        scope = {
            **request.scope,
            **{f"loopback.{name}": value for name, value in more.items()},
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        is_read = False

        async def receive() -> Message:
            nonlocal is_read
            if is_read:
                return await request.receive()
            is_read = True
            return {"type": "http.request", "body": sent, "more_body": False}

        answer = await keep_answer(self._app, scope, receive)
        if answer.headers.get("content-type") != "application/json":
            return answer
        value = json.loads(bytes(answer.body))
        if answer.status_code == 200:
            written: Mapping[str, Any] = write(value)
        else:
            written = {"error": self.write_error(value["error"])}
        passed_on = {
            name: text
            for name, text in answer.headers.items()
            if name not in ("content-length", "content-type")
        }
        return JSONResponse(written, answer.status_code, passed_on)


async def keep_answer(app: ASGIApp, scope: Scope, receive: Receive) -> Response:
    """Return an application's whole answer instead of sending it."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    start, *rest = messages
    answer = Response(b"".join(each.get("body", b"") for each in rest), start["status"])
    answer.raw_headers = list(start["headers"])
    return answer
