import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_CODE = """
import sys
from pathlib import Path
from tests.loopback.faults.servers import serve_faulty
serve_faulty(0, Path(sys.argv[1]), processing_seconds=0.0, faults=())
"""


class KillableServer:
    """The loopback judge in a process of its own, which can be killed at any moment."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        said = iter(self._process.stderr or [])
        # It listens when it says where.
        self.url = next(url[0] for line in said if (url := re.search(r"http://[\d.:]+", line)))
        return self

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
        with self._process:
            self._process.wait()
