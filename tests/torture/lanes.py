"""Several trials under way at a time, each in a lane with a nursery of its own."""

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

from tests.torture.forking import Nursery
from tests.torture.trials import Outcome

T = TypeVar("T")
Task = Callable[[Nursery], Outcome]


class Lanes:
    """Runs what wants a nursery, so many at a time.

    Args:
        jobs: How many.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._nurseries: queue.SimpleQueue[Nursery] = queue.SimpleQueue()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for _ in range(self._jobs):
                self._nurseries.put(stack.enter_context(Nursery()))
            self._pool = ThreadPoolExecutor(self._jobs)
            stack.callback(self._pool.shutdown, cancel_futures=True)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def submit(self, function: Callable[[Nursery], T]) -> "Future[T]":
        """Run something when a lane is free."""
        return self._pool.submit(self._run, function)

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run trials and yield what came of them, each as soon as it is through.

        One that cannot be brought to its end is a problem and keeps no other from its own.
        """
        for future in as_completed([self.submit(task) for task in tasks]):
            error = future.exception()
            if error is None:
                yield future.result()
            else:
                yield Outcome("broken trials", (), problems=(repr(error)[:3000],))

    def _run(self, function: Callable[[Nursery], T]) -> T:
        nursery = self._nurseries.get()
        try:
            return function(nursery)
        finally:
            self._nurseries.put(nursery)
