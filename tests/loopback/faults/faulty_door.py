"""What goes wrong, in OpenAI's words: failed batches, other errors, other reasons to stop."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from tests.loopback.faults.faulty_app import ConnectionDroppedError
from tests.loopback.faults.spoiling import UNLISTED
from tournament_assets.loopback.openai_door import OpenAiDoor

_FINISH_REASONS = {"refusal": "content_filter", "tool_use": "tool_calls"}
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


class FaultyDoor(OpenAiDoor):
    """Lets both protocols in to a judge that goes wrong; its app may drop a connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ConnectionDroppedError):
            await super().__call__(scope, receive, send)

    def write_completion(self, message: Mapping[str, Any]) -> dict[str, Any]:
        completion = super().write_completion(message)
        (choice,) = completion["choices"]
        thoughts = "".join(block.get("thinking", "") for block in message["content"])
        if thoughts:
            choice["message"]["reasoning_content"] = thoughts
        reason = message["stop_reason"]
        choice["finish_reason"] = _FINISH_REASONS.get(reason, choice["finish_reason"])
        return completion

    def write_batch(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        written, counts = super().write_batch(batch), batch["request_counts"]
        no_files = {"output_file_id": None, "error_file_id": None}
        if batch["results_url"] is None and batch["archived_at"] is None:
            written |= no_files
        if written["status"] != "completed":
            return written
        if sum(counts.values()) in (counts["expired"], counts["canceled"]):
            written["status"] = "expired" if counts["expired"] else "cancelled"
        if batch["cancel_initiated_at"] is not None:
            n_failed = counts["errored"] + counts["expired"]
            written |= {"status": "cancelled", "error_file_id": None}
            written["request_counts"] = {**written["request_counts"], "failed": n_failed}
        if batch.get("refused"):
            problem = {"code": "invalid_json_line", "message": "This line is not parseable."}
            written |= no_files
            written |= {"status": "failed", "errors": {"object": "list", "data": [problem]}}
            written["request_counts"] = {"total": 0, "completed": 0, "failed": 0}
        return written

    def _write_results(self, lines: Iterable[bytes], *, kind: str) -> Iterator[bytes]:
        listed = (line for line in lines if f'"{UNLISTED}"'.encode() not in line)
        return super()._write_results(listed, kind=kind)

    def write_row(self, result: Mapping[str, Any]) -> dict[str, Any]:
        if result["type"] in ("succeeded", "errored"):
            row = super().write_row(result)
            if result["type"] == "errored":
                row["response"]["status_code"] = _STATUSES.get(
                    result["error"]["error"]["type"], 500
                )
            return row
        code = _CODES.get(result["type"], result["type"])
        problem = {"code": code, "message": f"This request could not be executed: {code}."}
        return {"response": None, "error": problem}

    def write_error(self, error: Mapping[str, Any]) -> dict[str, Any]:
        details = error.get("details") or {}
        is_spent = details.get("error_code") == "enforced_spend_limit_reached"
        return {**super().write_error(error), "code": "insufficient_quota" if is_spent else None}
