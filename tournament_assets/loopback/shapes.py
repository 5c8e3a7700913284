"""Batches, pages and models in the shape of the API."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from tournament_assets.loopback.batches import LIFETIME, RESULT_TYPES, StoredBatch

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


def write_lines(batch: StoredBatch) -> Iterator[bytes]:
    """Yield a batch's results as JSONL, judging each request when its line is due."""
    chunk = bytearray()
    for line in batch.iterate_lines():
        chunk += line
        # Handing every line to the network by itself would take longer than judging it.
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
