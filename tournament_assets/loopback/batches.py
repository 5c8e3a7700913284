"""Accepted batches, one file each: a header, then a row for each request.

A verdict is a pure function of its request, so only the requests are kept, in the order in which
the results come out, and results are generated on every read.
"""

import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from tournament_assets.loopback.messages import (
    CacheUse,
    Params,
    PromptCache,
    compose_message,
    find_invalid_parameter,
)

NamedRequest = tuple[str, Params]
"""The custom_id of a request, and the parameters of its message."""


@dataclass(frozen=True, slots=True)
class BatchedRequest:
    """One request of a batch.

    Attributes:
        custom_id: Its name in the results.
        cache_use: Its use of the prompt cache, decided when the batch was accepted, so that every
            reading of the results shows the same bill.
    """

    custom_id: str
    params: Params
    cache_use: CacheUse


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """An accepted batch, whose requests are read only when they are needed.

    Attributes:
        created_at: When it was accepted.
        n_invalid: How many of them fail because of invalid parameters.
        metadata: The submitter's metadata; only OpenAI's protocol has it.
    """

    batch_id: str
    created_at: datetime
    ends_at: datetime
    n_requests: int
    n_invalid: int
    metadata: Mapping[str, str]
    path: Path

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return datetime.now(UTC) >= self.ends_at

    def iterate_requests(self) -> Iterator[BatchedRequest]:
        """Yield the requests one by one, in a fixed order other than that of submission."""
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                yield BatchedRequest(**json.loads(line))

    def iterate_lines(self) -> Iterator[bytes]:
        """Yield the results line by line, in the order of `iterate_requests`."""
        for request in self.iterate_requests():
            row = {"custom_id": request.custom_id, "result": self._compose_result(request)}
            yield json.dumps(row, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n"

    def _compose_result(self, request: BatchedRequest) -> dict[str, Any]:
        problem = find_invalid_parameter(request.params)
        if problem is not None:
            error = {"type": "invalid_request_error", "message": problem}
            return {
                "type": "errored",
                "error": {"type": "error", "error": error, "request_id": None},
            }
        message = compose_message(
            request.params,
            message_id=f"msg_{_digest(self.batch_id + request.custom_id)[:24]}",
            cache_use=request.cache_use,
        )
        message["usage"]["service_tier"] = "batch"
        return {"type": "succeeded", "message": message}


class BatchStore:
    """A store that accepts batches and finds them again.

    Args:
        directory: Where to keep the batches across restarts; None keeps them as long as the store
            lives.
        processing_seconds: How long a batch takes.
        cache: The simulated prompt cache, shared with direct messages.
        before_listing: Called with a new batch and its requests before anybody can see it.

    Attributes:
        n_messages: How many direct messages were answered.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        processing_seconds: float = 0.2,
        cache: PromptCache | None = None,
        before_listing: Callable[[StoredBatch, Sequence[NamedRequest]], None] = lambda *_: None,
    ) -> None:
        if directory is None:
            self._temporary = TemporaryDirectory(prefix="loopback_judge_")
            directory = Path(self._temporary.name)
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.cache = PromptCache() if cache is None else cache
        self.n_messages = 0
        self._processing = timedelta(seconds=processing_seconds)
        self._before_listing = before_listing
        self._accepting = threading.Lock()
        stored = [_read_batch(path) for path in directory.glob("msgbatch_*.jsonl")]
        stored.sort(key=lambda batch: batch.created_at)
        self._batches = {batch.batch_id: batch for batch in stored}

    def create(
        self,
        requests: Sequence[NamedRequest],
        *,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> StoredBatch:
        """Accept a batch of named requests whose names have been checked."""
        with self._accepting:
            now = datetime.now(UTC)
            if self._batches:
                # Times are unique, so that a restarted server lists batches in the same order.
                newest = next(reversed(self._batches.values()))
                now = max(now, newest.created_at + timedelta(microseconds=1))
            batch_id = f"msgbatch_{uuid.uuid4().hex}"
            batch = StoredBatch(
                batch_id=batch_id,
                created_at=now,
                ends_at=now + self._processing,
                n_requests=len(requests),
                n_invalid=sum(find_invalid_parameter(params) is not None for _, params in requests),
                metadata=dict(metadata),
                path=self.directory / f"{batch_id}.jsonl",
            )
            uses = [self.cache.use(params) for _, params in requests]
            self._before_listing(batch, requests)
            _write_batch(batch, [(*each, use) for each, use in zip(requests, uses, strict=True)])
            self._batches[batch_id] = batch
            return batch

    def get(self, batch_id: str) -> StoredBatch | None:
        """Return a batch by name, or None if it does not exist."""
        return self._batches.get(batch_id)

    def list_newest_first(self) -> list[StoredBatch]:
        """Return every batch, the newest first."""
        return list(self._batches.values())[::-1]


def _write_batch(batch: StoredBatch, requests: Sequence[tuple[str, Params, CacheUse]]) -> None:
    """Write a batch's file atomically."""
    header = {name: value for name, value in asdict(batch).items() if name != "path"}
    partial = batch.path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(json.dumps(header, default=datetime.isoformat).encode() + b"\n")
        for name, params, use in sorted(requests, key=lambda request: _digest(request[0])):
            row = {"custom_id": name, "params": params, "cache_use": use}
            file.write(json.dumps(row).encode() + b"\n")
    partial.replace(batch.path)


def _read_batch(path: Path) -> StoredBatch:
    """Read a batch's header; its requests stay in the file."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
        times = {name: datetime.fromisoformat(header[name]) for name in ("created_at", "ends_at")}
        return StoredBatch(**{**header, **times}, path=path)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} holds no batch that this server wrote; "
            "expected its requests as JSON lines; move the file away"
        ) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
