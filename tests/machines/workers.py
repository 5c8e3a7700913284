"""Celery workers, each a process of its own, started as the documentation says."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "configs" / "deploy"
_START_SECONDS = 120
_STOP_SECONDS = 60


@contextmanager
def celery_worker(
    name: str, *queues: str, environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker that takes one step at a time, from when it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "dagster_celery.app", "worker"),
                *("--queues", ",".join(queues), "--hostname", f"{name}@%h", "--concurrency", "1"),
                "--loglevel=INFO",
            ],
            env={
                **os.environ,
                **environment,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(DEPLOY / "celery")]),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while b" ready." not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no worker:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        yield process
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
