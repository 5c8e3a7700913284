"""Bodies of submissions, read piece by piece, and how those are refused that are not accepted.

A body is never in memory as a whole: its values are read one at a time, each as the standard
library reads it. ijson does not do this: its memory grows with the square of the depth (a body of
100,000 brackets takes gigabytes), half a character silently becomes a question mark,
numbers of more than 64 bits are refused, and a key named `requests.item` is taken for an item.
"""

import codecs
import json
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tournament_assets.loopback.batches import SharedParams

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


class Refusal(Exception):  # noqa: N818 - it is an answer, not a failure of the server
    """An answer other than 200.

    Attributes:
        status: The HTTP status.
        kind: The kind of error, such as `invalid_request_error`.
        message: What is wrong.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


def invalid(message: str) -> Refusal:
    """Return the refusal of a request that says something wrong."""
    return Refusal(400, "invalid_request_error", message)


def check_key(request: Request) -> None:
    """Refuse a request that carries no key; any key will do."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.casefold() == "bearer" else ""
    if not bearer and not request.headers.get("x-api-key", "").strip():
        raise Refusal(401, "authentication_error", "x-api-key header is required")


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body, or refuse the request."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise invalid("The request body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise invalid("The request body is not a JSON object.")
    return body


def read_limit(request: Request) -> int:
    """Return how many rows a page may hold."""
    given = request.query_params.get("limit", "20")
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 1000:
        raise invalid("limit: expected a number from 1 to 1000")
    return int(given)


def answer_refusal(_request: Request, refusal: Exception) -> Response:
    """Put a refusal in the API's shape."""
    if not isinstance(refusal, Refusal):
        raise refusal
    request_id = new_request_id()
    return JSONResponse(
        {
            "type": "error",
            "error": {"type": refusal.kind, "message": refusal.message},
            "request_id": request_id,
        },
        status_code=refusal.status,
        headers={"request-id": request_id},
    )


def answer_http_exception(request: Request, error: Exception) -> Response:
    """Put what the router refuses, such as an unknown path, in the API's shape."""
    if not isinstance(error, HTTPException):
        raise error
    kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
    return answer_refusal(request, Refusal(error.status_code, kind, error.detail))


def new_request_id() -> str:
    """Return an id for one answer."""
    return f"req_{uuid.uuid4().hex[:24]}"


MAX_BATCH_REQUESTS = 100_000
MAX_BATCH_BYTES = 256 * 1024 * 1024
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


async def read_requests(
    chunks: AsyncIterator[bytes], *, max_bytes: int = MAX_BATCH_BYTES
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return a batch's requests by name, or refuse them all.

    As in the real service, what is inside the parameters is looked at only when the request is
    processed. What many requests have in common is in memory only once.

    Args:
        chunks: The body; it is read to its end, also when it is refused.
        max_bytes: The longest body.

    Raises:
        Refusal: If the batch cannot be accepted.
    """
    stream = JsonStream(chunks, max_bytes=max_bytes)
    requests = _Requests()
    try:
        await _read_object(stream, requests)
    except TooLongError:
        await stream.skip()
        raise Refusal(413, "request_too_large", "Request exceeds the maximum size") from None
    except (ValueError, RecursionError):
        await stream.skip()
        raise invalid("The request body is not valid JSON.") from None
    return requests.check()


class _Requests:
    """Collects the requests of a batch, and the first problem among them."""

    def __init__(self) -> None:
        self._named: list[tuple[str, Mapping[str, Any]]] = []
        self._shared = SharedParams()
        self._problem: str | None = "requests: expected at least one request"

    def refuse(self, problem: str) -> None:
        """Refuse the batch."""
        self._named.clear()
        self._problem = problem

    def add(self, index: int, request: Any) -> None:
        """Take a request, unless there is a problem with it or with one before it."""
        if index == 0:
            self._named.clear()
            self._problem = None
        if self._problem is not None:
            return
        name = request.get("custom_id") if isinstance(request, Mapping) else None
        params = request.get("params") if isinstance(request, Mapping) else None
        if index >= MAX_BATCH_REQUESTS:
            self.refuse(f"requests: expected at most {MAX_BATCH_REQUESTS} requests")
        elif not isinstance(name, str) or _CUSTOM_ID.fullmatch(name) is None:
            self.refuse(
                f"requests.{index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )
        elif not isinstance(params, Mapping):
            self.refuse(f"requests.{index}.params: Field required")
        else:
            self._named.append((name, self._shared.share(params)))

    def check(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the requests, or refuse them all."""
        if self._problem is not None:
            raise invalid(self._problem)
        name, times = Counter(name for name, _ in self._named).most_common(1)[0]
        if times > 1:
            raise invalid(f"requests: custom_id {name!r} is used {times} times; expected it once")
        return self._named


async def _read_object(stream: JsonStream, requests: _Requests) -> None:
    if await stream.peek() != "{":
        await stream.read_value()
        await stream.expect_end()
        requests.refuse("The request body is not a JSON object.")
        return
    mark = await stream.take("{")
    if await stream.peek() == "}":
        mark = await stream.take("}")
    while mark != "}":
        name = await stream.read_value()
        if not isinstance(name, str):
            raise ValueError(f"found {name!r}; expected the name of a value")
        await stream.take(":")
        if name == "requests" and await stream.peek() == "[":
            await _read_list(stream, requests)
        else:
            await stream.read_value()
        mark = await stream.take(",}")
    await stream.expect_end()


async def _read_list(stream: JsonStream, requests: _Requests) -> None:
    mark = await stream.take("[")
    if await stream.peek() == "]":
        mark = await stream.take("]")
    index = 0
    while mark != "]":
        requests.add(index, await stream.read_value())
        index += 1
        mark = await stream.take(",]")
