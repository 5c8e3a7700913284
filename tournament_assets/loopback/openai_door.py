"""A second door to the loopback judge, at which OpenAI's protocol is spoken.

What comes in is put into the words of the Messages API and handed to the judge behind it, faults
and all, and what that answers is put back. So both protocols have one judge, one log and one
catalogue of faults.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
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

from tournament_assets.loopback.submissions import Refusal, answer_refusal, invalid, read_object

_CHAT = "/v1/chat/completions"
_MESSAGES = "/v1/messages"
_BATCHES = "/v1/batches"
_FILES = "/v1/files"
_MODELS = "/v1/models"
_RESULTS = {"output": "file-output-", "error": "file-error-"}
"""What the names of a batch's two files begin with; its own name follows."""
_DEFAULT_CAP = 4096
_FINISH_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}


def read_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion's parameters in the words of the Messages API.

    Raises:
        Refusal: If they make no sense as a chat.
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
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") == "json_schema":
        schema = (wanted.get("json_schema") or {}).get("schema")
        params["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if body.get("stream"):
        params["stream"] = True
    return params


def write_completion(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of the Messages API as a chat completion."""
    blocks = message["content"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    reason = message["stop_reason"]
    said: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if thoughts:
        said["reasoning_content"] = thoughts
    usage = message["usage"]
    cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    read = usage["input_tokens"] + cached + written
    return {
        "id": f"chatcmpl-{message['id']}",
        "object": "chat.completion",
        "created": 0,
        "model": message["model"],
        "choices": [
            {
                "index": 0,
                "message": said,
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


def read_line(line: bytes) -> dict[str, Any]:
    """Return a line of an uploaded file as a request of the Message Batches API.

    Raises:
        Refusal: If it is none.
    """
    try:
        row = json.loads(line)
        return {"custom_id": row["custom_id"], "params": read_chat(row["body"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise invalid(f"{line[:60]!r} is not a request of a batch.") from None


def write_batch(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch of the Message Batches API as one of the Batch API."""
    counts, status = batch["request_counts"], batch["processing_status"]
    total = sum(counts.values())
    n_failed = total - counts["processing"] - counts["succeeded"]
    files: dict[str, str | None] = {"output": None, "error": None}
    if status == "ended":
        status = "completed"
        if batch["results_url"] is not None or batch["archived_at"] is not None:
            for kind, n_rows in (("output", counts["succeeded"]), ("error", n_failed)):
                files[kind] = f"{_RESULTS[kind]}{batch['id']}" if n_rows else None
        if total in (counts["expired"], counts["canceled"]):
            status = "expired" if counts["expired"] else "cancelled"
    errors = None
    if batch.get("refused") and status == "completed":
        status, total, n_failed, files = "failed", 0, 0, {"output": None, "error": None}
        problem = {"code": "invalid_json_line", "message": "This line is not parseable as JSON."}
        errors = {"object": "list", "data": [problem]}
    return {
        "id": batch["id"],
        "object": "batch",
        "endpoint": _CHAT,
        "completion_window": "24h",
        "status": {"canceling": "cancelling"}.get(status, status),
        "errors": errors,
        "output_file_id": files["output"],
        "error_file_id": files["error"],
        "created_at": int(datetime.fromisoformat(batch["created_at"]).timestamp()),
        "request_counts": {
            "total": total,
            "completed": counts["succeeded"],
            "failed": n_failed,
        },
        "metadata": batch.get("metadata"),
    }


def write_page(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of batches in the words of the Batch API."""
    return {**page, "object": "list", "data": [write_batch(batch) for batch in page["data"]]}


def write_results(lines: Iterable[bytes], *, kind: str) -> Iterator[bytes]:
    """Yield the lines of one of a batch's two files; what is no row stands in the first one."""
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            if kind == "output":
                yield line
            continue
        is_answer = row["result"]["type"] == "succeeded"
        if is_answer is (kind == "output"):
            shown = _write_row(row["custom_id"], row["result"])
            yield json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _write_row(custom_id: str, result: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"batch_req_{custom_id}", "custom_id": custom_id}
    kind = result["type"]
    if kind == "succeeded":
        body = write_completion(result["message"])
        return {**row, "response": {"status_code": 200, "body": body}, "error": None}
    if kind == "errored":
        error = result["error"]["error"]
        status = _STATUSES.get(error["type"], 500)
        body = {"error": {**error, "code": None, "param": None}}
        return {**row, "response": {"status_code": status, "body": body}, "error": None}
    code = _CODES.get(kind, kind)
    problem = {"code": code, "message": f"This request could not be executed: {code}."}
    return {**row, "response": None, "error": problem}


_CODES = {"expired": "batch_expired", "canceled": "batch_cancelled"}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 503,
}


class Uploads:
    """Files that were uploaded; what no batch refers to is nobody's business.

    Args:
        directory: Where to keep them, so that a restarted server still has them; None keeps them in
            memory only.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._contents: dict[str, bytes] = {}

    def keep(self, content: bytes) -> str:
        """Keep a file and return its name."""
        file_id = f"file-{uuid.uuid4().hex}"
        if self._directory is None:
            self._contents[file_id] = content
        else:
            (self._directory / f"{file_id}.upload").write_bytes(content)
        return file_id

    def read(self, file_id: str) -> bytes:
        """Return a file's content.

        Raises:
            Refusal: If there is none of that name.
        """
        content = self._contents.get(file_id)
        path = None if self._directory is None else self._directory / f"{file_id}.upload"
        if content is None and path is not None and path.name == f"{Path(file_id).name}.upload":
            content = path.read_bytes() if path.exists() else None
        if content is None:
            raise Refusal(404, "not_found_error", f"No such File object: {file_id}")
        return content


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
    """Lets both protocols in.

    Args:
        app: The judge, which speaks the Messages API.
        directory: Where to keep uploaded files; None keeps them in memory only.
    """

    def __init__(self, app: ASGIApp, directory: Path | None = None) -> None:
        self._app = app
        self._uploads = Uploads(directory)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in the protocol in which it came."""
        answer = self._find_answer(scope)
        if answer is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await answer(request)
        except (Refusal, HTTPException) as error:
            response = answer_refusal(request, error)
        if response is not None:
            await response(scope, receive, send)

    def _find_answer(self, scope: Scope) -> Callable[[Request], Any] | None:
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

    async def _complete(self, request: Request) -> Response | None:
        params = read_chat(await read_object(request))
        return await self._ask(request, "POST", _MESSAGES, params, write=write_completion)

    async def _show_model(self, request: Request) -> Response | None:
        return await self._ask(request, "GET", request.url.path, write=dict)

    async def _upload(self, request: Request) -> Response:
        body = await request.body()
        content = read_upload(body, request.headers.get("content-type", ""))
        file_id = await run_in_threadpool(self._uploads.keep, content)
        return JSONResponse({"id": file_id, "object": "file", "purpose": "batch"})

    async def _create(self, request: Request) -> Response | None:
        asked = await read_object(request)
        content = self._uploads.read(str(asked.get("input_file_id")))
        requests = [read_line(line) for line in content.split(b"\n") if line.strip()]
        return await self._ask(
            request,
            "POST",
            f"{_MESSAGES}/batches",
            {"requests": requests},
            write=write_batch,
            metadata=asked.get("metadata") or {},
        )

    async def _list(self, request: Request) -> Response | None:
        given = request.query_params
        query = {"limit": given.get("limit", "20")}
        if "after" in given:
            query["after_id"] = given["after"]
        path = f"{_MESSAGES}/batches"
        return await self._ask(request, "GET", path, write=write_page, query=urlencode(query))

    async def _show_batch(self, request: Request) -> Response | None:
        path = f"{_MESSAGES}/batches/{request.url.path.removeprefix(_BATCHES).lstrip('/')}"
        return await self._ask(request, request.method, path, write=write_batch)

    async def _show_file(self, request: Request) -> Response | None:
        file_id = request.url.path.removeprefix(f"{_FILES}/").removesuffix("/content")
        for kind, prefix in _RESULTS.items():
            if file_id.startswith(prefix):
                path = f"{_MESSAGES}/batches/{file_id.removeprefix(prefix)}/results"
                shape = partial(write_results, kind=kind)
                return await self._ask(request, "GET", path, write=dict, shape=shape)
        return Response(self._uploads.read(file_id))

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
    ) -> Response | None:
        """Ask the judge behind the door; None if it closed the connection instead of answering.

        Args:
            request: What came in.
            method: The method of what is asked.
            path: Its path.
            body: Its body.
            write: Puts an answer that is no refusal into this protocol.
            query: Its query string.
            more: What else the judge finds in the scope, under names that begin with `loopback.`.
        """
        sent = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8")
        headers = [(name, value) for name, value in request.scope["headers"] if name in _PASSED]
        if not any(name == b"authorization" for name, _ in headers):
            # Many servers of this protocol want no key.
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

        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        if not messages:
            return None
        start, *rest = messages
        content = b"".join(each.get("body", b"") for each in rest)
        shown = {
            name.decode(): value.decode()
            for name, value in start["headers"]
            if name in (b"retry-after", b"location", b"content-type")
        }
        status = start["status"]
        content_type = shown.pop("content-type", "")
        if content_type != "application/json":
            return Response(content, status, shown, media_type=content_type)
        value = json.loads(content)
        return JSONResponse(write(value) if status == 200 else _write_error(value), status, shown)


_PASSED = (b"host", b"authorization", b"x-api-key")


def _write_error(value: Mapping[str, Any]) -> dict[str, Any]:
    """Put a refusal into OpenAI's words."""
    error = value["error"]
    details = error.get("details") or {}
    is_spent = details.get("error_code") == "enforced_spend_limit_reached"
    code = "insufficient_quota" if is_spent else None
    return {
        "error": {"message": error["message"], "type": error["type"], "param": None, "code": code}
    }
