"""What a loopback judge accepted, read from its directory: the truth that survives a kill.

The server need not run; while it does, batches and messages that it accepts meanwhile may be
missing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tournament_assets.loopback.batches import read_batch
from tournament_assets.loopback.message_log import hash_params, read_messages


@dataclass(frozen=True, slots=True)
class AcceptedBatch:
    """A batch that was accepted.

    Attributes:
        batch_id: Its id.
        created_at: When it was accepted.
        custom_ids: How many requests it has, each with a name of its own.
    """

    batch_id: str
    created_at: datetime
    custom_ids: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a server accepted, and how often the same was asked.

    A question is known by the hash of its parameters (see `message_log.hash_params`), so that it
    is the same one under another custom_id, and in a batch or in a direct message.

    Attributes:
        batches: The batches, the oldest first; foreign ones do not count.
        in_batches: How often each question was accepted in a batch.
        in_messages: How often each question was answered in a direct message.
        billed: How often each question was accepted and is billed: what failed, expired or was
            canceled is not.
    """

    batches: tuple[AcceptedBatch, ...]
    in_batches: Mapping[str, int]
    in_messages: Mapping[str, int]
    billed: Mapping[str, int]

    @property
    def n_requests(self) -> int:
        """Requests in all the batches."""
        return sum(batch.custom_ids for batch in self.batches)

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
        raise ValueError(f"{directory} is no directory; expected the one that a server was given")
    batches = [read_batch(path) for path in directory.glob("msgbatch_*.jsonl")]
    own = sorted(
        (batch for batch in batches if not batch.is_foreign), key=lambda each: each.created_at
    )
    in_batches: Counter[str] = Counter()
    in_messages = Counter(message.params_hash for message in read_messages(directory))
    billed = in_messages.copy()
    for batch in own:
        for request in batch.iterate_requests():
            question = hash_params(request.params)
            in_batches[question] += 1
            billed[question] += batch.find_result_type(request) == "succeeded"
    return Accounts(
        batches=tuple(
            AcceptedBatch(batch.batch_id, batch.created_at, batch.n_requests) for batch in own
        ),
        in_batches=dict(in_batches),
        in_messages=dict(in_messages),
        billed=dict(+billed),
    )
