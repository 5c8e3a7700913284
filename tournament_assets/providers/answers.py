"""The one door for the bytes of a service's answers: how many are read, and for how long.

A service may be broken, or somebody else's. What it sends is counted unpacked while it arrives, so
that no answer fills the memory, and timed, so that none lasts for ever.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import httpcore2
import httpx2

LARGEST_ANSWER = 16_000_000
"""Bytes of an answer, unpacked, other than a batch's results."""
_LARGEST_REFUSAL = 1_000_000
_SLOWEST = 10_000  # bytes a second on average, after the time that the first one may take
_USUAL_SECONDS = 600.0
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


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
    client = new(
        # A proxy from the environment would look for 127.0.0.1 on its own machine.
        trust_env=base_url is None or urlsplit(base_url).hostname not in _LOOPBACK_HOSTS,
        # A redirect would send the texts, and usually the key, to whatever address it names.
        follow_redirects=False,
        auth=credentials,
        event_hooks={"request": [*on_request], "response": [_bound, on_answer]},
    )
    transports: list[Any] = [client._transport, *client._mounts.values()]
    for transport in filter(None, transports):
        transport._pool._network_backend = _Connections()
    return client


class _Connections(httpcore2.SyncBackend):
    def connect_tcp(self, *args: Any, **settings: Any) -> "_Connection":
        return _Connection(super().connect_tcp(*args, **settings))


class _Connection(httpcore2.NetworkStream):
    """A connection whose answers end: in time as a whole, and soon if nothing is in them.

    The time begins with the request, and once more with the answer's body. What is done with one
    part before the next is read takes none of it.

    Attributes:
        n_used: Bytes that were unpacked from the body so far.
    """

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream
        self.begin(is_body=False)

    def begin(self, *, is_body: bool) -> None:
        """Begin to wait for an answer, or for its body."""
        self._waited, self._n_bytes, self._is_body, self.n_used = 0.0, 0, is_body, 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        began = time.monotonic()
        part = self._stream.read(max_bytes, timeout)
        self._waited += time.monotonic() - began
        self._n_bytes += len(part)
        allowed = self._n_bytes / _SLOWEST if self._is_body else 0.0
        if self._waited > (timeout or _USUAL_SECONDS) + allowed:
            raise httpcore2.ReadTimeout(
                f"it is not complete after {self._waited:.0f} seconds and {self._n_bytes:,} bytes"
            )
        if self._n_bytes > self.n_used + LARGEST_ANSWER:
            raise httpcore2.ReadError(f"its {self._n_bytes:,} bytes hold {self.n_used:,}")
        return part

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.begin(is_body=False)
        self._stream.write(buffer, timeout)

    def start_tls(self, *args: Any, **settings: Any) -> "_Connection":
        return _Connection(self._stream.start_tls(*args, **settings))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _bound(response: httpx2.Response) -> None:
    """Bound the body of an answer, which is still to be read.

    Reading raises a `ReadError` if there is more of it than `LARGEST_ANSWER`, unless
    `allow_results` lifts that, and a `ReadTimeout` if it takes longer than its first byte might
    plus a second for every 10 kB.
    """
    response.stream = _Unpacked(response)
    # It is unpacked by whoever reads the stream now.
    response.headers.pop("content-encoding", None)


def allow_results(response: httpx2.Response) -> httpx2.Response:
    """Let a bounded answer be of any size: whoever reads it counts its lines."""
    cast("_Unpacked", response.stream).most = None
    return response


class _Unpacked(httpx2.SyncByteStream):
    """A body, unpacked and counted.

    Attributes:
        most: Bytes that it may hold, unpacked; None for any number.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.most: int | None = _LARGEST_REFUSAL if response.is_error else LARGEST_ANSWER
        self._connection: _Connection = response.extensions["network_stream"]
        self._connection.begin(is_body=True)
        self._packed = httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=cast("httpx2.SyncByteStream", response.stream),
            request=response.request,
        )

    def __iter__(self) -> Iterator[bytes]:
        n_bytes = 0
        for part in self._packed.iter_bytes():
            n_bytes += len(part)
            if self.most is not None and n_bytes > self.most:
                raise httpx2.ReadError(f"it is larger than {self.most:,} bytes, unpacked")
            self._connection.n_used = n_bytes
            yield part

    def close(self) -> None:
        self._packed.close()
