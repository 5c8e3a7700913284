"""Progress of long work: a bar on a terminal, and occasional lines in the log."""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LOG_INTERVAL_SECONDS = 15.0
_REPEAT_SECONDS = 60.0


class _Display:
    """The display of all progress bars of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._n_bars = 0

    def open(self, title: str, total: int) -> "tuple[Progress, TaskID]":
        """Return the display of a new bar, and the bar's id in it."""
        with self._lock:
            if self._progress is None:
                self._progress = _make_progress()
                self._progress.start()
            self._n_bars += 1
            return self._progress, self._progress.add_task(title, total=total, note="")

    def close(self) -> None:
        """Remove a bar; removing the last one ends the display."""
        with self._lock:
            self._n_bars -= 1
            if not self._n_bars and self._progress is not None:
                self._progress.stop()
                self._progress = None


_DISPLAY = _Display()


def _make_progress() -> "Progress":
    # Loading the definitions imports this module without showing a bar.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
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


class _ProgressBar:
    """A bar on standard error if that is a terminal; the log gets a line at intervals."""

    def __init__(self, title: str, *, total: int, log: Callable[[str], None]) -> None:
        self._title = title
        self._log = log
        self._done = 0
        self._total = total
        self._last_line = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        self._bar = _DISPLAY.open(self._title, self._total)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar = None
        _DISPLAY.close()

    def _draw(self, **changes: Any) -> None:
        if self._bar is not None:
            progress, task = self._bar
            progress.update(task, **changes)

    def _show(self, note: str) -> None:
        self._draw(completed=self._done, total=self._total, note=note)
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

    def advance(self, responses: int, *, tokens: int) -> None:
        """Add finished responses."""
        self._done += responses
        self._tokens += tokens
        elapsed = max(time.monotonic() - self._started, 1e-9)
        self._show(f"{self._tokens / elapsed:.0f} tokens/s")


class JudgingBar(_ProgressBar):
    """Progress of one dimension's judging."""

    def __init__(self, title: str, *, total: int, log: Callable[[str], None]) -> None:
        super().__init__(title, total=total, log=log)
        self._noted: dict[str, float] = {}

    def note(self, message: str) -> None:
        """Show a note on what is happening; the log hears the same once a minute."""
        now = time.monotonic()
        if now - self._noted.get(message, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
            self._noted[message] = now
            self._log(f"{self._title}: {message}")
        self._draw(note=message)

    def advance(self, done: int, total: int) -> None:
        """Set the number of answered requests."""
        self._done, self._total = done, total
        self._show("")
