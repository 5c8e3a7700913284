"""The HTTP side of the loopback judge: routes, checks and response formats."""

import json
import re
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tournament_assets.loopback.batches import BatchStore, NamedRequest, StoredBatch
from tournament_assets.loopback.messages import (
    Params,
    compose_message,
    count_input_tokens,
    find_invalid_parameter,
)

MAX_BATCH_REQUESTS = 100_000
MAX_BATCH_BYTES = 256 * 1024 * 1024
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHUNK_BYTES = 64 * 1024


class Refusal(Exception):  # noqa: N818 - it is an answer, not a failure of the server
    """An answer other than 200.

    Attributes:
        status: The HTTP status.
        kind: The kind of error, such as `invalid_request_error`.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


def invalid(message: str) -> Refusal:
    """Return the refusal of an invalid request."""
    return Refusal(400, "invalid_request_error", message)


def answer_refusal(_request: Request, refusal: Exception) -> Response:
    """Write a refusal in the API's format."""
    if isinstance(refusal, HTTPException):  # such as an unknown path
        kind = "not_found_error" if refusal.status_code == 404 else "invalid_request_error"
        refusal = Refusal(refusal.status_code, kind, refusal.detail)
    if not isinstance(refusal, Refusal):
        raise refusal
    request_id = _new_request_id()
    return JSONResponse(
        {
            "type": "error",
            "error": {"type": refusal.kind, "message": refusal.message},
            "request_id": request_id,
        },
        status_code=refusal.status,
        headers={"request-id": request_id},
    )


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body, or refuse the request."""
    return await run_in_threadpool(_parse_object, await request.body())


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode("utf-8", errors="surrogatepass"))
    except (ValueError, RecursionError):
        raise invalid("The request body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise invalid("The request body is not a JSON object.")
    return value


def read_requests(body: bytes) -> list[NamedRequest]:
    """Return a batch's requests by name, or refuse them all.

    As in the real service, the parameters are checked only when the request is processed.

    Raises:
        Refusal: If the batch cannot be accepted.
    """
    if len(body) > MAX_BATCH_BYTES:
        raise Refusal(413, "request_too_large", "Request exceeds the maximum size")
    rows = _parse_object(body).get("requests")
    if not isinstance(rows, list) or not rows:
        raise invalid("requests: expected at least one request")
    if len(rows) > MAX_BATCH_REQUESTS:
        raise invalid(f"requests: expected at most {MAX_BATCH_REQUESTS} requests")
    requests = [_read_request(index, row) for index, row in enumerate(rows)]
    name, times = Counter(name for name, _ in requests).most_common(1)[0]
    if times > 1:
        raise invalid(f"requests: custom_id {name!r} is used {times} times; expected it once")
    return requests


def _read_request(index: int, row: Any) -> NamedRequest:
    name, params = (row.get("custom_id"), row.get("params")) if isinstance(row, dict) else (0, 0)
    if not isinstance(name, str) or _CUSTOM_ID.fullmatch(name) is None:
        raise invalid(
            f"requests.{index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        )
    if not isinstance(params, dict):
        raise invalid(f"requests.{index}.params: Field required")
    return name, params


def describe_batch(batch: StoredBatch, request: Request) -> dict[str, Any]:
    """Describe a batch's progress; its results URL is on the host that was asked."""
    has_ended = batch.has_ended
    return {
        "id": batch.batch_id,
        "type": "message_batch",
        "processing_status": "ended" if has_ended else "in_progress",
        "request_counts": {
            "processing": 0 if has_ended else batch.n_requests,
            "succeeded": batch.n_requests - batch.n_invalid if has_ended else 0,
            "errored": batch.n_invalid if has_ended else 0,
            "canceled": 0,
            "expired": 0,
        },
        "created_at": batch.created_at.isoformat(),
        "ended_at": batch.ends_at.isoformat() if has_ended else None,
        "expires_at": batch.ends_at.isoformat(),
        "archived_at": None,
        "cancel_initiated_at": None,
        **({"metadata": batch.metadata} if batch.metadata else {}),
        "results_url": f"{request.base_url}v1/messages/batches/{batch.batch_id}/results"
        if has_ended
        else None,
    }


