"""What a server was given: batches, a file each or in memory, and direct messages, a line each.

What it accepted can be read from its directory, the truth that survives a kill, with or without
the server; while that runs, what it accepts meanwhile may be missing.
"""

import fcntl
import hashlib
import io
import json
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from tournament_assets.loopback.batches import (
    NEVER,
    BatchedRequest,
    StoredBatch,
    count_result_types,
    read_batch,
)
from tournament_assets.loopback.faults import FaultPlan
from tournament_assets.loopback.messages import PromptCache

FILE_NAME = "messages.jsonl"


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A direct message that was answered.

    Attributes:
        answered_at: When.
        params_hash: What was asked; see `hash_params`.
        model: Who was asked.
    """

    answered_at: datetime
    params_hash: str
    model: str


class MessageLog:
    """Counts direct messages, and writes them down where there is a directory.

    Args:
        directory: Where to keep them; None only counts them.

    Attributes:
        n_messages: How many there are, those in the directory included.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._path = None if directory is None else directory / FILE_NAME
        self._lock = threading.Lock()
        self.n_messages = 0
        if self._path is not None and self._path.exists():
            _end_last_line(self._path)
            self.n_messages = sum(1 for _ in read_messages(self._path.parent))

    def record(self, params: Mapping[str, Any]) -> None:
        """Write down a message that is about to be answered; it is on the disk on return."""
        with self._lock:
            if self._path is not None:
                line = {
                    "answered_at": datetime.now(UTC).isoformat(),
                    "params_hash": hash_params(params),
                    "model": params["model"],
                }
                with self._path.open("ab") as file:
                    file.write(json.dumps(line).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            self.n_messages += 1


def read_messages(directory: Path) -> Iterator[LoggedMessage]:
    """Yield the direct messages in a server's directory, the oldest first."""
    path = directory / FILE_NAME
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a kill cut the line off, so nobody was answered
            yield LoggedMessage(
                datetime.fromisoformat(message["answered_at"]),
                message["params_hash"],
                message["model"],
            )


def _end_last_line(path: Path) -> None:
    """Keep the next line from being appended to one that a kill cut off."""
    with path.open("r+b") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
            file.write(b"\n")


def hash_params(params: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a request's parameters, whatever the order of their names.

    It is that of the UTF-8 bytes of the JSON text with sorted keys, no white space and no escapes.
    """
    text = json.dumps(params, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


class BatchStore:
    """Accepts batches and knows them again.

    Args:
        directory: Where to keep the batches, one JSONL file each, and a log of direct messages, so
            that a restarted server still knows them; None keeps them in memory only.
        processing_seconds: How long a batch takes.
        cache: The simulated prompt cache, shared with direct messages.
        plan: What goes wrong with batches and their requests.

    Attributes:
        cache: The simulated prompt cache.
        messages: The direct messages that were answered.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        processing_seconds: float = 0.2,
        cache: PromptCache | None = None,
        plan: FaultPlan | None = None,
    ) -> None:
        self.cache = PromptCache() if cache is None else cache
        self._plan = FaultPlan() if plan is None else plan
        self._directory = directory
        self._processing = timedelta(seconds=processing_seconds)
        # Writing a large batch takes seconds, in which others can be looked at.
        self._writing = threading.Lock()
        self._listing = threading.Lock()
        self._batches: dict[str, StoredBatch] = {}
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            _remove_partial_files(directory)
            self._batches = {batch.batch_id: batch for batch in _read_batches(directory)}
        self.messages = MessageLog(directory)

    def create(
        self,
        requests: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        is_foreign: bool = False,
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> StoredBatch:
        """Accept a batch of named requests whose names have been checked.

        With a directory, the batch is on the disk when this returns.

        Args:
            requests: The requests by name.
            is_foreign: Whether the batch is somebody else's; the planned faults pass it by.
            metadata: What was written beside it.
        """
        plan = FaultPlan() if is_foreign else self._plan
        with self._writing:
            now = datetime.now(UTC)
            if self._batches:
                # Two batches never share a moment, so that a restarted server lists them alike.
                newest = next(reversed(self._batches.values()))
                now = max(now, newest.created_at + timedelta(microseconds=1))
            fate = plan.take_name("batch")
            dooms = ("all_invalid", "batch_refused")
            doom = "row_invalid_request_error" if fate in dooms else None
            batched = [
                BatchedRequest(
                    custom_id,
                    params,
                    self.cache.use(params),
                    plan.take_name("row", "message") if fate is None else doom,
                )
                for custom_id, params in requests
            ]
            batch = StoredBatch(
                batch_id=f"msgbatch_{uuid.uuid4().hex}",
                created_at=now,
                ends_at=NEVER if fate == "never_ends" else now + self._processing,
                counts=count_result_types(batched),
                is_archived=fate == "archived",
                n_shown={"results_stay_short": len(batched) // 2, "results_stay_empty": 0}.get(
                    fate or ""
                ),
                is_foreign=is_foreign,
                is_refused=fate == "batch_refused",
                metadata=dict(metadata),
            )
            return self._keep(batch, lambda file: batch.write(file, batched))

    def get(self, batch_id: str) -> StoredBatch | None:
        """Return a batch, or None if there is none of that name."""
        return self._batches.get(batch_id)

    def list_newest_first(self) -> list[StoredBatch]:
        """Return every batch, the newest first."""
        with self._listing:
            return list(reversed(self._batches.values()))

    def cancel(self, batch_id: str) -> StoredBatch | None:
        """Cancel what is not through yet: all of a batch in progress, nothing of an ended one."""
        with self._writing:
            batch = self._batches.get(batch_id)
            now = datetime.now(UTC)
            if batch is None or batch.status_at(now) != "in_progress":
                return batch
            batch = replace(batch, cancel_initiated_at=now)
            return self._keep(batch, batch.rewrite)

    def _keep(self, batch: StoredBatch, write: Callable[[BinaryIO], None]) -> StoredBatch:
        """Write a batch and know it from then on."""
        if self._directory is None:
            content = io.BytesIO()
            write(content)
            batch = replace(batch, source=content.getvalue())
        else:
            path = self._directory / f"{batch.batch_id}.jsonl"
            _write_whole(path, write)
            batch = replace(batch, source=path)
        with self._listing:
            self._batches[batch.batch_id] = batch
        return batch


def _read_batches(directory: Path) -> list[StoredBatch]:
    """Return the batches in a directory, the oldest first."""
    batches = [read_batch(path) for path in directory.glob("msgbatch_*.jsonl")]
    return sorted(batches, key=lambda batch: batch.created_at)


def _write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file that is there as a whole, and on the disk, or not at all."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}.partial")
    with _announced_writing(path.parent):
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # The file gets its name last, so a file of that name holds a whole batch.
        partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def _announced_writing(directory: Path) -> Iterator[None]:
    """Keep other servers of the same directory from taking a partial file for a leftover."""
    with (directory / ".writing").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def _remove_partial_files(directory: Path) -> None:
    """Remove what a server left that was killed while it wrote."""
    with (directory / ".writing").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another server is writing: a later start cleans up
            return
        for partial in directory.glob("msgbatch_*.partial"):
            partial.unlink()


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a server accepted, and how often the same was asked.

    A question is known by the hash of its parameters (see `hash_params`), so that it
    is the same one under another custom_id, and in a batch or in a direct message.

    Attributes:
        batches: The batches, the oldest first; foreign ones do not count.
        in_batches: How often each question was accepted in a batch.
        in_messages: How often each question was answered in a direct message.
        billed: How often each question was accepted and is billed: what failed, expired or was
            canceled is not.
    """

    batches: tuple[StoredBatch, ...]
    in_batches: Mapping[str, int]
    in_messages: Mapping[str, int]
    billed: Mapping[str, int]

    @property
    def n_requests(self) -> int:
        """Requests in all the batches."""
        return sum(batch.n_requests for batch in self.batches)

    @property
    def n_messages(self) -> int:
        """Direct messages."""
        return sum(self.in_messages.values())

    @property
    def accepted(self) -> Mapping[str, int]:
        """How often each question was accepted, in a batch or in a direct message."""
        return Counter(self.in_batches) + Counter(self.in_messages)

    @property
    def billed_twice(self) -> Mapping[str, int]:
        """The questions that are billed more than once, and how often."""
        return {question: times for question, times in self.billed.items() if times > 1}


def read_accounts(directory: Path) -> Accounts:
    """Read what a server accepted from the directory in which it keeps its batches.

    Raises:
        ValueError: If there is no such directory, or one of the files is no batch.
    """
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is not a directory; expected the one that a server was given"
        )
    own = [batch for batch in _read_batches(directory) if not batch.is_foreign]
    in_batches: Counter[str] = Counter()
    in_messages = Counter(message.params_hash for message in read_messages(directory))
    billed = in_messages.copy()
    for batch in own:
        for request in batch.iterate_requests():
            question = hash_params(request.params)
            in_batches[question] += 1
            billed[question] += batch.find_result_type(request) == "succeeded"
    return Accounts(
        batches=tuple(own),
        in_batches=dict(in_batches),
        in_messages=dict(in_messages),
        billed=dict(+billed),
    )
