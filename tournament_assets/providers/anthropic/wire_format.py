"""What the Message Batches API says, read as plain JSON, and what its failures mean.

The SDK's classes turn what they do not know into something they do; here an unknown word stays
what it is. A status that is not in the public documentation is read by its hundreds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from tournament_assets.judging.batch_service import BatchStatus, ReplyRow, TokenUsage
from tournament_assets.providers.service_words import (
    classify_by_status,
    describe_redirect,
    mapping,
    read_retry_after,
)
from tournament_assets.tournament.errors import JudgeFailure
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
        n_requests=sum(_count(counts, name) for name in _COUNTS),
        created_at=_time(batch.get("created_at")),
    )


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


MAX_RETRY_AFTER = 3600.0
_ADVICE = {
    401: "; the API key was refused: check ANTHROPIC_API_KEY",
    402: "; the account cannot pay: check its credit",
    403: "; the API key was refused for this: check ANTHROPIC_API_KEY and its workspace",
    404: "; there is no such thing, or this key may not see it: check the name",
}
_SPEND_LIMIT = "enforced_spend_limit_reached"


def classify_failure(error: Exception, *, may_cost: bool) -> JudgeFailure:
    """Say what a failure of the SDK means; see `classify_by_status`."""
    return classify_by_status(error, may_cost=may_cost, is_out_of_credit=_is_spend_limit(error))


def describe_failure(error: Exception, address: str, *, quote: Callable[[str], str]) -> str:
    """Say what went wrong and what to do.

    Args:
        error: What the SDK raised.
        address: The service's address.
        quote: Makes the service's words fit to be shown, without the key should it repeat it.
    """
    status = getattr(error, "status_code", None)
    if status is None:
        return (
            f"no complete answer from {address} ({type(error).__name__}); "
            "check the network and run again"
        )
    if 300 <= status < 400:
        place = "as judge.base_url or in ANTHROPIC_BASE_URL"
        return describe_redirect(error, status, address, place=place)
    problem = _problem(error)
    body = getattr(error, "body", None)
    said = quote(str(problem.get("message") or body))
    answer = f"{address} answered {status} ({quote(str(problem.get('type')))}): {said}"
    if status == 429:
        if _is_spend_limit(error):
            return f"{answer}; the account's spend limit is reached: raise it, and run again"
        seconds = read_retry_after(error, at_most=MAX_RETRY_AFTER)
        when = "in a while" if seconds is None else f"in {seconds:.0f} seconds"
        return f"{answer}; a rate limit is reached: run again {when}"
    return answer + _ADVICE.get(status, "")


def _problem(error: Exception) -> Mapping[str, Any]:
    return mapping(mapping(getattr(error, "body", None)).get("error"))


def _is_spend_limit(error: Exception) -> bool:
    problem = _problem(error)
    details = mapping(problem.get("details"))
    return _SPEND_LIMIT in (details.get("error_code"), problem.get("type"))
