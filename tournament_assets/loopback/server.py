"""The HTTP side of the loopback judge: the routes, the checks, the shapes of the API."""

import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tournament_assets.loopback.batches import LIFETIME, RESULT_TYPES, StoredBatch
from tournament_assets.loopback.messages import (
    compose_message,
    count_input_tokens,
    find_invalid_parameter,
)
from tournament_assets.loopback.store import BatchStore
from tournament_assets.loopback.submissions import (
    Refusal,
    answer_http_exception,
    answer_refusal,
    check_key,
    invalid,
    new_request_id,
    read_limit,
    read_object,
    read_requests,
)

_NO_RESULTS = dict.fromkeys(RESULT_TYPES, 0)
_CHUNK_BYTES = 64 * 1024


def describe_batch(batch: StoredBatch, request: Request) -> dict[str, Any]:
    """Say how far a batch is; its results are on the host that the request came to."""
    status = batch.status_at(datetime.now(UTC))
    has_ended = status == "ended"
    is_archived = has_ended and batch.is_archived
    canceled_at = batch.cancel_initiated_at
    path = f"v1/messages/batches/{batch.batch_id}/results"
    return {
        "id": batch.batch_id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": {
            "processing": 0 if has_ended else batch.n_requests,
            **(batch.count_results() if has_ended else _NO_RESULTS),
        },
        "created_at": batch.created_at.isoformat(),
        "ended_at": batch.ends_at.isoformat() if has_ended else None,
        "expires_at": (batch.created_at + LIFETIME).isoformat(),
        "archived_at": batch.ends_at.isoformat() if is_archived else None,
        "cancel_initiated_at": None if canceled_at is None else canceled_at.isoformat(),
        **({"metadata": batch.metadata} if batch.metadata else {}),
        **({"refused": True} if batch.is_refused else {}),
        "results_url": f"{request.base_url}{path}" if has_ended and not is_archived else None,
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
    """Describe a model; any name is one."""
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
"""Puts lines of results into another protocol."""


def keep_shape(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines as they are."""
    yield from lines


def write_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines of results in larger pieces, each judged when it is due."""
    chunk = bytearray()
    for line in lines:
        chunk += line
        # Handing every line to the network by itself would take longer than judging it.
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


_LISTED_MODELS = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-4-7",
    "claude-sonnet-4-6",
)
_Endpoint = Callable[[Request], Awaitable[Response]]


class RequestLog:
    """Counts what a server accepted; what was refused does not count.

    What was accepted before a restart counts as well, as far as the directory tells.

    Args:
        store: Where it is kept.
    """

    def __init__(self, store: BatchStore) -> None:
        self._store = store

    @property
    def batches(self) -> int:
        """Batches created."""
        return len(self._list_own())

    @property
    def requests(self) -> int:
        """Requests in those batches."""
        return sum(batch.n_requests for batch in self._list_own())

    @property
    def messages(self) -> int:
        """Direct messages answered."""
        return self._store.messages.n_messages

    def to_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return {"batches": self.batches, "requests": self.requests, "messages": self.messages}

    def _list_own(self) -> list[StoredBatch]:
        return [batch for batch in self._store.list_newest_first() if not batch.is_foreign]


def create_app(store: BatchStore, *, max_requests: float = math.inf) -> Starlette:
    """Build the judge's application.

    Args:
        store: Keeps the batches; `GET /loopback/log` counts them.
        max_requests: A batch of more requests is refused as too large, by a service that is
            stricter than the real one.
    """
    api = _Api(store, max_requests)
    batches = "/v1/messages/batches"
    return Starlette(
        routes=[
            Route("/v1/messages", _protect(api.create_message), methods=["POST"]),
            Route("/v1/messages/count_tokens", _protect(api.count_tokens), methods=["POST"]),
            Route(batches, _protect(api.create_batch), methods=["POST"]),
            Route(batches, _protect(api.list_batches), methods=["GET"]),
            Route(f"{batches}/{{batch_id}}", _protect(api.get_batch), methods=["GET"]),
            Route(f"{batches}/{{batch_id}}/results", _protect(api.get_results), methods=["GET"]),
            Route(f"{batches}/{{batch_id}}/cancel", _protect(api.cancel_batch), methods=["POST"]),
            Route("/v1/models", _protect(api.list_models), methods=["GET"]),
            Route("/v1/models/{model_id}", _protect(api.get_model), methods=["GET"]),
            Route("/loopback/log", api.show_log, methods=["GET"]),
        ],
        exception_handlers={Refusal: answer_refusal, HTTPException: answer_http_exception},
    )


