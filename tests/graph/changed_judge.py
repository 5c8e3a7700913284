"""Judges that are not sound: the loopback judge, but other verdicts are put into its replies.

The loopback judge is a pure function of the request, so a drift and a bad judge have to be played.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.loopback.faults.servers import FaultyServer
from tournament_assets.loopback.lexical_judge import read_parts

_TURNED = {"VERDICT: A": "VERDICT: B", "VERDICT: B": "VERDICT: A"}


class ChangedJudge(FaultyServer):
    """Serves the loopback judge with A for B and B for A wherever its reasoning holds a phrase.

    Args:
        phrase: What the reasoning of a turned reply holds; both replies to a pair hold the same.
    """

    def __init__(self, phrase: str) -> None:
        super().__init__(processing_seconds=0)

        def turn(user_text: str, text: str) -> str:
            reasoning, _, verdict = text.rpartition("\n")
            is_turned = phrase in reasoning
            return f"{reasoning}\n{_TURNED.get(verdict, verdict)}" if is_turned else text

        self._app = _OtherReplies(self._app, turn)


def always_first(user_text: str) -> str:
    """Prefer the response shown first."""
    return "A"


def coin(user_text: str) -> str:
    """Prefer one of the two by the hash of the request."""
    return "AB"[hashlib.sha256(user_text.encode()).digest()[0] % 2]


def longest(user_text: str) -> str:
    """Prefer the response with more words."""
    parts = read_parts(user_text)
    assert parts is not None
    a, b = len(parts.response_a.split()), len(parts.response_b.split())
    return "A" if a > b else "B" if b > a else "TIE"


class BadJudge(FaultyServer):
    """Serves the loopback judge with every verdict given by a rule of its own.

    Args:
        rule: The verdict on the text of a request.
    """

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__(processing_seconds=0)
        self._app = _OtherReplies(self._app, lambda text, _: f"So be it.\nVERDICT: {rule(text)}")


class _OtherReplies:
    def __init__(self, app: ASGIApp, reply: Callable[[str, str], str]) -> None:
        self._app = app
        self._reply = reply
        self._asked: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith("/batches") and scope.get("method") == "POST":
            await self._app(scope, self._noting(receive), send)
            return
        if not path.endswith("/results"):
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def collect(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                lines = b"".join(self._change(line) for line in bytes(body).splitlines())
                await send({**message, "body": lines, "more_body": False})

        await self._app(scope, receive, collect)

    def _noting(self, receive: Receive) -> Receive:
        body = bytearray()

        async def note() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    for request in json.loads(bytes(body))["requests"]:
                        content = request["params"]["messages"][-1]["content"]
                        is_text = isinstance(content, str)
                        text = content if is_text else content[-1]["text"]
                        self._asked[request["custom_id"]] = text
            return message

        return note

    def _change(self, line: bytes) -> bytes:
        row: dict[str, Any] = json.loads(line)
        for block in row["result"].get("message", {}).get("content", []):
            block["text"] = self._reply(self._asked[row["custom_id"]], block["text"])
        return json.dumps(row).encode() + b"\n"
