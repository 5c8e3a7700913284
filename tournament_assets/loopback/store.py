"""The batches that a server was given: one file each in a directory, or else in memory."""

import fcntl
import io
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from tournament_assets.loopback.batches import (
    NEVER,
    StoredBatch,
    count_result_types,
    is_unsorted,
    read_batch,
)
from tournament_assets.loopback.caching import PromptCache
from tournament_assets.loopback.faults import FaultPlan
from tournament_assets.loopback.message_log import MessageLog
from tournament_assets.loopback.request_rows import BatchedRequest


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
            loaded = [_load(path) for path in directory.glob("msgbatch_*.jsonl")]
            for batch in sorted(loaded, key=lambda each: each.created_at):
                self._batches[batch.batch_id] = batch
        self.messages = MessageLog(directory)

    def create(
        self, requests: Sequence[tuple[str, Mapping[str, Any]]], *, is_foreign: bool = False
    ) -> StoredBatch:
        """Accept a batch of named requests whose names have been checked.

        With a directory, the batch is on the disk when this returns.

        Args:
            requests: The requests by name.
            is_foreign: Whether the batch is somebody else's; the planned faults pass it by.
        """
        plan = FaultPlan() if is_foreign else self._plan
        with self._writing:
            now = datetime.now(UTC)
            if self._batches:
                # Two batches never share a moment, so that a restarted server lists them alike.
                newest = next(reversed(self._batches.values()))
                now = max(now, newest.created_at + timedelta(microseconds=1))
            fate = plan.take_name("batch")
            doom = "row_invalid_request_error" if fate == "all_invalid" else None
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


def _load(path: Path) -> StoredBatch:
    batch = read_batch(path)
    if is_unsorted(path):
        requests = list(batch.iterate_requests())
        _write_whole(path, lambda file: batch.write(file, requests))
    return batch


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
