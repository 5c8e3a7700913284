from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback.threaded_servers import ThreadedServer


class Impostor:
    """Answers what a test wants, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[Response] = []
        self.results = b""
        self.missing_bytes = 0
        self.results_url: str | None = None
        self._server = ThreadedServer(
            Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        )

    def __enter__(self) -> "Impostor":
        self._server.__enter__()
        self.url = self._server.url
        self.results_url = f"{self.url}/v1/messages/batches/b1/results"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)

    async def _answer(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.url.path}")
        if self.answers:
            return self.answers[0]
        if request.url.path.endswith("/results"):
            length = len(self.results) + self.missing_bytes
            return Response(self.results, headers={"content-length": str(length)})
        return JSONResponse(self.batch())

    def batch(self, **changes: Any) -> dict[str, Any]:
        counts = {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0}
        return {
            "id": "b1",
            "type": "message_batch",
            "processing_status": "ended",
            "request_counts": counts,
            "results_url": self.results_url,
            **changes,
        }

    def refuse(self, status: int, kind: str, message: str, **headers: str) -> None:
        body = {"type": "error", "error": {"type": kind, "message": message}}
        headers["x-should-retry"] = "false"  # so that no test waits for the SDK's retries
        self.answers = [JSONResponse(body, status_code=status, headers=headers)]


def succeeded(name: str = "r1", **message: Any) -> dict[str, Any]:
    whole = {"type": "message", "content": [{"type": "text", "text": "VERDICT: A"}], **message}
    return {"custom_id": name, "result": {"type": "succeeded", "message": whole}}
