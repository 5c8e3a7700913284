"""Batches that were accepted: what became of them, their results, and what faults do to those.

Only the requests are kept, as JSON lines in the order in which the results come out. A verdict is a
pure function of its request, so results are written anew whenever somebody reads them. What many
requests have in common, such as the system text, stands once, in a line of its own before the
first row that refers to it by number:

    {"shared": 0, "params": {"model": ..., "max_tokens": ..., "system": ...}}
    {"custom_id": ..., "shared": 0, "params": {"messages": ...}, "cache_use": ..., "fault": ...}

A row without `shared` holds all of its parameters itself.
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from tournament_assets.loopback.faults import ROW_ERRORS, STOP_REASONS
from tournament_assets.loopback.messages import (
    CacheUse,
    Reply,
    compose_message,
    find_invalid_parameter,
    read_reply,
)

_OWN = "messages"
"""The one parameter in which the requests of a batch differ."""


@dataclass(frozen=True, slots=True)
class BatchedRequest:
    """One request of a batch.

    Attributes:
        custom_id: Its name in the results.
        params: The parameters of the message.
        cache_use: What it did with the prompt cache; decided when the batch was accepted, so that
            reading the results twice shows the same bill.
        fault: What goes wrong with it, if anything; decided at the same time.
    """

    custom_id: str
    params: Mapping[str, Any]
    cache_use: CacheUse
    fault: str | None = None


class SharedParams:
    """Keeps one copy of what the parameters of many requests have in common."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def share(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return equal parameters whose shared part is held in memory only once."""
        common = _common_part(params)
        shared = self._known.setdefault(digest(json.dumps(common)), common)
        return {**shared, _OWN: params[_OWN]} if _OWN in params else dict(shared)


def write_rows(file: BinaryIO, requests: Iterable[BatchedRequest]) -> None:
    """Write requests in an order that is fixed and is not the one in which they came."""
    ordered = sorted(requests, key=lambda each: digest(each.custom_id))
    numbers = _number_common_parts(ordered)
    users = Counter(numbers)
    written: set[int] = set()
    for request, number in zip(ordered, numbers, strict=True):
        row: dict[str, Any] = {"custom_id": request.custom_id, "params": request.params}
        if users[number] > 1:
            if number not in written:
                written.add(number)
                _write_request_line(
                    file, {"shared": number, "params": _common_part(request.params)}
                )
            own = {name: value for name, value in request.params.items() if name == _OWN}
            row = {"custom_id": request.custom_id, "shared": number, "params": own}
        _write_request_line(file, {**row, "cache_use": request.cache_use, "fault": request.fault})


