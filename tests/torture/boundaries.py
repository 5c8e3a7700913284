"""The boundaries of a process: where its calls to the ledger and the service begin and end.

A process that is told to dies at one of them, by SIGKILL, like one that somebody else kills; only
that it is known where. Calls that only read the ledger change nothing, so that a kill before one of
them is a kill after what came before it.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tournament_assets.judging.batch_service import UNPARSABLE

_WRITES = frozenset(
    {
        "acquire_lease",
        "begin_recovery",
        "renew_lease",
        "release_lease",
        "record_intent",
        "record_created",
        "record_rows",
        "record_failures",
        "record_closed",
    }
)
_READS = frozenset(
    {
        "answered_keys",
        "batch_keys",
        "batch_states",
        "failed_keys",
        "iterate_replies",
        "keys_failed",
        "known_batch_ids",
        "open_batches",
        "open_scopes",
    }
)
_SERVICE_CALLS = frozenset(
    {
        "check_model",
        "create_batch",
        "list_batches",
        "get_batch",
        "iterate_results",
        "ask_directly",
    }
)


class Life:
    """Counts the boundaries that a process passes, and kills it at one of them.

    Args:
        dies_at: The boundary at which it dies; 0 is none.
        note: Where it leaves a note on where it died.

    Attributes:
        passed: The boundaries that it has passed.
        rows_read: Of every nonce, how many rows were read in the last stream.
        harvested_by: The thread that reads a nonce's results to keep them.
    """

    def __init__(self, dies_at: int, note: Path) -> None:
        self.passed: list[str] = []
        self.rows_read: dict[str, int] = {}
        self.harvested_by: dict[str, int] = {}
        self._dies_at = dies_at
        self._note = note
        self._lock = threading.Lock()
        self._writing = threading.local()
        sa.event.listen(sa.Engine, "commit", self._commit)

    def close(self) -> None:
        """Count no more commits."""
        sa.event.remove(sa.Engine, "commit", self._commit)

    def step(self, boundary: str) -> None:
        """Pass a boundary, or die at it."""
        with self._lock:
            self.passed.append(boundary)
            if len(self.passed) == self._dies_at:
                self.leave_note(boundary)
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)  # the other threads find the lock taken until they are gone too

    def leave_note(self, boundary: str, **more: Any) -> None:
        """Write down where the process was and what it had read."""
        note = {
            "boundary": boundary,
            "passed": self.passed,
            "rows_read": self.rows_read,
            **more,
        }
        self._note.write_text(json.dumps(note))

    def write(self, name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call what writes to the ledger: there is a boundary before each of its commits, too."""
        self.step(f"before {name}")
        self._writing.name = name
        try:
            result = method(*arguments, **named)
        finally:
            self._writing.name = None
        self.step(f"after {name}")
        return result

    def _commit(self, _connection: sa.Connection) -> None:
        name = getattr(self._writing, "name", None)
        if name is not None:
            self.step(f"before a commit of {name}")


class MortalLedger:
    """A ledger with a boundary before and after every write, and before every commit in it."""

    def __init__(self, ledger: object, life: Life, *, pause_seconds: float = 0.0) -> None:
        self._ledger = ledger
        self._life = life
        self._pause_seconds = pause_seconds

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._ledger, name)
        if name == "batch_keys":
            return self._note_harvest(method)
        if name in _READS:
            return method
        if name not in _WRITES:
            raise AttributeError(f"{name} is neither a write nor a read that is known")

        def write(*arguments: Any, **named: Any) -> Any:
            time.sleep(self._pause_seconds)
            return self._life.write(name, method, *arguments, **named)

        return write

    def _note_harvest(self, method: Callable[[str], Any]) -> Callable[[str], Any]:
        def batch_keys(nonce: str) -> Any:
            self._life.harvested_by[nonce] = threading.get_ident()
            return method(nonce)

        return batch_keys


class MortalService:
    """A batch service with a boundary before and after every call, and after every row."""

    def __init__(self, service: object, life: Life) -> None:
        self._service = service
        self._life = life

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._service, name)
        if name not in _SERVICE_CALLS:
            raise AttributeError(f"{name} is no call that is known to have boundaries")

        def call(*arguments: Any, **named: Any) -> Any:
            self._life.step(f"before {name}")
            result = method(*arguments, **named)
            if isinstance(result, Iterator):
                return self._each(name, result)
            self._life.step(f"after {name}")
            return result

        return call

    def _each(self, name: str, items: Iterator[Any]) -> Iterator[Any]:
        n_rows = 0
        for n_read, item in enumerate(items, start=1):
            # A line that is not JSON is read and counted, and no row that is to be written down.
            if name == "iterate_results" and item.result_type != UNPARSABLE:
                n_rows += 1
                nonce, _, _ = item.custom_id.partition("-")
                # Rows that are read to see whose they are need not be written down.
                if self._life.harvested_by.get(nonce) == threading.get_ident():
                    self._life.rows_read[nonce] = n_rows
            self._life.step(f"after row {n_read} of {name}")
            yield item
        self._life.step(f"after {name}")
