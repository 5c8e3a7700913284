"""Starting processes quickly: each is forked from one that has imported everything already.

What is started is a process like any other: it has a process id of its own, which is killed with
SIGKILL, and reaped, so that others see that it is gone.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_TICK_SECONDS = 0.001
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended.

    Attributes:
        status: Its exit code; the negative number of the signal that ended it.
        seconds: How long it lived.
    """

    status: int
    seconds: float

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.status == -signal.SIGKILL


class Nursery:
    """A process that others are forked from; none of them outlives it. One thread may use it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.forking"],
            cwd=ROOT,
            env={**_own_environment(), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt at the keyboard is for the whole test
        )
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # At the end of its input it kills its children and goes.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def start(self, role: str, log: Path, **arguments: Any) -> int:
        """Start a process and return its id.

        Args:
            role: What it does; see `_find_role`.
            log: Where what it prints goes.
            arguments: What it is told, as JSON values.
        """
        said = self._ask(do="start", role=role, log=str(log), arguments=arguments)
        return int(said["pid"])

    def wait(self, pid: int, *, seconds: float, kill_after: float | None = None) -> End:
        """Wait until a process ends.

        Args:
            pid: The process.
            seconds: How long it may take; then it is killed, and the test with it.
            kill_after: Kill it that long after its start.
        """
        said = self._ask(do="wait", pid=pid, seconds=seconds, kill_after=kill_after)
        assert not said["is_late"], f"a process did not end within {seconds} s"
        return End(said["status"], said["seconds"])

    def is_alive(self, pid: int) -> bool:
        """Whether a process has not ended yet."""
        return bool(self._ask(do="look", pid=pid)["is_alive"])

    def kill(self, pid: int) -> None:
        """Kill a process, as `kill -9` does, unless it has ended."""
        self._ask(do="wait", pid=pid, seconds=_STOP_SECONDS, kill_after=0.0)

    def _ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the process that others are forked from is gone"
        answer: dict[str, Any] = json.loads(line)
        return answer


def _own_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "DAGSTER_", "OPENAI_", "TOURNAMENT_"))
    }


class _Parent:
    """The children, and what is done with them on the orders of the nursery."""

    def __init__(self) -> None:
        self._started: dict[int, float] = {}
        self._ended: dict[int, tuple[int, float]] = {}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["do"] == "start":
            return self._start(order["role"], order["log"], order["arguments"])
        if order["do"] == "look":
            return {"is_alive": not self._reap(order["pid"])}
        return self._wait(order["pid"], order["seconds"], order["kill_after"])

    def stop(self) -> None:
        for pid in self._started:
            self._wait(pid, _STOP_SECONDS, 0.0)

    def _start(self, role: str, log: str, arguments: dict[str, Any]) -> dict[str, Any]:
        pid = os.fork()
        if not pid:
            _live(role, log, arguments)
        # Ids come again: another process that had this one may have ended long ago.
        self._ended.pop(pid, None)
        self._started[pid] = time.monotonic()
        return {"pid": pid}

    def _wait(self, pid: int, seconds: float, kill_after: float | None) -> dict[str, Any]:
        is_late = False
        while not self._reap(pid):
            lived = time.monotonic() - self._started[pid]
            is_late = is_late or lived > seconds + (kill_after or 0.0)
            if is_late or (kill_after is not None and lived >= kill_after):
                # It has not been reaped, so nobody else can have its number.
                os.kill(pid, signal.SIGKILL)
                kill_after = None
            time.sleep(_TICK_SECONDS)
        status, lived = self._ended[pid]
        return {"status": status, "seconds": lived, "is_late": is_late}

    def _reap(self, pid: int) -> bool:
        if pid not in self._ended:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                return False
            lived = time.monotonic() - self._started[pid]
            self._ended[pid] = os.waitstatus_to_exitcode(status), lived
        return True


def _live(role: str, log: str, arguments: dict[str, Any]) -> None:
    """Be the child: do one thing and end."""
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, target in ((nothing, 0), (written, 1), (written, 2)):
            os.dup2(descriptor, target)
        status = _find_role(role)(**arguments)
    except BaseException:  # noqa: BLE001  # it is the end of the process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _find_role(role: str) -> Any:
    from tests.torture.chains import launch
    from tests.torture.judges import serve_judge
    from tests.torture.rounds import ask_in_rounds
    from tests.torture.worker import recover, settle

    roles: dict[str, Any] = {
        "judge": serve_judge,
        "launch": launch,
        "worker": settle,
        "recovery": recover,
        "rounds": ask_in_rounds,
    }
    return roles[role]


def _import_everything() -> None:
    import psycopg  # noqa: F401
    import uvicorn.loops.auto
    import uvicorn.protocols.http.h11_impl  # noqa: F401

    import tests.loopback.faults.servers  # noqa: F401
    from tests.torture.worker import connect

    _find_role("worker")
    # Some of what a client needs is imported when the first one is made.
    for service in ("anthropic", "openai_batch"):
        with connect(service, "http://127.0.0.1:1"):
            pass


def main() -> None:
    """Fork processes until the input ends."""
    _import_everything()
    parent = _Parent()
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(parent.obey(json.loads(line))) + "\n")
            sys.stdout.flush()
    finally:
        parent.stop()


if __name__ == "__main__":
    main()
