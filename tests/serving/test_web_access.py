"""Requests as browsers and programs send them, to an application that answers everything."""

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.serving.web_access import GuardedApp, address_of, listen, require_access

TOKEN = "a token of sixteen"
HERE = "127.0.0.1:3000"
OWN = {"origin": f"http://{HERE}", "sec-fetch-site": "same-origin"}
JSON = {"content-type": "application/json"}
LINK = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}


@dataclass
class Server:
    """An application behind the guard, and what reached it.

    Attributes:
        reached: The paths of the requests that were let in.
    """

    token: str | None = None
    reached: list[str] = field(default_factory=list)

    async def app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.reached.append(scope["path"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"done"})

    def ask(
        self,
        method: str = "GET",
        address: str = "/",
        *,
        host: str | None = HERE,
        headers: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Send a request, or open a WebSocket by the method `WS`; return what is answered."""
        path, _, query = address.partition("?")
        named = [] if host is None else [(b"host", host.encode())]
        scope = {
            "type": "websocket" if method == "WS" else "http",
            **({} if method == "WS" else {"method": method}),
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": named + [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
        }
        answers: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            answers.append(dict(message))

        app = GuardedApp(
            self.app, "pages", self.token, closed=("graphql",), takes_query_in_body="/graphql"
        )
        asyncio.run(app(scope, None, send))  # type: ignore[arg-type]
        return answers

    def status(self, *request: Any, **options: Any) -> int:
        """Return the status of an answer; of a WebSocket 101 if it was opened, or else 403."""
        before = len(self.reached)
        (answer, *_) = self.ask(*request, **options)
        status = {"websocket.accept": 101, "websocket.close": 403}.get(answer["type"])
        status = status or answer["status"]
        assert (len(self.reached) > before) == (status in (101, 200))
        return status


def headers_of(answer: Mapping[str, Any]) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in answer["headers"]}


@pytest.mark.parametrize(
    ("method", "address", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/runs?q=1", {"sec-fetch-site": "none"}),
        ("GET", "/runs", LINK),
        ("GET", "/graphql", {}),
        ("POST", "/graphql", JSON),
        ("POST", "/graphql", {"content-type": "application/json; charset=utf-8"}),
        ("POST", "/graphql?op=RunsQuery", {**JSON, **OWN}),  # as Dagster's pages ask
        ("WS", "/graphql", OWN),
    ],
)
def test_what_a_person_and_a_program_here_ask_is_answered(
    method: str, address: str, headers: dict[str, str]
) -> None:
    assert Server().status(method, address, headers=headers) in (101, 200)


ASKED = "?query=mutation{wipeAssets}"
EVIL = {"origin": "http://evil.example"}


@pytest.mark.parametrize(
    ("method", "address", "headers"),
    [
        ("GET", f"/graphql{ASKED}", {**EVIL, "sec-fetch-site": "cross-site"}),
        ("GET", f"/graphql{ASKED}", {}),  # of a browser too old to say whose page asks
        ("GET", f"/graphql/{ASKED}", OWN),
        ("GET", f"/graphql{ASKED}", LINK),
        ("GET", "/graphql", LINK),
        ("GET", "/", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}),
        ("GET", "/", {**LINK, "sec-fetch-dest": "iframe"}),
        ("GET", "/", {**LINK, "origin": "null"}),
        ("GET", "/", {"sec-fetch-site": "same-site"}),
        ("GET", "/", {"sec-fetch-site": "something new"}),
        ("POST", "/", {**LINK, **JSON}),
        ("OPTIONS", "/graphql", EVIL),
        ("POST", "/graphql", {**JSON, **EVIL}),
        ("POST", "/graphql", {**JSON, "origin": "null"}),
        ("POST", "/graphql", {**JSON, "origin": "http://127.0.0.1:3001"}),
        ("POST", "/graphql", {**JSON, "origin": "http://localhost:3000"}),
        ("POST", f"/graphql{ASKED}", JSON),
        ("POST", f"/graphql{ASKED}&op=RunsQuery", {**JSON, **OWN}),
        ("GET", f"/graphql?op=RunsQuery&{ASKED[1:]}", OWN),
        ("WS", "/graphql", {}),
        ("WS", "/graphql", EVIL),
        ("WS", "/graphql", {"origin": "null"}),
        ("WS", "/graphql", {"origin": "http://127.0.0.1:3001"}),
    ],
)
def test_what_another_site_s_page_asks_is_refused(
    method: str, address: str, headers: dict[str, str]
) -> None:
    assert Server().status(method, address, headers=headers) == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", None])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_body_that_a_form_can_send_is_refused(method: str, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    assert Server().status(method, "/graphql", headers=headers) == 415


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *((name, True) for name in ("127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:3000")),
        *((name, True) for name in ("127.0.0.9:80", "[::1]")),
        *((name, False) for name in ("evil.example", "evil.example:3000", "10.0.0.7", "0.0.0.0")),  # noqa: S104
        *((name, False) for name in ("localhost.evil.example", "127.0.0.1.evil.example", "")),
        *((name, False) for name in ("127.0.0.1, evil.example", "evil@127.0.0.1", "[::1", None)),
    ],
)
def test_only_a_name_of_this_machine_is_answered(host: str | None, is_here: bool) -> None:
    for method in ("GET", "POST"):
        assert Server().status(method, host=host, headers=JSON) == (200 if is_here else 403)
    # As a page asks whose name leads here: it is of its own origin.
    headers = {"origin": f"http://{(host or '').lower()}", "sec-fetch-site": "same-origin"}
    assert Server().status("WS", host=host, headers=headers) == (101 if is_here else 403)


def test_a_host_that_is_named_twice_is_refused() -> None:
    assert Server().status(headers={"host": HERE}) == 403


def test_with_a_token_every_request_must_carry_it() -> None:
    server = Server(TOKEN)
    for method in ("GET", "POST", "WS"):
        assert server.status(method, headers={**JSON, **OWN}) == 403
    (start, _) = server.ask(address=f"/runs?a=1&token={quote(TOKEN)}", host="ward-7.clinic")
    assert (start["status"], headers_of(start)["location"]) == (303, "/runs?a=1")
    cookie, *flags = headers_of(start)["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(flags)
    named = {"cookie": f"other={{}}; {cookie}"}
    for headers in (named, {"authorization": f"Bearer {TOKEN}"}):
        own = {**JSON, "origin": "http://ward-7.clinic", **headers}
        for method, status in {"GET": 200, "POST": 200, "WS": 101}.items():
            assert server.status(method, host="ward-7.clinic", headers=own) == status
        assert server.status("POST", host="ward-7.clinic", headers={**own, **EVIL}) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": f"pages={TOKEN}"},
        {"cookie": "pages="},
        {"cookie": "pages=é"},
        {"authorization": "Bearer another token"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
    ],
)
def test_another_secret_is_no_token(headers: dict[str, str]) -> None:
    assert Server(TOKEN).status(headers=headers) == 403
    assert Server(TOKEN).status(address="/?token=another") == 403
    assert Server(TOKEN).status("POST", f"/?token={quote(TOKEN)}", headers=JSON) == 403
    assert Server(TOKEN).status("WS", f"/?token={quote(TOKEN)}", headers=OWN) == 403


def test_no_answer_and_no_text_of_ours_holds_the_token() -> None:
    server = Server(TOKEN)
    for address in (f"//evil.example/?token={quote(TOKEN)}", "/?token=another", "/"):
        answers = server.ask(address=address)
        assert TOKEN not in str(answers)
        assert headers_of(answers[0]).get("location", "/evil.example/") == "/evil.example/"
    assert TOKEN not in repr(GuardedApp(Server().app, "pages", TOKEN))


def test_no_answer_may_be_framed_by_another_page() -> None:
    for headers in ({}, EVIL, LINK):
        start, *_ = Server().ask(headers=headers)
        assert headers_of(start)["content-security-policy"] == "frame-ancestors 'none'"
        assert headers_of(start)["x-frame-options"] == "DENY"


def test_a_refusal_says_what_was_expected() -> None:
    (_, body) = Server().ask(headers=EVIL)
    (problem,) = json.loads(body["body"])["problems"]
    assert "http://evil.example" in problem
    assert "expected" in problem


@pytest.mark.parametrize(
    ("host", "token"),
    [("0.0.0.0", None), ("192.168.1.4", None), ("127.0.0.1", "short")],  # noqa: S104
)
def test_other_machines_need_a_token_that_cannot_be_guessed(host: str, token: str | None) -> None:
    with pytest.raises(InputError, match=r"SECRET.* expected|expected.* SECRET"):
        require_access(host, token, variable="SECRET")
    require_access("127.0.0.1", None, variable="SECRET")
    require_access(host, TOKEN, variable="SECRET")


def test_a_port_that_is_taken_is_said() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}: .*--port"):
            listen("127.0.0.1", port)
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    assert (address_of("::1", 3), address_of("localhost", 3)) == (
        "http://[::1]:3",
        "http://localhost:3",
    )
