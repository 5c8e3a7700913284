"""What faults do to what is written: to messages, and to the lines of a result."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from tournament_assets.loopback.catalogue import ROW_ERRORS, STOP_REASONS
from tournament_assets.loopback.replies import Reply, read_reply

_FAILURES: dict[str, Literal["canceled", "errored", "expired"]] = {
    "row_canceled": "canceled",
    "row_expired": "expired",
    **{f"row_{error}": "errored" for error in ROW_ERRORS},
}


def find_failure(fault: str | None) -> Literal["canceled", "errored", "expired"] | None:
    """Return the type of result that a fault leads to, or None if there is a message."""
    return None if fault is None else _FAILURES.get(fault)


def find_error(fault: str | None) -> dict[str, Any] | None:
    """Return the error that a fault puts into a row, or None."""
    if fault is None or find_failure(fault) != "errored":
        return None
    return {"type": fault.removeprefix("row_"), "message": f"The loopback judge injects {fault}."}


def spoil_message(
    message: dict[str, Any], fault: str | None, *, max_tokens: int = 0
) -> dict[str, Any]:
    """Return a message as a fault leaves it; `max_tokens` is what its request allowed."""
    if fault is None:
        return message
    if fault in STOP_REASONS:
        # The verdict stays: a reader that ignores the stop reason gives itself away.
        stop_sequence = "\n\nHuman:" if fault == "stop_sequence" else None
        return {**message, "stop_reason": STOP_REASONS[fault], "stop_sequence": stop_sequence}
    if fault == "content_empty":
        return {**message, "content": []}
    if fault == "usage_huge":
        return {**message, "usage": {**message["usage"], "output_tokens": 2**70}}
    text: str = message["content"][0]["text"]
    reply = read_reply(text)
    if fault == "reply_long":
        # Mostly by thinking, which is billed and not shown: a megabyte of prose proves no more.
        return {**message, "usage": {**message["usage"], "output_tokens": max_tokens}}
    if fault == "thinking_first":
        thinking = f"At first sight:\nVERDICT: {reply.opposite}"
        block = {"type": "thinking", "thinking": thinking, "signature": ""}
        return {**message, "content": [block, *message["content"]]}
    return {**message, "content": [{"type": "text", "text": _spoil_text(text, reply, fault)}]}


def _spoil_text(text: str, reply: Reply, fault: str) -> str:
    opposite = replace(reply, verdict=reply.opposite)
    if fault == "text_empty":
        return ""
    if fault == "no_verdict":
        return replace(reply, verdict=None).write()
    if fault == "verdict_abstain":
        return replace(reply, verdict="ABSTAIN").write()
    if fault == "two_verdicts":
        again = opposite if reply.names else replace(opposite, reasoning="No, on reflection:")
        return f"{text}\n{again.write()}"
    if fault == "verdict_markdown":
        if reply.names:
            return f"```json\n{text}\n```"
        return f"{reply.reasoning}\n**{reply.write_verdict()}**"
    if fault == "verdict_quoted":
        quote = f'One response says "{opposite.write_verdict()}", which is not for it to say.\n'
        return replace(reply, reasoning=quote + reply.reasoning).write()
    return text


def spoil_line(line: bytes, fault: str | None) -> bytes:
    """Return the line of one request, without its end, as a fault leaves it."""
    return line[: len(line) // 2] if fault == "row_unparsable" else line


def spoil_lines(lines: list[bytes], fault: str) -> list[bytes]:
    """Return the lines of a result, at least one, as a fault leaves them."""
    middle = len(lines) // 2
    first: dict[str, Any] = json.loads(lines[0])
    if fault == "results_garbage_line":
        return [*lines[:middle], b'{"custom_id": <html>\n', *lines[middle:]]
    if fault == "results_blank_line":
        return [*lines[:middle], b"\n", *lines[middle:]]
    if fault == "results_duplicate_same":
        return [*lines, lines[0]]
    if fault == "results_duplicate_different":
        return [*lines, _write_line({**first, "result": _contradict(first["result"])})]
    if fault == "results_missing_row":
        return lines[:-1]
    if fault == "results_foreign_row":
        return [*lines, _write_line({**first, "custom_id": "foreign-row"})]
    if fault == "results_unknown_type":
        result = {**first["result"], "type": "a_type_of_tomorrow"}
        return [_write_line({**first, "result": result}), *lines[1:]]
    return lines


def cut_lines(lines: list[bytes], *, mid_line: bool) -> bytes:
    """Return the first half of some lines and, on request, half of the line after them."""
    middle = len(lines) // 2
    rest = lines[middle][: len(lines[middle]) // 2] if mid_line else b""
    return b"".join(lines[:middle]) + rest


def _contradict(result: Mapping[str, Any]) -> dict[str, Any]:
    if "message" not in result:
        return {"type": "canceled" if result["type"] == "expired" else "expired"}
    text = "".join(block.get("text", "") for block in result["message"]["content"])
    other = replace(read_reply(text), reasoning="Once more, and differently.")
    content = [{"type": "text", "text": replace(other, verdict=other.opposite).write()}]
    return {**result, "message": {**result["message"], "content": content}}


def _write_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n"
