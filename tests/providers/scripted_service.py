"""A service that gives the answers of a test, one after the other, and keeps what it was asked."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback.threaded_servers import ThreadedServer
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches

KEY = "sk-ant-secret-0123456789"


@dataclass(frozen=True)
class Asked:
    """What a service was asked once."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Script:
    """Gives answers in turn, the last one again and again, and notes what it was asked.

    Attributes:
        service: The adapter, connected to it.
        asked: What it was asked since it was given its answers.
    """

    service: Any

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: list[Response] = []

    def give(self, *answers: Response) -> Any:
        """Change what will be answered, and return the adapter."""
        self.asked.clear()
        self._answers = list(answers)
        return self.service

    async def answer(self, request: Request) -> Response:
        self.asked.append(
            Asked(
                request.method,
                request.url.path,
                dict(request.query_params),
                dict(request.headers),
                await request.body(),
            )
        )
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def open_anthropic(url: str) -> AnthropicBatches:
    return AnthropicBatches(base_url=url, api_key=KEY)


@contextmanager
def run_script(connect: Callable[[str], Any] = open_anthropic) -> Iterator[Script]:
    """Serve a script while it is entered; `connect` makes the adapter for its address."""
    script = Script()
    app = Starlette(routes=[Route("/{path:path}", script.answer, methods=["GET", "POST"])])
    with (
        ThreadedServer(app) as server,
        closing(connect(server.url)) as script.service,
    ):
        yield script


def refusal(
    status: int,
    kind: str = "some_error",
    message: str = "no",
    *,
    details: dict[str, Any] | None = None,
    **headers: str,
) -> Response:
    """Build an error of the API, which the SDK is told not to try again."""
    error = {"type": kind, "message": message, **({"details": details} if details else {})}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse(
        {"type": "error", "error": error},
        status_code=status,
        headers={"x-should-retry": "false", **named},
    )


def batch(batch_id: str = "b1", *, n_requests: int = 2, **changes: Any) -> dict[str, Any]:
    """Build a batch in progress."""
    counts = {"processing": n_requests, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    return {
        "id": batch_id,
        "type": "message_batch",
        "processing_status": "in_progress",
        "request_counts": counts,
        "created_at": "2026-09-01T12:00:00Z",
        "results_url": None,
        **changes,
    }


def page(*batches: dict[str, Any], more: bool = False) -> Response:
    """Build a page of the list of batches."""
    last_id = batches[-1]["id"] if batches else None
    return JSONResponse({"data": list(batches), "has_more": more, "last_id": last_id})
