"""What faults do to messages, to rows of results and to whole readings."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.loopback.faults.catalogue import OUT_OF_CREDIT, ROW_ERRORS, STOP_REASONS

_LINE = "VERDICT: "
_OPPOSITE = {"A": "B", "B": "A", "TIE": "A"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply taken apart.

    Attributes:
        reasoning: What comes before the verdict.
        verdict: A, B or TIE; None if there is none.
        names: The names of a JSON reply's values, in their order; empty for prose.
    """

    reasoning: str
    verdict: str | None
    names: tuple[str, ...] = ()

    @property
    def opposite(self) -> str:
        """A verdict other than this one."""
        return _OPPOSITE.get(self.verdict or "", "A")

    def write(self) -> str:
        """Return the reply as a text."""
        if self.names:
            values = {"reasoning": self.reasoning, "verdict": self.verdict}
            return json.dumps(
                {name: values[name] for name in self.names if values[name] is not None},
                ensure_ascii=False,
            )
        return (
            self.reasoning if self.verdict is None else f"{self.reasoning}\n{self.write_verdict()}"
        )

    def write_verdict(self) -> str:
        """Return the verdict alone, in the reply's own form."""
        return json.dumps({"verdict": self.verdict}) if self.names else f"{_LINE}{self.verdict}"


def read_reply(text: str) -> Reply:
    """Take apart a reply that the judge wrote, even one that a fault has spoiled."""
    try:
        values = json.loads(text)
    except ValueError:
        reasoning, _, last_line = text.rpartition("\n")
        if not last_line.startswith(_LINE):
            return Reply(text, None)
        return Reply(reasoning, last_line.removeprefix(_LINE))
    if not isinstance(values, Mapping) or "reasoning" not in values:
        return Reply(text, None)
    return Reply(values["reasoning"], values.get("verdict"), ("reasoning", "verdict"))


FAILURES = {
    "batch_canceled": "canceled",
    "row_canceled": "canceled",
    "row_credit": "errored",
    "row_expired": "expired",
    **{f"row_{error}": "errored" for error in ROW_ERRORS},
}


UNLISTED = "unlisted"
"""The key of a result that OpenAI's protocol does not list."""


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
    if fault.startswith("reply_thinks"):
        return _think(message, max_tokens, is_heavy=fault == "reply_thinks_twice")
    if fault == "thinking_first":
        thinking = f"At first sight:\nVERDICT: {reply.opposite}"
        block = {"type": "thinking", "thinking": thinking, "signature": ""}
        return {**message, "content": [block, *message["content"]]}
    return {**message, "content": [{"type": "text", "text": _spoil_text(text, reply, fault)}]}


def _think(message: dict[str, Any], max_tokens: int, *, is_heavy: bool) -> dict[str, Any]:
    # As long for the same reply to the same request, whoever asks.
    usage, n_read = message["usage"], message["usage"]["input_tokens"]
    n_thoughts = 200 + zlib.crc32(f"{message['content']}{n_read}".encode()) % 200
    if is_heavy and n_read % 32 == 9:
        n_thoughts *= 3
    n_tokens = usage["output_tokens"] + n_thoughts
    if n_tokens <= max_tokens:
        return {**message, "usage": {**usage, "output_tokens": n_tokens}}
    cut = {"content": [], "stop_reason": "max_tokens"}
    return {**message, **cut, "usage": {**usage, "output_tokens": max_tokens}}


def _spoil_text(text: str, reply: Reply, fault: str) -> str:
    opposite = replace(reply, verdict=reply.opposite)
    if fault == "text_empty":
        return ""
    if fault == "schema_ignored":
        return replace(reply, names=()).write()
    if fault in ("no_verdict", "verdict_abstain"):
        return replace(reply, verdict=None if fault == "no_verdict" else "ABSTAIN").write()
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
        return [*lines, write_result_line({**first, "result": _contradict(first["result"])})]
    if fault == "results_missing_row":
        return lines[:-1]
    if fault == "results_foreign_row":
        return [*lines, write_result_line({**first, "custom_id": "foreign-row"})]
    if fault == "results_unknown_type":
        result = {**first["result"], "type": "a_type_of_tomorrow"}
        return [write_result_line({**first, "result": result}), *lines[1:]]
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


def write_result_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n"


def spoil_row(line: bytes, fault: str, *, max_tokens: int) -> bytes:
    """Return the line of one request as a fault leaves it."""
    row = json.loads(line)
    if fault == "row_unparsable":
        return line[: len(line) // 2] + b"\n"
    if fault in FAILURES:
        row["result"] = _fail(fault)
    elif row["result"]["type"] == "succeeded":
        message = spoil_message(row["result"]["message"], fault, max_tokens=max_tokens)
        row["result"]["message"] = message
    return write_result_line(row)


def _fail(fault: str) -> dict[str, Any]:
    if fault == "batch_canceled":
        return {"type": "canceled", UNLISTED: True}
    if FAILURES[fault] != "errored":
        return {"type": FAILURES[fault]}
    is_credit = fault == "row_credit"
    error = {
        "type": "invalid_request_error" if is_credit else fault.removeprefix("row_"),
        "message": OUT_OF_CREDIT if is_credit else f"The loopback judge injects {fault}.",
    }
    return {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
