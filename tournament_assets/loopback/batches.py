"""Batches that were accepted: what became of them, and their results.

Only the requests are kept. A verdict is a pure function of its request, so the results of a batch
are written anew, line by line, whenever somebody reads them.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from tournament_assets.loopback.messages import compose_message, find_invalid_parameter
from tournament_assets.loopback.request_rows import BatchedRequest, digest, read_rows, write_rows
from tournament_assets.loopback.spoiling import (
    find_error,
    find_failure,
    spoil_line,
    spoil_message,
)

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
        canceled_at = self.cancel_initiated_at
        header = {
            "batch_id": self.batch_id,
            "created_at": self.created_at.isoformat(),
            "ends_at": self.ends_at.isoformat(),
            "counts": dict(self.counts),
            "cancel_initiated_at": None if canceled_at is None else canceled_at.isoformat(),
            "is_archived": self.is_archived,
            "is_foreign": self.is_foreign,
            "n_shown": self.n_shown,
        }
        return json.dumps(header).encode() + b"\n"

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
    if (failure := find_failure(request.fault)) is not None:
        return failure
    return "errored" if find_invalid_parameter(request.params) else "succeeded"


def count_result_types(requests: Iterable[BatchedRequest]) -> dict[str, int]:
    """Count what kinds of rows requests end as."""
    return dict(Counter(find_result_type(request) for request in requests))


def is_unsorted(path: Path) -> bool:
    """Whether an earlier version wrote a batch's file: it kept the requests as they came."""
    with path.open("rb") as file:
        return "counts" not in json.loads(file.readline())


def read_batch(path: Path) -> StoredBatch:
    """Read a batch's header; its requests stay in the file.

    Raises:
        ValueError: If the file holds no batch.
    """
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
            # An earlier version did not write the counts: the rows tell.
            counts = header.get("counts") or count_result_types(read_rows(file))
        canceled_at = header["cancel_initiated_at"]
        return StoredBatch(
            batch_id=header["batch_id"],
            created_at=datetime.fromisoformat(header["created_at"]),
            ends_at=datetime.fromisoformat(header["ends_at"]),
            counts=counts,
            cancel_initiated_at=canceled_at and datetime.fromisoformat(canceled_at),
            is_archived=header.get("is_archived", False),
            is_foreign=header.get("is_foreign", False),
            n_shown=header.get("n_shown"),
            source=path,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} holds no batch that this server wrote; "
            "expected its requests as JSON lines; move the file away"
        ) from error
