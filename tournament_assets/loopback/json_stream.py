"""JSON that arrives piece by piece: its values are read one at a time."""

import codecs
import json
import re
from collections.abc import AsyncIterator
from typing import Any

_DECODER = json.JSONDecoder()
_NUMBER_CHARACTERS = re.compile(r"[-+.0-9eE]*")
_SPACE = re.compile(r"[ \t\n\r]*")


class TooLongError(ValueError):
    """There is more than there may be."""


class JsonStream:
    """Reads JSON values and the marks between them from chunks of text in UTF-8.

    Args:
        chunks: The text.
        max_bytes: The most that may be read.
    """

    def __init__(self, chunks: AsyncIterator[bytes], *, max_bytes: int) -> None:
        self._chunks = chunks
        self._bytes_left = max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogatepass")
        self._text = ""
        self._position = 0
        self._has_ended = False

    async def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if not await self._read_more():
                return ""

    async def take(self, marks: str) -> str:
        """Step over one of some marks and return it."""
        found = await self.peek()
        if not found or found not in marks:
            raise ValueError(f"found {found!r}; expected one of {marks!r}")
        self._position += 1
        return found

    async def read_value(self) -> Any:
        """Step over a value and return it."""
        await self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
            except ValueError:
                if not await self._read_more():
                    raise
                continue
            # A number at the edge may go on: of 1e5, what has come may be 1e.
            edge = _NUMBER_CHARACTERS.match(self._text, end)
            if edge and edge.end() == len(self._text) and await self._read_more():
                continue
            self._position = end
            return value

    async def expect_end(self) -> None:
        """Check that nothing follows."""
        if await self.peek():
            raise ValueError("found more; expected the end")

    async def skip(self) -> None:
        """Read to the end, and forget it."""
        async for _ in self._chunks:
            pass

    async def _read_more(self) -> bool:
        """Read at least as much again as is left, so that a long value is not tried too often."""
        left = self._text[self._position :]
        parts, n_new = [left], 0
        while not self._has_ended and n_new <= len(left):
            chunk = await anext(self._chunks, None)
            self._has_ended = chunk is None
            self._bytes_left -= len(chunk or b"")
            if self._bytes_left < 0:
                raise TooLongError
            parts.append(self._decoder.decode(chunk or b"", final=chunk is None))
            n_new += len(parts[-1])
        self._text, self._position = "".join(parts), 0
        return n_new > 0
