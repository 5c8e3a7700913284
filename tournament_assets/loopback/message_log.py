"""The direct messages that a server answered, one line each in an append-only file."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
