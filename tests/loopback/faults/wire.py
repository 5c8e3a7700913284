"""Closing connections, and answers that the judge would not give."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.loopback.faults.catalogue import OUT_OF_CREDIT
from tournament_assets.loopback.server import Refusal, answer_refusal


class DroppableProtocol(H11Protocol):
    """HTTP/1.1 that lets the application close the connection under its own answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Hand the connection to the application with every request."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


def droppable(ahead: timedelta) -> type[DroppableProtocol]:
    """Return the protocol of a server whose clock is ahead of this machine's."""

    class Ahead(DroppableProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.server_state = _ServerState(self.server_state, ahead)  # type: ignore[assignment]

    return Ahead if ahead else DroppableProtocol


class _ServerState:
    def __init__(self, state: Any, ahead: timedelta) -> None:
        self._state, self._ahead = state, ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        now = format_datetime(datetime.now(UTC) + self._ahead, usegmt=True).encode()
        others = [header for header in self._state.default_headers if header[0] != b"date"]
        return [(b"date", now), *others]


async def drop_connection(scope: Scope, receive: Receive, said: bytes = b"") -> None:
    """Close a request's connection after some last bytes, which need not be a whole answer."""
    transport: asyncio.Transport = scope["state"]["transport"]
    transport.write(said)
    transport.close()
    # Had the application returned before the end was noticed, uvicorn would answer 500.
    await wait_for_disconnect(receive)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass


_INJECTED = "The loopback judge injects this."
_RATE_LIMIT = Refusal(429, "rate_limit_error", "Number of requests exceeds your limit")
_REFUSALS = {
    "400": Refusal(400, "invalid_request_error", _INJECTED),
    "credit": Refusal(400, "invalid_request_error", OUT_OF_CREDIT),
    "401": Refusal(401, "authentication_error", "invalid x-api-key"),
    "402": Refusal(402, "billing_error", "Your credit balance is too low."),
    "403": Refusal(403, "permission_error", "Your API key may not use this resource."),
    "413": Refusal(413, "request_too_large", "Request exceeds the maximum size"),
    "429": _RATE_LIMIT,
    "429_bare": _RATE_LIMIT,
    "500": Refusal(500, "api_error", "Internal server error"),
    "504": Refusal(504, "timeout_error", "The request timed out"),
    "529": Refusal(529, "overloaded_error", "Overloaded"),
}
POLL_BURST = (
    Refusal(500, "api_error", _INJECTED),
    Refusal(503, "api_error", _INJECTED),
    Refusal(504, "timeout_error", _INJECTED),
    Refusal(529, "overloaded_error", _INJECTED),
)
_SPEND_LIMIT = {
    "type": "error",
    "error": {
        "type": "rate_limit_error",
        "message": "You have reached your spend limit.",
        "details": {"error_code": "enforced_spend_limit_reached"},
    },
    "request_id": "req_loopback",
}
_GATEWAY_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>502</body></html>"


def inject_answer(request: Request, fault: str) -> Response | None:
    """Return what a fault of creations or of direct messages says; None if it says nothing."""
    _, _, name = fault.removesuffix("_after").partition("_")
    if name == "html_502":
        return HTMLResponse(_GATEWAY_PAGE, 502)
    if name == "redirect":
        return inject_redirect(request, 307)
    if name == "spend_limit":
        return JSONResponse(_SPEND_LIMIT, 429)
    if name not in _REFUSALS:
        return None
    answer = answer_refusal(request, _REFUSALS[name])
    if name == "429":
        answer.headers["retry-after"] = "1"
    return answer


def inject_redirect(request: Request, status: int) -> Response:
    """Send the client to this server under another name, which is another host to it."""
    return RedirectResponse(request.url.replace(hostname="localhost"), status)


def inject_not_found(request: Request) -> Response:
    """Return that there is no such thing."""
    return answer_refusal(request, Refusal(404, "not_found_error", _INJECTED))