def read_rows(file: BinaryIO) -> Iterator[BatchedRequest]:
    """Yield the requests that `write_rows` wrote, one by one.

    Raises:
        ValueError: If a line is no such row.
    """
    shared: dict[int, dict[str, Any]] = {}
    for line in file:
        try:
            row = json.loads(line)
            if "custom_id" not in row:
                shared[row["shared"]] = row["params"]
                continue
            common = shared[row["shared"]] if "shared" in row else {}
            yield BatchedRequest(
                row["custom_id"], {**common, **row["params"]}, row["cache_use"], row.get("fault")
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{line[:80]!r} is not a request of a batch") from error


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _number_common_parts(requests: Sequence[BatchedRequest]) -> list[int]:
    """Return, for every request, a number that it shares with those that it resembles."""
    by_text: dict[str, int] = {}
    # The very same objects need not be serialised again to be seen to be equal.
    by_identity: dict[tuple[tuple[str, int], ...], int] = {}
    numbers: list[int] = []
    for request in requests:
        common = _common_part(request.params)
        identity = tuple((name, id(value)) for name, value in common.items())
        if identity not in by_identity:
            by_identity[identity] = by_text.setdefault(json.dumps(common), len(by_text))
        numbers.append(by_identity[identity])
    return numbers


def _common_part(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != _OWN}


def _write_request_line(file: BinaryIO, value: Mapping[str, Any]) -> None:
    file.write(json.dumps(value).encode() + b"\n")


_FAILURES: dict[str, Literal["canceled", "errored", "expired"]] = {
    "row_canceled": "canceled",
    "row_expired": "expired",
    **{f"row_{error}": "errored" for error in ROW_ERRORS},
}


def find_error(fault: str | None) -> dict[str, Any] | None:
    """Return the error that a fault puts into a row, or None."""
    if fault is None or _FAILURES.get(fault) != "errored":
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
        return [*lines, _write_result_line({**first, "result": _contradict(first["result"])})]
    if fault == "results_missing_row":
        return lines[:-1]
    if fault == "results_foreign_row":
        return [*lines, _write_result_line({**first, "custom_id": "foreign-row"})]
    if fault == "results_unknown_type":
        result = {**first["result"], "type": "a_type_of_tomorrow"}
        return [_write_result_line({**first, "result": result}), *lines[1:]]
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


def _write_result_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n"


LIFETIME = timedelta(hours=24)
"""After this long the real service gives up on a batch; here it is only reported."""
NEVER = datetime.max.replace(tzinfo=UTC)
ResultType = Literal["canceled", "errored", "expired", "succeeded"]
RESULT_TYPES: tuple[ResultType, ...] = ("canceled", "errored", "expired", "succeeded")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that was accepted; its requests are read only when they are needed.

    Attributes:
        batch_id: Its id.
        created_at: When it was accepted.
        ends_at: When it is through.
        counts: Its rows of each type, unless somebody cancels it.
        cancel_initiated_at: When somebody canceled it, if anybody did.
        is_archived: Whether its results are gone once it has ended.
        is_foreign: Whether it is somebody else's, and does not count.
        n_shown: How many of its rows are shown; None shows them all.
        metadata: What whoever submitted it wrote beside it; only OpenAI's protocol has a place for
            it.
        is_refused: Whether it is refused as a whole once it has been looked at.
        source: The file that holds its requests, or that file's content.
    """

    batch_id: str
    created_at: datetime
    ends_at: datetime
    counts: Mapping[str, int]
    cancel_initiated_at: datetime | None = None
    is_archived: bool = False
    is_foreign: bool = False
    n_shown: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_refused: bool = False
    source: Path | bytes = field(default=b"", repr=False)

    @property
    def n_requests(self) -> int:
        """How many requests it has."""
        return sum(self.counts.values())

    def status_at(self, now: datetime) -> Literal["in_progress", "canceling", "ended"]:
        """Return the batch's processing status at a moment."""
        if now >= self.ends_at:
            return "ended"
        return "in_progress" if self.cancel_initiated_at is None else "canceling"

    def count_results(self) -> dict[str, int]:
        """Count the rows of each type, without looking at them."""
        if self.cancel_initiated_at is not None:
            return {**dict.fromkeys(RESULT_TYPES, 0), "canceled": self.n_requests}
        return {kind: self.counts.get(kind, 0) for kind in RESULT_TYPES}

    def iterate_requests(self) -> Iterator[BatchedRequest]:
        """Yield the requests one by one, in a fixed order that is not the one they came in.

        Raises:
            ValueError: If some of them cannot be read.
        """
        n_read = 0
        with self._open() as file:
            file.readline()
            for request in read_rows(file):
                n_read += 1
                yield request
        if n_read != self.n_requests:
            raise ValueError(
                f"batch {self.batch_id} holds {n_read} requests; expected {self.n_requests}"
            )

    def iterate_lines(self) -> Iterator[bytes]:
        """Yield the results that are shown line by line, in the order of `iterate_requests`."""
        for request in islice(self.iterate_requests(), self.n_shown):
            row = {"custom_id": request.custom_id, "result": self._compose_result(request)}
            line = json.dumps(row, ensure_ascii=False).encode("utf-8", errors="replace")
            yield spoil_line(line, request.fault) + b"\n"

    def find_result_type(self, request: BatchedRequest) -> ResultType:
        """Return what kind of row one of the requests ends as."""
        if self.cancel_initiated_at is not None:
            return "canceled"
        return find_result_type(request)

    def write(self, file: BinaryIO, requests: Iterable[BatchedRequest]) -> None:
        """Write the batch and its requests."""
        file.write(self._write_header())
        write_rows(file, requests)

    def rewrite(self, file: BinaryIO) -> None:
        """Write the batch with the requests that it has already."""
        file.write(self._write_header())
        with self._open() as old:
            old.readline()
            while chunk := old.read(1 << 20):
                file.write(chunk)

    def _open(self) -> BinaryIO:
        return io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")

    def _write_header(self) -> bytes:
        header = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name != "source"
        }
        return json.dumps(header, default=datetime.isoformat).encode() + b"\n"

    def _compose_result(self, request: BatchedRequest) -> dict[str, Any]:
        kind = self.find_result_type(request)
        if kind == "succeeded":
            message = compose_message(
                request.params,
                message_id=f"msg_{digest(self.batch_id + request.custom_id)[:24]}",
                cache_use=request.cache_use,
            )
            message["usage"]["service_tier"] = "batch"
            return {
                "type": kind,
                "message": spoil_message(
                    message, request.fault, max_tokens=request.params["max_tokens"]
                ),
            }
        if kind == "errored":
            error = find_error(request.fault) or {
                "type": "invalid_request_error",
                "message": find_invalid_parameter(request.params),
            }
            return {"type": kind, "error": {"type": "error", "error": error, "request_id": None}}
        return {"type": kind}


def find_result_type(request: BatchedRequest) -> ResultType:
    """Return what kind of row a request ends as, if nobody cancels its batch."""
    if (failure := _FAILURES.get(request.fault or "")) is not None:
        return failure
    return "errored" if find_invalid_parameter(request.params) else "succeeded"


def count_result_types(requests: Iterable[BatchedRequest]) -> dict[str, int]:
    """Count what kinds of rows requests end as."""
    return dict(Counter(find_result_type(request) for request in requests))


def read_batch(path: Path) -> StoredBatch:
    """Read a batch's header; its requests stay in the file.

    Raises:
        ValueError: If the file holds no batch.
    """
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
        times = {
            name: header[name] and datetime.fromisoformat(header[name])
            for name in ("created_at", "ends_at", "cancel_initiated_at")
        }
        return StoredBatch(**{**header, **times}, source=path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} holds no batch that this server wrote; "
            "expected its requests as JSON lines; move the file away"
        ) from error
