"""A judge that has changed: the loopback judge, but some of its verdicts are turned round.

The loopback judge is a pure function of the request, so a drift has to be played.
"""

import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tournament_assets.loopback.running import LoopbackServer

_TURNED = {"VERDICT: A": "VERDICT: B", "VERDICT: B": "VERDICT: A"}


class ChangedJudge(LoopbackServer):
    """Serves the loopback judge with A for B and B for A wherever its reasoning holds a phrase.

    Args:
        phrase: What the reasoning of a turned reply holds; both replies to a pair hold the same.
    """

    def __init__(self, phrase: str) -> None:
        super().__init__(processing_seconds=0)
        self._app = _TurnedReplies(self._app, phrase)


class _TurnedReplies:
    def __init__(self, app: ASGIApp, phrase: str) -> None:
        self._app = app
        self._phrase = phrase

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get("path", "").endswith("/results"):
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def collect(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                lines = b"".join(self._turn(line) for line in bytes(body).splitlines(keepends=True))
                await send({**message, "body": lines, "more_body": False})

        await self._app(scope, receive, collect)

    def _turn(self, line: bytes) -> bytes:
        row: dict[str, Any] = json.loads(line)
        for block in row["result"].get("message", {}).get("content", []):
            reasoning, _, verdict = block["text"].rpartition("\n")
            if self._phrase in reasoning:
                block["text"] = f"{reasoning}\n{_TURNED.get(verdict, verdict)}"
        return json.dumps(row).encode() + b"\n"
