"""What was decided about batches when they were accepted, kept beside them.

A fate is written down before anybody can see its batch, so it outlives the server and does not
change whoever reads the results.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

from tests.loopback.faults.catalogue import FaultPlan
from tests.loopback.faults.spoiling import FAILURES
from tournament_assets.loopback.batches import BatchedRequest, NamedRequest, StoredBatch
from tournament_assets.loopback.messages import find_invalid_parameter

FOREIGN = "foreign"
_DOOMED = ("all_invalid", "batch_refused")


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a batch.

    Attributes:
        fault: What goes wrong with it as a whole, if anything; `FOREIGN` for somebody else's.
        rows: What goes wrong with some of its requests, by custom_id.
        counts: How many of its rows are of each type.
    """

    fault: str | None
    rows: Mapping[str, str]
    counts: Mapping[str, int]


class Fates:
    """Decides what becomes of batches, and knows it again.

    Args:
        directory: Where the batches are.
        plan: Which faults strike.
    """

    def __init__(self, directory: Path, plan: FaultPlan | None = None) -> None:
        self._directory = directory
        self._plan = FaultPlan() if plan is None else plan
        self._fates = {
            path.stem.removeprefix("fate_"): Fate(**json.loads(path.read_bytes()))
            for path in directory.glob("fate_*.json")
        }

    def decide(self, batch: StoredBatch, requests: Sequence[NamedRequest]) -> None:
        """Decide what becomes of a batch that nobody has seen yet."""
        if requests[0][0].startswith(f"{FOREIGN}-"):
            fault, rows = FOREIGN, dict[str, str]()
        else:
            fault = self._plan.take_name("batch") or ""
            dooms = ["row_invalid_request_error" if fault in _DOOMED else None]
            if fault == "batch_canceled":
                dooms = ["", fault]
            struck = {
                name: doom if fault else self._plan.take_name("row", "message")
                for (name, _), doom in zip(requests, cycle(dooms), strict=False)
            }
            rows = {name: struck_by for name, struck_by in struck.items() if struck_by}
        if fault or rows:
            counts = Counter(_find_type(rows.get(name), params) for name, params in requests)
            fate = Fate(fault or None, rows, dict(counts))
            partial = self._directory / f"fate_{batch.batch_id}.partial"
            partial.write_text(json.dumps(asdict(fate)), encoding="utf-8")
            # A server that is killed here leaves no half of a fate, which no other could read.
            partial.replace(partial.with_suffix(".json"))
            self._fates[batch.batch_id] = fate

    def get(self, batch_id: str) -> Fate | None:
        """Return what becomes of a batch; None if nothing goes wrong with it."""
        return self._fates.get(batch_id)

    def is_foreign(self, batch: StoredBatch) -> bool:
        """Whether a batch is somebody else's, and does not count."""
        fate = self.get(batch.batch_id)
        return fate is not None and fate.fault == FOREIGN

    def spare(self, batch: StoredBatch) -> None:
        """Let a batch end that was never to end."""
        fate = self.get(batch.batch_id)
        if fate is not None and fate.fault == "never_ends":
            del self._fates[batch.batch_id]

    def find_type(self, batch: StoredBatch, request: BatchedRequest) -> str:
        """Return what kind of row one of a batch's requests ends as."""
        fate = self.get(batch.batch_id)
        fault = None if fate is None else fate.rows.get(request.custom_id)
        return _find_type(fault, request.params)


def _find_type(fault: str | None, params: Mapping[str, object]) -> str:
    invalid = "errored" if find_invalid_parameter(params) else "succeeded"
    return FAILURES.get(fault or "", invalid)