class _Api:
    def __init__(self, store: BatchStore, max_requests: float) -> None:
        self._store = store
        self._log = RequestLog(store)
        self._max_requests = max_requests

    async def create_message(self, request: Request) -> Response:
        params = await read_object(request)
        problem = find_invalid_parameter(params)
        if problem is not None:
            raise invalid(problem)
        message = compose_message(
            params,
            message_id=f"msg_{uuid.uuid4().hex[:24]}",
            cache_use=self._store.cache.use(params),
        )
        # Written down first: what was answered is in the log, whatever becomes of the answer.
        await run_in_threadpool(self._store.messages.record, params)
        return JSONResponse(message)

    async def count_tokens(self, request: Request) -> Response:
        params = await read_object(request)
        if "max_tokens" in params:
            raise invalid("max_tokens: Extra inputs are not permitted")
        problem = find_invalid_parameter({**params, "max_tokens": 1})
        if problem is not None:
            raise invalid(problem)
        return JSONResponse({"input_tokens": count_input_tokens(params)})

    async def create_batch(self, request: Request) -> Response:
        requests = await read_requests(request.stream())
        if len(requests) > self._max_requests:
            raise Refusal(413, "request_too_large", "Request exceeds the maximum size")
        metadata = request.scope.get("loopback.metadata", {})
        batch = await run_in_threadpool(self._store.create, requests, metadata=metadata)
        return JSONResponse(describe_batch(batch, request))

    async def list_batches(self, request: Request) -> Response:
        batches = self._store.list_newest_first()
        limit = read_limit(request)
        ids = [batch.batch_id for batch in batches]
        after_id = request.query_params.get("after_id")
        before_id = request.query_params.get("before_id")
        if after_id is not None:
            rest = batches[_find(ids, after_id) + 1 :]
            page, has_more = rest[:limit], len(rest) > limit
        elif before_id is not None:
            rest = batches[: _find(ids, before_id)]
            page, has_more = rest[-limit:], len(rest) > limit
        else:
            page, has_more = batches[:limit], len(batches) > limit
        return JSONResponse(
            describe_page([describe_batch(batch, request) for batch in page], has_more=has_more)
        )

    async def get_batch(self, request: Request) -> Response:
        return JSONResponse(describe_batch(self._find_batch(request), request))

    async def get_results(self, request: Request) -> Response:
        batch = self._find_batch(request)
        if batch.status_at(datetime.now(UTC)) != "ended":
            raise invalid(f"Batch {batch.batch_id} has no results yet: it is still processing.")
        if batch.is_archived:
            raise Refusal(404, "not_found_error", f"The results of {batch.batch_id} are archived.")
        shape: Shape = request.scope.get("loopback.shape", keep_shape)
        lines = write_lines(shape(batch.iterate_lines()))
        return StreamingResponse(lines, media_type="application/x-jsonl")

    async def cancel_batch(self, request: Request) -> Response:
        batch = self._find_batch(request)
        canceled = await run_in_threadpool(self._store.cancel, batch.batch_id)
        if canceled is None or canceled.cancel_initiated_at is None:
            raise invalid(f"Batch {batch.batch_id} has ended and cannot be canceled.")
        return JSONResponse(describe_batch(canceled, request))

    async def list_models(self, _request: Request) -> Response:
        models = [describe_model(model) for model in _LISTED_MODELS]
        return JSONResponse(describe_page(models, has_more=False))

    async def get_model(self, request: Request) -> Response:
        return JSONResponse(describe_model(request.path_params["model_id"]))

    async def show_log(self, _request: Request) -> Response:
        return JSONResponse(self._log.to_dict())

    def _find_batch(self, request: Request) -> StoredBatch:
        batch_id: str = request.path_params["batch_id"]
        batch = self._store.get(batch_id)
        if batch is None:
            raise Refusal(404, "not_found_error", f"No batch is named {batch_id!r}.")
        return batch


def _find(ids: list[str], wanted: str) -> int:
    try:
        return ids.index(wanted)
    except ValueError:
        raise invalid(f"No batch is named {wanted!r}.") from None


def _protect(endpoint: _Endpoint) -> _Endpoint:
    """Let a request through only with a key, and give every answer a request id."""

    async def protected(request: Request) -> Response:
        check_key(request)
        response = await endpoint(request)
        response.headers["request-id"] = new_request_id()
        return response

    return protected
