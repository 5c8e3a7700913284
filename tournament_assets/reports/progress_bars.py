"""Progress of long work: a bar on a terminal, and now and then a line in the log."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_LOG_INTERVAL_SECONDS = 15.0


class _ProgressBar:
    """A bar on standard error if that is a terminal; the log hears of it at intervals."""

    def __init__(self, title: str, *, total: int, log: Callable[[str], None]) -> None:
        self._title = title
        self._log = log
        self._done = 0
        self._total = total
        self._last_line = time.monotonic()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=sys.stderr),
            disable=not sys.stderr.isatty(),
        )
        self._task: TaskID = self._bar.add_task(title, total=total, note="")

    def __enter__(self) -> "_ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def _show(self, note: str) -> None:
        self._bar.update(self._task, completed=self._done, total=self._total, note=note)
        now = time.monotonic()
        if now - self._last_line >= _LOG_INTERVAL_SECONDS or self._done >= self._total:
            self._last_line = now
            self._log(f"{self._title}: {self._done} of {self._total}{', ' if note else ''}{note}")


class GenerationProgress(_ProgressBar):
    """Progress of one entrant's responses, with its speed in tokens per second."""

    def __init__(self, entrant_id: str, *, total: int, log: Callable[[str], None]) -> None:
        super().__init__(f"{entrant_id} responds", total=total, log=log)
        self._started = time.monotonic()
        self._tokens = 0

    def __enter__(self) -> "GenerationProgress":
        super().__enter__()
        return self

    def advance(self, responses: int, *, tokens: int) -> None:
        """Note that some responses are done."""
        self._done += responses
        self._tokens += tokens
        elapsed = max(time.monotonic() - self._started, 1e-9)
        self._show(f"{self._tokens / elapsed:.0f} tokens/s")


class JudgingBar(_ProgressBar):
    """Progress of one dimension's judging."""

    def __init__(self, title: str, *, total: int, log: Callable[[str], None]) -> None:
        super().__init__(title, total=total, log=log)

    def __enter__(self) -> "JudgingBar":
        super().__enter__()
        return self

    def note(self, message: str) -> None:
        """Say what is happening."""
        self._log(f"{self._title}: {message}")
        self._bar.update(self._task, note=message)

    def advance(self, done: int, total: int) -> None:
        """Say how many of the requests are answered."""
        self._done, self._total = done, total
        self._show("")
