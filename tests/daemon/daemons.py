"""Runs the real Dagster daemon for a project, and kills it like a machine that loses its power."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import yaml

WORKSPACE = Path(__file__).parents[2] / "workspace.yaml"
_PROGRAMS = Path(sys.executable).parent


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float, log: Path) -> None:
    """Wait for a condition, or fail with the end of the daemon's log."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen in {seconds} s:\n{_tail(log)}")
        time.sleep(0.25)


def look_often(home: Path) -> None:
    """Let queued runs begin within a second, instead of five."""
    settings = home / "dagster.yaml"
    changed = {
        **yaml.safe_load(settings.read_text()),
        "run_coordinator": {
            "module": "dagster.core.run_coordinator",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        },
    }
    settings.write_text(yaml.safe_dump(changed))


def turn_on(schedule: str, environment: Mapping[str, str]) -> None:
    """Turn a schedule on, as the switch in the UI does."""
    subprocess.run(
        [_PROGRAMS / "dagster", "schedule", "start", schedule, "--workspace", str(WORKSPACE)],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        timeout=180,
    )


class Daemon:
    """`dagster-daemon run`, while it is entered; the code of the project runs in its child."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._log = log
        self._children: list[psutil.Process] = []

    def __enter__(self) -> Self:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [_PROGRAMS / "dagster-daemon", "run", "--workspace", str(WORKSPACE)],
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill_all()

    def kill(self) -> None:
        """Kill the daemon alone; what it has begun lives on until it notices."""
        self._children = self._find_children()
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Kill the daemon and everything it has begun."""
        children = self._find_children()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue

    def _find_children(self) -> list[psutil.Process]:
        if self._process.poll() is not None:
            return [child for child in self._children if child.is_running()]
        children: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        return children


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:] if log.exists() else "no log"
