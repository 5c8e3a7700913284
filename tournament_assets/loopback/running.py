"""Running the loopback judge as a command."""

from pathlib import Path

import click
import uvicorn
from starlette.types import ASGIApp

from tournament_assets.loopback.addresses import is_loopback
from tournament_assets.loopback.batches import BatchStore
from tournament_assets.loopback.bounded_protocol import BoundedProtocol
from tournament_assets.loopback.openai_door import OpenAiDoor
from tournament_assets.loopback.server import create_app


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
    app = build_app(BatchStore(directory, processing_seconds=processing_seconds))
    uvicorn.run(app, host=host, port=port, http=BoundedProtocol, lifespan="off", ws="none")


def build_app(store: BatchStore) -> ASGIApp:
    """Return what serves a store's batches, by either protocol."""
    return OpenAiDoor(create_app(store), store.directory)


@click.command("serve")
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
