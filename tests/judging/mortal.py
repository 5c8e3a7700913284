"""A process that ends at a given one of its calls to the ledger and the service."""

import threading
from collections.abc import Callable, Iterator
from typing import Any


class Killed(BaseException):
    """The end of the process: nothing in it catches this, and it does nothing afterwards."""


class Life:
    """Counts what a process does to the outside, and ends it.

    A call is two steps, since a process can end before it and after it had its effect; so is every
    row that is read.

    Args:
        ends_at: The step at which the process ends; 0 is never.
    """

    def __init__(self, ends_at: int = 0) -> None:
        self.steps = 0
        self._ends_at = ends_at
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return 0 < self._ends_at <= self.steps

    def step(self) -> None:
        """Live on, or not."""
        with self._lock:
            if not self.is_over:
                self.steps += 1
            if self.is_over:
                raise Killed


class Mortal:
    """Something outside a process, as long as the process lives."""

    def __init__(self, outside: object, life: Life) -> None:
        self._outside = outside
        self._life = life

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._outside, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._life.step()
            result = method(*arguments, **named)
            self._life.step()
            return self._each(result) if isinstance(result, Iterator) else result

        return call

    def _each(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self._life.step()
            yield item
