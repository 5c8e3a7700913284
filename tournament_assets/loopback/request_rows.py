"""A batch's requests as JSON lines, in the order in which its results come out.

What many requests have in common, such as the system text, is written once, in a line of its own
before the first row that refers to it by number:

    {"shared": 0, "params": {"model": ..., "max_tokens": ..., "system": ...}}
    {"custom_id": ..., "shared": 0, "params": {"messages": ...}, "cache_use": ..., "fault": ...}

A row without `shared` holds all of its parameters itself.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from tournament_assets.loopback.caching import CacheUse

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
                _write_line(file, {"shared": number, "params": _common_part(request.params)})
            own = {name: value for name, value in request.params.items() if name == _OWN}
            row = {"custom_id": request.custom_id, "shared": number, "params": own}
        _write_line(file, {**row, "cache_use": request.cache_use, "fault": request.fault})


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
            raise ValueError(f"{line[:80]!r} is no request of a batch") from error


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


def _write_line(file: BinaryIO, value: Mapping[str, Any]) -> None:
    file.write(json.dumps(value).encode() + b"\n")
