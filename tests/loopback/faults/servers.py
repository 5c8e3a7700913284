"""Running the loopback judge so that it goes wrong, in a thread or in a process of its own."""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn

from tests.loopback.faults.accounts import MessageLog
from tests.loopback.faults.catalogue import FaultPlan, plan_faults
from tests.loopback.faults.fates import FOREIGN, Fates
from tests.loopback.faults.faulty_app import FaultyApp, spoil_rows
from tests.loopback.faults.faulty_door import FaultyDoor
from tests.loopback.faults.wire import DroppableProtocol, droppable
from tests.loopback.threaded_servers import LoopbackServer, RequestLog, ThreadedServer
from tournament_assets.loopback.batches import BatchStore, StoredBatch
from tournament_assets.loopback.messages import CacheUse, PromptCache
from tournament_assets.loopback.server import create_app


class FaultyStore(BatchStore):
    """Batches with their fates.

    Attributes:
        fates: What becomes of them.
        log: The direct messages that were answered.
        is_sorted: Whether the newest is listed first.
    """

    is_sorted = True

    def __init__(self, directory: Path | None, plan: FaultPlan, processing_seconds: float) -> None:
        super().__init__(
            directory,
            processing_seconds=processing_seconds,
            cache=SpoiledCache(plan),
            before_listing=lambda batch, requests: self.fates.decide(batch, requests),
        )
        self.fates = Fates(self.directory, plan)
        self.log = MessageLog(self.directory)

    def list_newest_first(self) -> list[StoredBatch]:
        listed = super().list_newest_first()
        return listed if self.is_sorted else listed[::-1]


class FaultyLog(RequestLog):
    """Counts what a server accepted, what it accepted before a restart and no foreign batches."""

    def __init__(self, store: FaultyStore) -> None:
        super().__init__(store)
        self._faulty = store

    @property
    def batches(self) -> int:
        return len(self._own())

    @property
    def requests(self) -> int:
        return sum(batch.n_requests for batch in self._own())

    @property
    def messages(self) -> int:
        return self._faulty.log.n_messages

    def _own(self) -> list[StoredBatch]:
        batches = self._faulty.list_newest_first()
        return [batch for batch in batches if not self._faulty.fates.is_foreign(batch)]


class FaultyServer(LoopbackServer):
    """A loopback judge that goes wrong, on a free port of 127.0.0.1, while it is entered.

        with FaultyServer(faults=["create_drop_after:2"]) as server:
            ...  # two batches are accepted, and the client hears of neither
            assert server.log.batches == 3
            assert server.plan.struck == ["create_drop_after", "create_drop_after"]

    Args:
        directory: Where to keep the batches, their fates and the direct messages.
        processing_seconds: How long a batch takes.
        faults: What it does wrong, such as `create_drop_after:2`; see `catalogue`.
        ahead: How far its clock is ahead of this machine's.
        is_sorted: Whether it lists the newest batch first, or else the oldest.

    Attributes:
        log: Counts what it accepted, also where the answer was lost.
        plan: Knows which faults have struck.
        store: Its batches.
    """

    store: FaultyStore

    def __init__(
        self,
        directory: Path | None = None,
        *,
        processing_seconds: float = 0.2,
        faults: Sequence[str] = (),
        ahead: timedelta = timedelta(0),
        is_sorted: bool = True,
    ) -> None:
        self.plan = plan_faults(faults)
        self.store = FaultyStore(directory, self.plan, processing_seconds)
        self.store.is_sorted = is_sorted
        self.log = FaultyLog(self.store)
        app = _build_app(self.store, self.plan, ahead)
        ThreadedServer.__init__(self, app, http=droppable(ahead))

    def add_foreign_batch(self, n_requests: int, *, age: timedelta) -> None:
        """Let somebody else have sent a batch some time ago."""
        params = {
            "model": "another",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "?"}],
        }
        batch = self.store.create([(f"{FOREIGN}-{number}", params) for number in range(n_requests)])
        aged = replace(batch, created_at=batch.created_at - age)
        self.store._batches[batch.batch_id] = aged

    def end_batches(self, *, at_once: bool = False) -> None:
        """Let every batch that was accepted end now.

        Args:
            at_once: Whether later ones end as soon as they are accepted.
        """
        now = datetime.now(UTC)
        if at_once:
            self.store._processing = timedelta(0)
        for batch in self.store.list_newest_first():
            ended = replace(batch, ends_at=min(batch.ends_at, now))
            self.store._batches[batch.batch_id] = ended
            self.store.fates.spare(batch)

    def iterate_lines(self, batch: StoredBatch) -> Iterator[bytes]:
        """Yield the results of a batch as they are for good."""
        fate, lines = self.store.fates.get(batch.batch_id), batch.iterate_lines()
        return lines if fate is None else spoil_rows(list(lines), batch, fate)


def serve_faulty(
    port: int, directory: Path, *, processing_seconds: float, faults: Sequence[str]
) -> None:
    """Run a loopback judge that goes wrong in the foreground until it is killed."""
    plan = plan_faults(faults)
    app = _build_app(FaultyStore(directory, plan, processing_seconds), plan)
    uvicorn.run(app, host="127.0.0.1", port=port, http=DroppableProtocol, lifespan="off", ws="none")


def _build_app(store: FaultyStore, plan: FaultPlan, ahead: timedelta = timedelta(0)) -> FaultyDoor:
    app = FaultyApp(create_app(store), store, plan, store.fates, store.log, ahead)
    return FaultyDoor(app, store.directory)


class SpoiledCache(PromptCache):
    """A prompt cache that hits as often, and forgets as soon, as a plan says.

    Of the readers, the k-th hits if that keeps the hits at the whole part of k times the share.
    """

    def __init__(self, plan: FaultPlan) -> None:
        super().__init__()
        self._is_useless = plan.find("below_minimum") is not None
        self._expiry = plan.find("cache_expiry")
        self._hit_rate = plan.find("hit_rate")
        self._readers = 0
        self._counting = threading.Lock()

    def use(self, params: Mapping[str, Any]) -> CacheUse:
        use = "none" if self._is_useless else super().use(params)
        if use != "read" or self._hit_rate is None:
            return use
        with self._counting:
            before, self._readers = self._readers, self._readers + 1
            share = self._hit_rate.argument
            is_hit = math.floor((before + 1) * share + 1e-9) > math.floor(before * share + 1e-9)
            return "read" if is_hit else "write"

    def find_lifetime(self, params: Mapping[str, Any]) -> float:
        return super().find_lifetime(params) if self._expiry is None else self._expiry.argument
