"""The loopback judge in a process of its own, which outlives those that are killed."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path

from tests.browser.servers import free_port
from tests.torture.forking import Nursery

_START_SECONDS = 120.0
_PORTS = 5


def serve_judge(
    *, port: int, directory: str, processing_seconds: float, faults: Sequence[str]
) -> int:
    """Be the judge until the process is killed."""
    from tests.loopback.faults.servers import serve_faulty

    serve_faulty(port, Path(directory), processing_seconds=processing_seconds, faults=faults)
    return 0


class Judge:
    """A judge that a nursery runs.

    Args:
        nursery: Who starts it.
        folder: Where it keeps its batches, in `batches`, and its log.
        processing_seconds: How long a batch takes.
        faults: What it does wrong.

    Attributes:
        directory: Where its batches are.
        pid: Its process id.
        url: Where it listens.
    """

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        *,
        processing_seconds: float = 0.0,
        faults: Sequence[str] = (),
    ) -> None:
        self.directory = folder / "batches"
        self._nursery = nursery
        self._log = folder / "judge.log"
        self._processing_seconds = processing_seconds
        self._faults = list(faults)
        for _ in range(_PORTS):
            self._port = free_port()
            if self._start():
                return
        raise AssertionError(f"the judge did not start:\n{self._log.read_text()[-2000:]}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def kill(self) -> None:
        """Kill it; what it accepted is in its directory."""
        self._nursery.kill(self.pid)

    def restart(self) -> None:
        """Start it again where it was killed; it does nothing wrong any more."""
        self._faults = []
        assert self._start(), self._log.read_text()[-2000:]

    def _start(self) -> bool:
        """Start it; False if somebody else has its port."""
        self.pid = self._nursery.start(
            "judge",
            self._log,
            port=self._port,
            directory=str(self.directory),
            processing_seconds=self._processing_seconds,
            faults=self._faults,
        )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if _answers(self._port):
                return True
            if not self._nursery.is_alive(self.pid):
                return False
            time.sleep(0.005)
        raise AssertionError("the judge does not answer")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
