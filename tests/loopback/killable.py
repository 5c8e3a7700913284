import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

_CODE = """
import sys
from pathlib import Path
from tournament_assets.loopback.running import serve
serve("127.0.0.1", int(sys.argv[1]), Path(sys.argv[2]), processing_seconds=0.0)
"""


class KillableServer:
    """The loopback judge in a process of its own, which can be killed at any moment."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(port), str(directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        for _ in range(2_000):
            try:
                httpx2.get(f"{self.url}/loopback/log", trust_env=False)
            except httpx2.TransportError:
                assert self._process.poll() is None, "the server did not start"
                time.sleep(0.01)
            else:
                return self
        raise AssertionError("the server did not answer")

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._process.kill()
        self._process.wait()
