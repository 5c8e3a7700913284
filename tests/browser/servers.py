"""Starts the real Dagster webserver and daemon for a project, and stops them again."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 180


def free_port() -> int:
    """Find a free port below those that a system gives to connections, so that none takes it."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def dagster_dev(project: Path, home: Path, log: Path) -> Iterator[str]:
    """Run `tournament ui` in a project, with a home, and yield its address."""
    variables = {"DAGSTER_HOME": str(home), "TOURNAMENT_PROJECT": str(project)}
    with served(project, log, **variables) as address:
        yield address


@contextmanager
def served(folder: Path, log: Path, *options: str, **variables: str) -> Iterator[str]:
    """Run `tournament ui` in a folder and yield the address of its pages, once it answers.

    With the option `--daemon` there are no pages, and nothing is waited for.
    """
    port = free_port()
    package = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tournament_assets", "ui", "--port", str(port), *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": package, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if "--daemon" not in options:
                _wait_for(f"http://127.0.0.1:{port}/server_info", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=60)
            # Runs that are under way outlive it otherwise.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"dagster dev ended:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310  # our own loopback server
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError(f"no answer from {url}:\n{log.read_text()[-3000:]}")
