"""Running the loopback judge: in a thread of this process, or in the foreground, as a command."""

import asyncio
import ipaddress
import math
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import click
import uvicorn
from starlette.types import ASGIApp

from tournament_assets.loopback.faults import FaultPlan, describe_catalogue, plan_faults
from tournament_assets.loopback.faulty_app import DroppableProtocol, FaultyApp
from tournament_assets.loopback.messages import make_cache
from tournament_assets.loopback.openai_door import OpenAiDoor
from tournament_assets.loopback.server import RequestLog, create_app
from tournament_assets.loopback.store import BatchStore

_START_SECONDS = 15.0
_STOP_SECONDS = 15.0
_Protocol = Literal["auto"] | type[asyncio.Protocol]


class ThreadedServer:
    """Serves an application on a free port of 127.0.0.1, from a thread, while it is entered.

    Args:
        app: What to serve.
        http: How to read HTTP; a name or a class that uvicorn knows.

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
                    # uvicorn would otherwise set up logging for the whole process.
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
    """The loopback judge on a free port of 127.0.0.1, while it is entered.

    Args:
        directory: Where to keep the batches; None keeps them in memory only.
        processing_seconds: How long a batch takes.
        faults: What it does wrong, such as `create_drop_after:2`; see `faults`.

    Attributes:
        url: Where it listens; the base URL for a client.
        log: Counts what it accepted, also where the answer was lost.
        plan: Knows which faults have struck.
        store: Its batches.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        processing_seconds: float = 0.2,
        faults: Sequence[str] = (),
    ) -> None:
        self.plan = plan_faults(faults)
        self.store = _open_store(directory, processing_seconds, self.plan)
        self.log = RequestLog(self.store)
        app, http = _build_app(self.store, self.plan, directory)
        super().__init__(app, http=http)


def serve(
    host: str,
    port: int,
    directory: Path | None = None,
    *,
    processing_seconds: float = 0.2,
    faults: Sequence[str] = (),
) -> None:
    """Run the loopback judge in the foreground until it is interrupted.

    Args:
        host: An address of this machine that no other machine can reach.
        port: Where to listen; 0 picks a free port, which the log names.
        directory: Where to keep the batches; None keeps them in memory only.
        processing_seconds: How long a batch takes.
        faults: What it does wrong, such as `create_drop_after:2`; see `faults`.

    Raises:
        ValueError: If other machines could reach the host: anybody could then read the requests;
            or if one of the faults is none.
    """
    if not is_loopback(host):
        raise ValueError(
            f"the judge server was asked to listen on {host!r}; "
            "expected a loopback address such as '127.0.0.1', '::1' or 'localhost'"
        )
    plan = plan_faults(faults)
    store = _open_store(directory, processing_seconds, plan)
    app, http = _build_app(store, plan, directory)
    uvicorn.run(app, host=host, port=port, http=http, lifespan="off", ws="none")


def _open_store(directory: Path | None, processing_seconds: float, plan: FaultPlan) -> BatchStore:
    return BatchStore(
        directory, processing_seconds=processing_seconds, cache=make_cache(plan), plan=plan
    )


def _build_app(
    store: BatchStore, plan: FaultPlan, directory: Path | None
) -> tuple[ASGIApp, _Protocol]:
    """Return the judge with its faults; without any, it is the plain one."""
    if plan.is_empty:
        return OpenAiDoor(create_app(store), directory), "auto"
    limit = plan.find("create_413_above")
    app = create_app(store, max_requests=math.inf if limit is None else limit.argument)
    return OpenAiDoor(FaultyApp(app, store, plan), directory), DroppableProtocol


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_faults(_context: Any, _option: Any, faults: tuple[str, ...]) -> tuple[str, ...]:
    try:
        plan_faults(faults)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return faults


@click.command("judge-server", short_help="Run the loopback judge on its own.")
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
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[:ARG]",
    callback=_check_faults,
    help="Inject this fault, such as create_drop_after:2. May be repeated.",
)
@click.option("--list-faults", is_flag=True, help="List all faults, and stop.")
def judge_server_command(
    port: int,
    state: Path | None,
    processing_seconds: float,
    faults: tuple[str, ...],
    list_faults: bool,
) -> None:
    """Run the loopback judge on 127.0.0.1, in the foreground, until interrupted.

    It is a lexical scorer, not a language model. It speaks the Messages and Message Batches
    protocol; to use it, export ANTHROPIC_BASE_URL=http://127.0.0.1:PORT ANTHROPIC_API_KEY=any

    It also speaks OpenAI's chat completions and Batch API, at judge.base_url
    http://127.0.0.1:PORT/v1
    """
    if list_faults:
        click.echo(describe_catalogue())
        return
    serve("127.0.0.1", port, state, processing_seconds=processing_seconds, faults=faults)
