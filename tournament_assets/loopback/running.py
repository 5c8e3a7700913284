"""Running the loopback judge, in a thread or as a command."""

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Literal, Self

import click
import uvicorn
from starlette.types import ASGIApp

from tournament_assets.loopback.addresses import is_loopback
from tournament_assets.loopback.batches import BatchStore
from tournament_assets.loopback.openai_door import OpenAiDoor
from tournament_assets.loopback.server import RequestLog, create_app

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
        super().__init__(_build_app(self.store))


def serve(
    host: str, port: int, directory: Path | None = None, *, processing_seconds: float = 0.2
) -> None:
    """Run the loopback judge in the foreground until it is interrupted.

    Args:
        host: An address of this machine that no other machine can reach.
        port: Where to listen; 0 picks a free port, which the log names.
        directory: Where to keep the batches; None keeps them as long as the server lives.
        processing_seconds: How long a batch takes.
    """
    if not is_loopback(host):
        raise ValueError(
            f"the judge server was asked to listen on {host!r}; "
            "expected a loopback address such as '127.0.0.1', '::1' or 'localhost'"
        )
    app = _build_app(BatchStore(directory, processing_seconds=processing_seconds))
    uvicorn.run(app, host=host, port=port, lifespan="off", ws="none")


def _build_app(store: BatchStore) -> ASGIApp:
    return OpenAiDoor(create_app(store), store.directory)


@click.command("judge-server")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free port.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep batches here, so that a restarted server still knows them.",
)
@click.option(
    "--processing-seconds",
    type=click.FloatRange(min=0),
    default=0.2,
    show_default=True,
    help="How long a batch takes.",
)
def judge_server_command(port: int, state: Path | None, processing_seconds: float) -> None:
    """Run the loopback judge on 127.0.0.1, in the foreground, until interrupted.

    It is a lexical scorer, not a language model. It speaks the Messages and Message Batches
    protocol; to use it, export ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any

    It also speaks OpenAI's chat completions and Batch API, at a judge's base_url
    http://127.0.0.1:PORT/v1
    """
    serve("127.0.0.1", port, state, processing_seconds=processing_seconds)
