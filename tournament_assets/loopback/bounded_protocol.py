"""HTTP for servers that anybody may connect to: no request goes on for ever, in bytes or in time.

uvicorn bounds neither: a head without end, or half of one, would be held before any application can
ask who sends it. Pass the class as uvicorn's `http`.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_HEAD_BYTES = 64 * 1024
MOST_CONNECTIONS = 500
"""At once; a system gives a process a thousand or more."""
SECONDS = {h11.IDLE: 10.0, h11.SEND_BODY: 60.0}
"""How long a head may take, from the connection or the last answer on, and a body."""


class BoundedProtocol(H11Protocol):
    """One connection, ended where it waits too long for its client or is one too many."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = h11.Connection(h11.SERVER, MOST_HEAD_BYTES)
        self._waits_for: object = None
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin to wait for a head, or end the connection at once."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop_clock()

    def handle_events(self) -> None:
        """Answer what has arrived; what is still missing has its time."""
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is self._waits_for:
            return
        self._stop_clock()
        self._waits_for = state
        if state in SECONDS:
            self._clock = self.loop.call_later(SECONDS[state], self.transport.close)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
