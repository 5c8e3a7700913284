"""Which faults the loopback judge was told to commit, and when each of them strikes.

A fault strikes a number of events of its family: the first ones, in the order in which the faults
were given. So a test knows beforehand what goes wrong, and that it goes right after that. What a
fault does is in `faulty_app`, for the wire, and in `spoiling`, for what is written in a result.
"""

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tournament_assets.loopback.catalogue import CATALOGUE, FAMILIES, Family, FaultKind

_ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to commit.

    Attributes:
        name: Which one.
        argument: How often it strikes, or its seconds, or its share.
    """

    name: str
    argument: float

    @property
    def kind(self) -> FaultKind:
        """The entry of the catalogue."""
        return CATALOGUE[self.name]


def parse_fault(text: str) -> Fault:
    """Read a fault as it is written on the command line: `NAME`, `NAME:NUMBER` or `NAME:always`.

    Raises:
        ValueError: If there is no such fault, or its number makes no sense.
    """
    name, colon, written = text.partition(":")
    kind = CATALOGUE.get(name)
    if kind is None:
        raise ValueError(f"there is no fault {name!r}; expected one of {', '.join(CATALOGUE)}")
    value = _read_number(kind, written) if colon else kind.default
    if value is None or not _is_fitting(kind, value):
        expected = {
            "times": f"a whole number from 1 up, or {_ALWAYS!r}",
            "seconds": "a number of seconds from 0 up",
            "share": "a share from 0 to 1",
            "requests": "a whole number from 1 up",
            "none": "no number",
        }
        raise ValueError(
            f"the fault {name!r} was given {written!r}; expected {expected[kind.argument]}"
        )
    return Fault(name, value)


def describe_catalogue() -> str:
    """Return the catalogue as a text for people, family by family."""
    lines: list[str] = []
    for family, events in FAMILIES.items():
        lines += ["", f"{family}: {events}"] if lines else [f"{family}: {events}"]
        for kind in CATALOGUE.values():
            if kind.family == family:
                lines.append(f"  {kind.name + _describe_argument(kind):<36} {kind.description}")
    return "\n".join(lines)


class FaultPlan:
    """Decides which events are struck, and remembers which were.

    Attributes:
        struck: The names of the faults that struck, in order.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.struck: list[str] = []
        self._faults = list(faults)
        self._left = [_count_strikes(fault) for fault in self._faults]
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was planned."""
        return not self._faults

    def take(self, *families: Family) -> Fault | None:
        """Return the fault that strikes an event which has just come, or None."""
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.kind.family in families and self._left[index] > 0:
                    self._left[index] -= 1
                    self.struck.append(fault.name)
                    return fault
        return None

    def take_name(self, *families: Family) -> str | None:
        """Return the name of the fault that strikes an event, or None."""
        fault = self.take(*families)
        return None if fault is None else fault.name

    def give_back(self, fault: Fault) -> None:
        """Undo a strike: the event turned out to be none."""
        with self._lock:
            self._left[self._faults.index(fault)] += 1
            self.struck.remove(fault.name)

    def find(self, name: str) -> Fault | None:
        """Return a fault that does not strike single events, if it was asked for."""
        return next((fault for fault in self._faults if fault.name == name), None)


def plan_faults(faults: Sequence[str]) -> FaultPlan:
    """Read faults as they are written on the command line.

    Raises:
        ValueError: If one of them is none.
    """
    return FaultPlan(parse_fault(text) for text in faults)


def _describe_argument(kind: FaultKind) -> str:
    names = {"times": ":N", "seconds": ":SECONDS", "share": ":P", "requests": ":N", "none": ""}
    name = names[kind.argument]
    return name if kind.default is None or not name else f"[{name}]"


def _read_number(kind: FaultKind, written: str) -> float | None:
    if kind.argument == "times" and written == _ALWAYS:
        return math.inf
    if kind.argument == "none":
        return None
    try:
        return float(written)
    except ValueError:
        return None


def _is_fitting(kind: FaultKind, value: float) -> bool:
    if kind.argument == "times":
        return value == math.inf or _is_whole(value)
    if kind.argument == "requests":
        return _is_whole(value)
    if kind.argument == "share":
        return 0 <= value <= 1
    return 0 <= value < math.inf


def _is_whole(value: float) -> bool:
    return value >= 1 and value % 1 == 0


def _count_strikes(fault: Fault) -> float:
    return fault.argument if fault.kind.argument == "times" else 1
