"""What a server accepted, read from its directory: the truth that survives a kill."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.loopback.faults.fates import Fates
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.loopback.batches import BatchStore, StoredBatch

FILE_NAME = "messages.jsonl"


class MessageLog:
    """Writes down the direct messages that are answered, a line each.

    Args:
        directory: Where to keep them.

    Attributes:
        n_messages: How many there are, those of earlier servers included.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._lock = threading.Lock()
        self.n_messages = sum(1 for _ in read_messages(directory))
        if self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
            with self._path.open("ab") as file:
                file.write(b"\n")  # the next line is not appended to one that a kill cut off

    def record(self, params: Mapping[str, Any]) -> None:
        """Write down a message whose answer has not been sent; it is on the disk on return."""
        with self._lock, self._path.open("ab") as file:
            file.write(json.dumps({"question": fingerprint(params)}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self.n_messages += 1


def read_messages(directory: Path) -> Iterator[str]:
    """Yield what the direct messages in a server's directory asked, the oldest first."""
    path = directory / FILE_NAME
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            yield json.loads(line)["question"]
        except ValueError:
            continue  # a kill cut the line off, so nobody was answered


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a server accepted, and how often the same was asked.

    A question is known by the fingerprint of its parameters, so that it is the same one under
    another custom_id, and in a batch or in a direct message.

    Attributes:
        batches: The batches, the oldest first; foreign ones do not count.
        in_batches: How often each question was accepted in a batch.
        in_messages: How often each question was answered in a direct message.
        billed: How often each question was accepted and is billed: what failed or expired is not.
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


def read_accounts(directory: Path) -> Accounts:
    """Read what a server accepted from the directory in which it keeps its batches.

    Raises:
        ValueError: If there is no such directory, or one of the files is no batch.
    """
    if not directory.is_dir():
        raise ValueError(
            f"{directory} is not a directory; expected the one that a server was given"
        )
    fates = Fates(directory)
    batches = BatchStore(directory).list_newest_first()[::-1]
    own = [batch for batch in batches if not fates.is_foreign(batch)]
    in_batches: Counter[str] = Counter()
    in_messages = Counter(read_messages(directory))
    billed = in_messages.copy()
    for batch in own:
        for request in batch.iterate_requests():
            question = fingerprint(request.params)
            in_batches[question] += 1
            billed[question] += fates.find_type(batch, request) == "succeeded"
    return Accounts(
        batches=tuple(own),
        in_batches=dict(in_batches),
        in_messages=dict(in_messages),
        billed=dict(+billed),
    )
