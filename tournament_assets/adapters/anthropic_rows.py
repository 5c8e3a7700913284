"""What the Message Batches API says, read as plain JSON.

The SDK's classes turn what they do not know into something they do; here an unknown word stays
what it is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from tournament_assets.judging.service import BatchListing, BatchStatus, ReplyRow, TokenUsage
from tournament_assets.tournament.fingerprints import canonical_json

_MAX_TOKENS = 2**31 - 1  # what a column of every database holds, and no reply reaches
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


def read_status(batch: Mapping[str, Any]) -> BatchStatus | None:
    """Read how far a batch is; None if it says neither its id nor its counts."""
    counts = batch.get("request_counts")
    batch_id = batch.get("id")
    if not isinstance(batch_id, str) or not batch_id or not isinstance(counts, Mapping):
        return None
    return BatchStatus(
        batch_id=batch_id,
        has_ended=batch.get("processing_status") == "ended",
        **{name: _count(counts, name) for name in _COUNTS},
    )


def read_listing(batch: Mapping[str, Any]) -> BatchListing | None:
    """Read a row of the list of batches; None if it names no batch."""
    status = read_status(batch)
    if status is None:
        return None
    return BatchListing(
        batch_id=status.batch_id,
        created_at=_time(batch.get("created_at")),
        has_ended=status.has_ended,
        n_requests=status.n_requests,
    )


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream that hold anything; all but the last end in a line feed.

    Only a line feed ends a line: a text inside a row may hold every other line break there is.
    """
    parts: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        if others:
            # Joined once, when its end has come: a long line is not copied with every chunk.
            *whole, rest = b"".join(parts), *others
            yield from (line + b"\n" for line in whole if line.strip())
            parts = [rest]
    if (rest := b"".join(parts)).strip():
        yield rest


def read_row(line: bytes) -> ReplyRow | None:
    """Read a line of a batch's results; None if it is no row."""
    try:
        row = json.loads(line)
        raw = canonical_json(row)
    except (ValueError, RecursionError):
        return None
    result = row.get("result") if isinstance(row, Mapping) else None
    if not isinstance(result, Mapping) or not isinstance(row.get("custom_id"), str):
        return None
    error = mapping(mapping(result.get("error")).get("error"))
    return _compose_row(
        custom_id=row["custom_id"],
        result_type=str(result.get("type")),
        message=mapping(result.get("message")),
        error=error,
        raw=raw,
    )


def read_message(custom_id: str, message: Mapping[str, Any]) -> ReplyRow:
    """Read the answer to a direct message as if it were a row of a batch."""
    return _compose_row(
        custom_id=custom_id,
        result_type="succeeded",
        message=message,
        error={},
        raw=canonical_json(message),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def _compose_row(
    *,
    custom_id: str,
    result_type: str,
    message: Mapping[str, Any],
    error: Mapping[str, Any],
    raw: str,
) -> ReplyRow:
    return ReplyRow(
        custom_id=custom_id,
        result_type=result_type,
        text=_join_text(message),
        stop_reason=_text(message, "stop_reason"),
        error_type=_text(error, "type"),
        error_message=_text(error, "message"),
        model=_text(message, "model"),
        usage=_read_usage(message.get("usage")),
        raw=raw,
    )


def _join_text(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if not isinstance(content, list):
        return None
    blocks = [mapping(block) for block in content]
    return "".join(_text(block, "text") or "" for block in blocks if block.get("type") == "text")


def _read_usage(usage: Any) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    counts = {field.name: usage.get(field.name) or 0 for field in fields(TokenUsage)}
    # A bill with a figure that cannot be one is no bill; it stays in the row as it was received.
    if any(type(count) is not int or not 0 <= count <= _MAX_TOKENS for count in counts.values()):
        return None
    return TokenUsage(**counts)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0


def _time(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None
