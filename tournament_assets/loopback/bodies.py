"""Reading the body of a submission piece by piece, so that it is never in memory as a whole."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tournament_assets.loopback.json_stream import JsonStream, TooLongError
from tournament_assets.loopback.refusals import Refusal, invalid
from tournament_assets.loopback.request_rows import SharedParams

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
