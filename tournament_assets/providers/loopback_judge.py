"""The loopback judge as a service: asked in this process, in the words of Anthropic's protocol.

Its replies are read as a server's are. No server and no SDK takes part: importing them would take
longer than a small tournament does.
"""

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.judging.batch_service import (
    BatchStatus,
    MessageParams,
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.loopback.batches import BatchStore, StoredBatch
from tournament_assets.loopback.messages import (
    compose_message,
    count_input_tokens,
    find_invalid_parameter,
)
from tournament_assets.providers.anthropic.wire_format import message_body, read_message, read_row
from tournament_assets.tournament.judge_services import ServiceConnection


@contextmanager
def open_loopback(connection: ServiceConnection) -> "Iterator[LoopbackJudge]":
    """Open the loopback judge on the batches that a folder holds."""
    yield LoopbackJudge(BatchStore(connection.folder))


class LoopbackJudge:
    """The loopback judge; satisfies `judging.batch_service.TakesBatches`.

    Args:
        store: Its batches.
    """

    def __init__(self, store: BatchStore) -> None:
        self._store = store

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Submit a batch."""
        return _status(self._store.create([(each.custom_id, _sent(each)) for each in requests]))

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield the batches, the newest first."""
        yield from map(_status, self._store.list_newest_first())

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look up a batch's progress."""
        return _status(self._batch(batch_id))

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch."""
        batch = self._batch(batch_id)
        if not batch.has_ended:
            raise JudgeError(
                f"the results of batch {batch_id} are not there yet; expected a batch that has "
                "ended; run again",
                failure=JudgeFailure.TRANSIENT,
            )
        yield from (row for line in batch.iterate_lines() if (row := read_row(line)) is not None)

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request outside any batch."""
        params = _sent(request)
        problem = find_invalid_parameter(params)
        if problem is not None:
            raise JudgeError(
                f"could not ask one request: the loopback judge refuses it: {problem}",
                failure=JudgeFailure.INVALID,
            )
        self._store.n_messages += 1
        message = compose_message(
            params,
            message_id=f"msg_{uuid.uuid4().hex[:24]}",
            cache_use=self._store.cache.use(params),
        )
        return read_message(request.custom_id, message)

    def count_tokens(self, params: MessageParams) -> int:
        """Return the input tokens of a request."""
        return count_input_tokens(params)

    def check_model(self, model: str) -> str | None:  # noqa: ARG002
        """Return None: every model is known."""
        return None

    def _batch(self, batch_id: str) -> StoredBatch:
        batch = self._store.get(batch_id)
        if batch is None:
            raise JudgeError(
                f"the loopback judge knows no batch {batch_id!r}; expected its file in "
                f"{self._store.directory}",
                failure=JudgeFailure.UNKNOWN,
            )
        return batch


def _sent(request: SubmittedRequest) -> dict[str, Any]:
    """Return the parameters as they would arrive."""
    params: dict[str, Any] = json.loads(canonical_json(message_body(request.params)))
    return params


def _status(batch: StoredBatch) -> BatchStatus:
    return BatchStatus(
        batch_id=batch.batch_id,
        has_ended=batch.has_ended,
        n_requests=batch.n_requests,
        created_at=batch.created_at,
    )
