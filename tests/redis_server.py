"""A Redis server of the tests' own, where Redis is installed."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.servers import free_port

_START_SECONDS = 120
_STOP_SECONDS = 60


@contextmanager
def running_redis(folder: Path, *, password: str) -> Iterator[int]:
    """Run a server on a free port of 127.0.0.1 and yield the port.

    Where Redis is not installed, the test is skipped, or fails in CI.
    """
    program = shutil.which("redis-server")
    if program is None:
        reason = "Redis is not installed: apt-get install redis-server"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; make e2e does so as root")
        pytest.skip(reason)
    port = free_port()
    # On standard input: a command line is there for everybody to read.
    settings = f"bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ''\nappendonly no\n"
    log = folder / "redis.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "-"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,  # an interrupt at the keyboard is for the tests alone
        )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(settings.encode())
    try:
        _wait_until_ready(process, port, log)
        yield port
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no Redis:\n{log.read_text()[-3000:]}") from None
            time.sleep(0.05)
        else:
            return
