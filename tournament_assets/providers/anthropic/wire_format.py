"""Messages and Message Batches as plain JSON: what is sent, and batches, rows and messages."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, cast

from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import (
    BatchStatus,
    MessageParams,
    ReplyRow,
    TokenUsage,
)
from tournament_assets.judging.service_errors import error_type_of
from tournament_assets.providers.service_words import mapping, parse_object
from tournament_assets.tournament.completions import parts_of, text_of


def message_body(params: MessageParams) -> JsonObject:
    """Return the parameters of a message as they are sent, with the further fields among them."""
    body = dict(cast("JsonObject", params))
    further = mapping(body.pop("extra_body", None))
    return {**body, **further}


_MAX_TOKENS = 2**31 - 1  # what a column of every database holds, and no reply reaches
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


def read_status(batch: JsonObject) -> BatchStatus | None:
    """Read a batch's status; None if its id or its counts are missing."""
    counts = batch.get("request_counts")
    batch_id = batch.get("id")
    if not isinstance(batch_id, str) or not batch_id or not isinstance(counts, Mapping):
        return None
    return BatchStatus(
        batch_id=batch_id,
        has_ended=batch.get("processing_status") == "ended",
        n_requests=sum(_count(counts, name) for name in _COUNTS),
        created_at=_time(batch.get("created_at")),
        is_cancelled=batch.get("cancel_initiated_at") is not None,
    )


def read_row(line: bytes) -> ReplyRow | None:
    """Read a line of a batch's results; None if it is not a row."""
    row = mapping(parse_object(line))
    result, custom_id = row.get("result"), row.get("custom_id")
    if not isinstance(result, Mapping) or not isinstance(custom_id, str):
        return None
    try:
        raw = canonical_json(row)
    except (ValueError, RecursionError):
        return None
    error = mapping(mapping(result.get("error")).get("error"))
    kind = error_type_of([_text(error, "type")], None, _text(error, "message"))
    return _compose_row(
        custom_id=custom_id,
        result_type=str(result.get("type")),
        message=mapping(result.get("message")),
        error={**error, "type": kind},
        raw=raw,
    )


def read_message(custom_id: str, message: JsonObject) -> ReplyRow:
    """Read the answer to a direct message as if it were a row of a batch."""
    return _compose_row(
        custom_id=custom_id,
        result_type="succeeded",
        message=message,
        error={},
        raw=canonical_json(message),
    )


def _compose_row(
    *,
    custom_id: str,
    result_type: str,
    message: JsonObject,
    error: JsonObject,
    raw: str,
) -> ReplyRow:
    content = message.get("content")
    return ReplyRow(
        custom_id=custom_id,
        result_type=result_type,
        text=text_of(parts_of(content)) or "" if isinstance(content, list) else None,
        stop_reason=_text(message, "stop_reason"),
        error_type=_text(error, "type"),
        error_message=_text(error, "message"),
        model=_text(message, "model"),
        usage=_read_usage(message.get("usage")),
        raw=raw,
    )


def _read_usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    counts = {field.name: usage.get(field.name) or 0 for field in fields(TokenUsage)}
    # A usage with an impossible figure is ignored; it stays in the raw row.
    if any(type(count) is not int or not 0 <= count <= _MAX_TOKENS for count in counts.values()):
        return None
    return TokenUsage(**counts)


def _text(values: JsonObject, name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _count(counts: JsonObject, name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0


def _time(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
