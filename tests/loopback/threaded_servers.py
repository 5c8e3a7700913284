"""Servers that run in a thread while a test does."""

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Literal, Self

import uvicorn
from starlette.types import ASGIApp

from tournament_assets.loopback.batches import BatchStore
from tournament_assets.loopback.running import build_app

_START_SECONDS = 15.0
_STOP_SECONDS = 15.0
_Protocol = Literal["auto"] | type[asyncio.Protocol]


class ThreadedServer:
    """A context manager that serves an application on a free port of 127.0.0.1 from a thread.

    Args:
        app: What to serve.
        http: The HTTP implementation; a name or a class that uvicorn knows.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, app: ASGIApp, *, http: _Protocol = "auto") -> None:
        self._app = app
        self._http = http
        self.url = ""

    def __enter__(self) -> Self:
        # Bound here, so that the port is known, and taken, before the thread begins.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
            self._server = uvicorn.Server(
                uvicorn.Config(
                    self._app,
                    http=self._http,
                    # Otherwise uvicorn would configure logging for the whole process.
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    lifespan="off",
                    ws="none",
                    timeout_graceful_shutdown=2,
                )
            )
            self._thread = threading.Thread(
                target=self._server.run,
                kwargs={"sockets": [self._socket]},
                name="loopback judge",
                daemon=True,
            )
            self._thread.start()
            self._wait_until_ready()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self._server.should_exit = True
                raise RuntimeError(
                    f"the loopback judge did not start on {self.url} within {_START_SECONDS:.0f} s"
                )
            time.sleep(0.005)


class RequestLog:
    """Counts what a server accepted, not what it refused."""

    def __init__(self, store: BatchStore) -> None:
        self._store = store

    @property
    def batches(self) -> int:
        """Batches created, including those found in the directory."""
        return len(self._store.list_newest_first())

    @property
    def requests(self) -> int:
        """Requests in those batches."""
        return sum(batch.n_requests for batch in self._store.list_newest_first())

    @property
    def messages(self) -> int:
        """Direct messages answered."""
        return self._store.n_messages

    def to_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return {"batches": self.batches, "requests": self.requests, "messages": self.messages}


class LoopbackServer(ThreadedServer):
    """A context manager that runs the loopback judge on a free port of 127.0.0.1.

    Args:
        directory: Where to keep the batches; None keeps them as long as the server lives.
        processing_seconds: How long a batch takes.

    Attributes:
        url: Where it listens; the base URL for a client.
        log: Counts what it accepted, even if the answer was lost.
        store: Its batches.
    """

    def __init__(self, directory: Path | None = None, *, processing_seconds: float = 0.2) -> None:
        self.store = BatchStore(directory, processing_seconds=processing_seconds)
        self.log = RequestLog(self.store)
        super().__init__(build_app(self.store))
