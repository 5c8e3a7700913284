"""The one door for the bytes of a service's answers: how many are read, and for how long.

A service may be broken, or somebody else's. What it sends is counted unpacked while it arrives, so
that no answer fills the memory, and timed, so that none lasts for ever.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast
from urllib.parse import urlsplit

import httpx2

LARGEST_ANSWER = 16_000_000
"""Bytes of an answer, unpacked, other than a batch's results."""
_LARGEST_REFUSAL = 1_000_000
_SLOWEST = 10_000  # bytes a second on average, after the time that the first one may take
_USUAL_SECONDS = 600.0
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class UnboundedAnswerError(httpx2.HTTPError):
    """An answer that is larger, or takes longer, than any should."""


def open_http(
    new: Callable[..., httpx2.Client],
    base_url: str | None,
    *,
    on_answer: Callable[[httpx2.Response], None],
    on_request: Sequence[Callable[[httpx2.Request], None]] = (),
    credentials: tuple[str, str] | None = None,
) -> httpx2.Client:
    """Return an HTTP client to a service, which bounds every answer and follows no redirect.

    Args:
        new: An SDK's own class of clients.
        base_url: The service's address; None if the SDK knows it.
        on_answer: Called with each answer before its body is read.
        on_request: Called with each request before it is sent.
        credentials: A user name and a password.
    """
    return new(
        # A proxy from the environment would look for 127.0.0.1 on its own machine.
        trust_env=base_url is None or urlsplit(base_url).hostname not in _LOOPBACK_HOSTS,
        # A redirect would send the texts, and usually the key, to whatever address it names.
        follow_redirects=False,
        auth=credentials,
        event_hooks={"request": [*on_request], "response": [_bound, on_answer]},
    )


def _bound(response: httpx2.Response) -> None:
    """Bound the body of an answer, which is still to be read.

    Reading raises an `UnboundedAnswerError` if there is more of it than `LARGEST_ANSWER`, unless
    `allow_results` lifts that, or if it takes longer than its first byte might plus a second for
    every 10 kB.
    """
    seconds = response.request.extensions.get("timeout", {}).get("read") or _USUAL_SECONDS
    most = _LARGEST_REFUSAL if response.is_error else LARGEST_ANSWER
    response.stream = _Unpacked(response, most=most, seconds=seconds)
    # It is unpacked by whoever reads the stream now.
    response.headers.pop("content-encoding", None)


def allow_results(response: httpx2.Response) -> httpx2.Response:
    """Let a bounded answer be of any size: whoever reads it counts its lines."""
    if not isinstance(response.stream, _Unpacked):
        raise TypeError(f"expected a bounded answer, got one of {type(response.stream).__name__}")
    response.stream.most = None
    return response


class _Unpacked(httpx2.SyncByteStream):
    """A body, unpacked and counted.

    Attributes:
        most: Bytes that it may hold, unpacked; None for any number.
    """

    def __init__(self, response: httpx2.Response, *, most: int | None, seconds: float) -> None:
        self.most = most
        self._arriving = _Arriving(cast("httpx2.SyncByteStream", response.stream), seconds)
        self._packed = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=self._arriving,
            request=response.request,
        )

    def __iter__(self) -> Iterator[bytes]:
        n_bytes = 0
        for part in self._packed.iter_bytes():
            n_bytes += len(part)
            if self.most is not None and n_bytes > self.most:
                raise UnboundedAnswerError(f"it is larger than {self.most:,} bytes, unpacked")
            self._arriving.n_used = n_bytes
            yield part

    def close(self) -> None:
        self._packed.close()


class _Arriving(httpx2.SyncByteStream):
    """A body as it arrives, timed; what its reader does in between takes none of its time.

    Attributes:
        n_used: Bytes that were unpacked from it so far.
    """

    def __init__(self, stream: httpx2.SyncByteStream, seconds: float) -> None:
        self._stream, self._seconds = stream, seconds
        self.n_used = 0

    def __iter__(self) -> Iterator[bytes]:
        n_bytes, waited, began = 0, 0.0, time.monotonic()
        for part in self._stream:
            waited += time.monotonic() - began
            n_bytes += len(part)
            if waited > self._seconds + n_bytes / _SLOWEST:
                raise UnboundedAnswerError(
                    f"it is not complete after {waited:.0f} seconds and {n_bytes:,} bytes"
                )
            if n_bytes > self.n_used + LARGEST_ANSWER:
                raise UnboundedAnswerError(f"its {n_bytes:,} bytes unpack to {self.n_used:,}")
            yield part
            began = time.monotonic()

    def close(self) -> None:
        self._stream.close()
