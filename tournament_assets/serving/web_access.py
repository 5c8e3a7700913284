"""Who may use a server of pages: browsers show every web page's requests to this machine, too.

A page of another site can send requests to 127.0.0.1, and under a name of its own that leads there
it can read the answers. `GuardedApp` wraps any ASGI application.
"""

import hmac
import json
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tournament_assets.foundation.errors import InputError
from tournament_assets.loopback.addresses import is_loopback

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
AsgiApplication = Callable[[_Message, _Receive, _Send], Awaitable[None]]
_SHORTEST_TOKEN = 12
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]+)?")
_READS = ("GET", "HEAD", "OPTIONS")
_NO_FRAMES = (
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
)
"""On every answer: no other page can show these and lead clicks astray."""
PRIVATE_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""On pages of ours: they are as of now, and tell nobody where a link was followed."""


def require_access(host: str, token: str | None, *, variable: str) -> None:
    """Refuse to serve other machines without a token, and refuse tokens that can be guessed.

    Args:
        variable: The environment variable that holds the token.
    """
    if not is_loopback(host) and token is None:
        raise InputError(
            f"--host is {host!r}, which other machines can reach; expected a secret in the "
            f"environment variable {variable}, or a loopback address such as 127.0.0.1"
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii()):
        raise InputError(
            f"the token in {variable} has {len(token)} characters; expected at least "
            f"{_SHORTEST_TOKEN}, of ASCII; "
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes a free one."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror}; expected a free port of "
            "this machine; choose another by --port"
        ) from None
    listening.listen()
    return listening


def address_of(host: str, port: int) -> str:
    """Return the address of a server's pages, without a path."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@dataclass(frozen=True, slots=True)
class GuardedApp:
    """An ASGI application that other sites' pages cannot use.

    A request must name a loopback host, or carry the token where there is one: in a cookie, which
    an address with `?token=` sets once, or as `Authorization: Bearer`. What a browser says to come
    from another origin is refused, except a link to a page; what changes something must be JSON,
    which no form can send; a WebSocket must come from a page of the same address.

    Attributes:
        app: What answers requests that are let in.
        cookie: The cookie's name, which servers on one machine share.
        token: The secret; None requires none.
        closed: First parts of paths to which no other site may link, since they are no pages.
        takes_query_in_body: The path whose address may name an operation as `op`, as Dagster's own
            pages do, and hold nothing else; empty if every address may hold anything.
    """

    app: AsgiApplication
    cookie: str
    token: str | None = field(default=None, repr=False)
    closed: tuple[str, ...] = ()
    takes_query_in_body: str = ""

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: _Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_NO_FRAMES]
            await send(message)

        request = _Request(scope)
        refusal = self._refusal(request)
        if self._brings_token(request):
            await self._hand_out_cookie(request, send_guarded)
        elif refusal is None:
            await self.app(scope, receive, send_guarded)
        elif request.is_websocket:
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, problem = refusal
            body = json.dumps({"problems": [problem]}).encode()
            await _answer(send_guarded, status, body, (b"content-type", b"application/json"))

    def _refusal(self, request: "_Request") -> tuple[int, str] | None:
        """Return the status and the reason of a refusal, or None."""
        host, origin = request.host, request.header("origin")
        if self.token is None:
            name = _HOST.fullmatch(host)
            if name is None or not is_loopback(name[1].strip("[]")):
                return 403, f"the address names {host!r}; expected 127.0.0.1 or localhost"
        elif not self._has_token(request):
            return 403, "the token is missing; add ?token= and the secret to the address, once"
        is_of_another_page = origin not in (f"http://{host}", f"https://{host}")
        if is_of_another_page and (origin is not None or request.is_websocket):
            return 403, f"a page of {origin!r} asks; expected one of this address"
        site = request.header("sec-fetch-site") or "none"
        if site not in ("none", "same-origin") and not self._is_link(request):
            return 403, f"a {site} page asks; expected one of this address"
        is_operation = request.path.rstrip("/") == self.takes_query_in_body != ""
        if is_operation and any(key != "op" for key, _ in request.query):
            return 403, "the query stands in the address; expected it in a JSON body, by POST"
        media_type = (request.header("content-type") or "").partition(";")[0].strip().lower()
        if request.method not in _READS and media_type != "application/json":
            return 415, f"the body is {media_type or 'of no type'}; expected application/json"
        return None

    def _is_link(self, request: "_Request") -> bool:
        return (
            request.method in _READS
            and request.header("sec-fetch-mode") == "navigate"
            and request.header("sec-fetch-dest") == "document"
            and request.path.strip("/").partition("/")[0] not in self.closed
        )

    def _has_token(self, request: "_Request") -> bool:
        kind, _, secret = (request.header("authorization") or "").partition(" ")
        cookies = (request.header("cookie") or "").split(";")
        return (kind.lower() == "bearer" and _is_same(secret.strip(), self.token)) or any(
            _is_same(each.strip(), self._cookie) for each in cookies
        )

    @property
    def _cookie(self) -> str:
        """The cookie with its name: made from the token, which no browser has to keep."""
        secret = (self.token or "").encode()
        return f"{self.cookie}={hmac.new(secret, self.cookie.encode(), 'sha256').hexdigest()}"

    def _brings_token(self, request: "_Request") -> bool:
        return (
            self.token is not None
            and request.method == "GET"
            and not request.is_websocket
            and any(key == "token" and _is_same(value, self.token) for key, value in request.query)
        )

    async def _hand_out_cookie(self, request: "_Request", send: _Send) -> None:
        """Lead to the same address without the token, so that no history holds it."""
        query = urlencode([each for each in request.query if each[0] != "token"])
        place = request.path_as_sent + (f"?{query}" if query else "")
        cookie = f"{self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(
            send,
            303,
            b"",
            (b"location", place.encode("latin-1")),
            (b"set-cookie", cookie.encode("latin-1")),
            (b"referrer-policy", b"no-referrer"),
        )


def _is_same(text: str, secret: str | None) -> bool:
    """Compare in a time that reveals nothing about where two texts differ."""
    return secret is not None and hmac.compare_digest(text.encode(), secret.encode())


async def _answer(send: _Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    start = [*headers, (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


class _Request:
    """The parts of a request that decide whether it is let in.

    Attributes:
        method: Its method; a WebSocket begins with a GET.
        host: The host that it names, with the port; empty if it names none or several.
    """

    def __init__(self, scope: _Message) -> None:
        self._scope = scope
        self.is_websocket = scope["type"] == "websocket"
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self.query_string: str = scope["query_string"].decode("latin-1")
        self.host = (self.header("host") or "").lower()

    @property
    def query(self) -> list[tuple[str, str]]:
        """The keys and values in the address."""
        return parse_qsl(self.query_string, keep_blank_values=True)

    @property
    def path_as_sent(self) -> str:
        """The path with its escapes; two slashes at its beginning would name another server."""
        path = (self._scope.get("raw_path") or b"/").partition(b"?")[0].decode("latin-1")
        return "/" + path.lstrip("/\\")

    def header(self, name: str) -> str | None:
        """Return a header's value; several of one name as a list, which no rule lets in."""
        key = name.encode()
        values = [value.decode("latin-1") for each, value in self._scope["headers"] if each == key]
        return ", ".join(values) if values else None