def describe_page(rows: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Wrap rows as one page of a list."""
    return {
        "data": rows,
        "has_more": has_more,
        "first_id": rows[0]["id"] if rows else None,
        "last_id": rows[-1]["id"] if rows else None,
    }


def describe_model(model: str) -> dict[str, Any]:
    """Describe a model; any name is accepted."""
    return {
        "id": model,
        "type": "model",
        "display_name": f"{model} (loopback: lexical, not a language model)",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "line": None,
        "capabilities": None,
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }


Shape = Callable[[Iterable[bytes]], Iterator[bytes]]
"""Translates lines of results into another protocol."""


def write_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines of results in larger chunks, judging each line when it is needed."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        # Sending each line separately would take longer than judging it.
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def create_app(store: BatchStore) -> Starlette:
    """Build the judge's application; `GET /loopback/log` counts what the store holds."""
    api = _Api(store)
    batches = "/v1/messages/batches"
    return Starlette(
        routes=[
            Route("/v1/messages", _protect(api.create_message), methods=["POST"]),
            Route("/v1/messages/count_tokens", _protect(api.count_tokens), methods=["POST"]),
            Route(batches, _protect(api.create_batch), methods=["POST"]),
            Route(batches, _protect(api.list_batches), methods=["GET"]),
            Route(f"{batches}/{{batch_id}}", _protect(api.get_batch), methods=["GET"]),
            Route(f"{batches}/{{batch_id}}/results", _protect(api.get_results), methods=["GET"]),
            Route("/v1/models/{model_id}", _protect(api.get_model), methods=["GET"]),
            Route("/loopback/log", api.show_log, methods=["GET"]),
        ],
        exception_handlers={Refusal: answer_refusal, HTTPException: answer_refusal},
    )


class _Api:
    def __init__(self, store: BatchStore) -> None:
        self._store = store

    async def create_message(self, request: Request) -> Response:
        params = await read_object(request)
        _check(params)
        message = compose_message(
            params,
            message_id=f"msg_{uuid.uuid4().hex[:24]}",
            cache_use=self._store.cache.use(params),
        )
        self._store.n_messages += 1
        return JSONResponse(message)

    async def count_tokens(self, request: Request) -> Response:
        params = await read_object(request)
        if "max_tokens" in params:
            raise invalid("max_tokens: Extra inputs are not permitted")
        _check({**params, "max_tokens": 1})
        return JSONResponse({"input_tokens": count_input_tokens(params)})

    async def create_batch(self, request: Request) -> Response:
        requests = await run_in_threadpool(read_requests, await request.body())
        metadata = request.scope.get("loopback.metadata", {})
        batch = await run_in_threadpool(self._store.create, requests, metadata=metadata)
        return JSONResponse(describe_batch(batch, request))

    async def list_batches(self, request: Request) -> Response:
        batches = self._store.list_newest_first()
        limit = _read_limit(request)
        after_id = request.query_params.get("after_id")
        if after_id is not None:
            ids = [batch.batch_id for batch in batches]
            if after_id not in ids:
                raise invalid(f"No batch is named {after_id!r}.")
            batches = batches[ids.index(after_id) + 1 :]
        rows = [describe_batch(batch, request) for batch in batches[:limit]]
        return JSONResponse(describe_page(rows, has_more=len(batches) > limit))

    async def get_batch(self, request: Request) -> Response:
        return JSONResponse(describe_batch(self._find_batch(request), request))

    async def get_results(self, request: Request) -> Response:
        batch = self._find_batch(request)
        if not batch.has_ended:
            raise invalid(f"Batch {batch.batch_id} has no results yet: it is still processing.")
        shape: Shape = request.scope.get("loopback.shape", iter)
        lines = write_lines(shape(batch.iterate_lines()))
        return StreamingResponse(lines, media_type="application/x-jsonl")

    async def get_model(self, request: Request) -> Response:
        return JSONResponse(describe_model(request.path_params["model_id"]))

    async def show_log(self, _request: Request) -> Response:
        batches = self._store.list_newest_first()
        counts = {
            "batches": len(batches),
            "requests": sum(batch.n_requests for batch in batches),
            "messages": self._store.n_messages,
        }
        return JSONResponse(counts)

    def _find_batch(self, request: Request) -> StoredBatch:
        batch_id: str = request.path_params["batch_id"]
        batch = self._store.get(batch_id)
        if batch is None:
            raise Refusal(404, "not_found_error", f"No batch is named {batch_id!r}.")
        return batch


def _check(params: Params) -> None:
    problem = find_invalid_parameter(params)
    if problem is not None:
        raise invalid(problem)


def _read_limit(request: Request) -> int:
    """Return how many rows a page may hold."""
    limit = request.query_params.get("limit", "20")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= 1000:
        raise invalid("limit: expected a number from 1 to 1000")
    return int(limit)


def _new_request_id() -> str:
    return f"req_{uuid.uuid4().hex[:24]}"


def _protect(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Require a key, of any value, and give every answer a request id."""

    async def protected(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.casefold() == "bearer" else ""
        if not bearer and not request.headers.get("x-api-key", "").strip():
            raise Refusal(401, "authentication_error", "x-api-key header is required")
        response = await endpoint(request)
        response.headers["request-id"] = _new_request_id()
        return response

    return protected
