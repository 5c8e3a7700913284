"""What is known of many requests as columns, and some of them, without building any.

A request is built when it is sent. Whatever counts, prices, cuts or looks up requests reads columns
that were filled once.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.judging.batch_service import MessageParams

KEY_BYTES = 32
DIGEST_WORDS = ">u8"
"""The words of a key as it is written; columns hold them as the machine does."""
ENVELOPE_BYTES = 100
"""The bytes that a request needs besides its parameters, for cutting batches."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2
AnyRequest = TypeVar("AnyRequest", bound="ModelRequest")
AnyRequest_co = TypeVar("AnyRequest_co", bound="ModelRequest", covariant=True)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model, with all that sending, waiting and harvesting need of it.

    Attributes:
        request_key: Names the reply in the ledger: SHA-256 of whatever the reply depends on.
        params: The request's parameters, as JSON values named as in the Messages API; other
            providers translate them in their own folder.
    """

    request_key: str
    params: MessageParams


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """What is known of n requests, a row each.

    Attributes:
        digests: The keys as words of eight bytes; uint64, (n, 4).
        sizes: Bytes of each request as it is sent, its envelope included; (n,).
        message_sizes: Bytes of the messages in it; (n,).
        prefix_sizes: Bytes of its prefix for the cache; (n,).
        characters: Characters of what differs from request to request; (n,).
        prefix_characters: Characters of its prefix; (n,).
        caps: The most tokens of its reply; (n,).
    """

    digests: NDArray[np.uint64]
    sizes: NDArray[np.int32]
    message_sizes: NDArray[np.int32]
    prefix_sizes: NDArray[np.int32]
    characters: NDArray[np.int32]
    prefix_characters: NDArray[np.int32]
    caps: NDArray[np.int32]

    def key(self, position: int) -> str:
        """Return the key of the request at a place."""
        key: str = self.digests[position].astype(DIGEST_WORDS).tobytes().hex()
        return key

    def keys(self) -> Iterator[str]:
        """Yield the keys, in the requests' order."""
        return _hexadecimal(self.digests)

    def take(self, positions: Sequence[int] | NDArray[np.int64]) -> "RequestColumns":
        """Return the rows at some places, in their order."""
        places = np.asarray(positions, dtype=np.int64)
        return RequestColumns(*(getattr(self, name)[places] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class CountedRequests:
    """Some distinct requests of a dimension, and the presentations that they stand for.

    Attributes:
        columns: What is known of each; keys are not read.
        answered: Whether each has a reply, (n_requests,).
        under_way: Whether each was sent and has none, (n_requests,).
        presentations: Two for every pair, whether it is asked about or not.
        identical: Presentations of the pairs that are settled without asking.
    """

    columns: RequestColumns
    answered: NDArray[np.bool_]
    under_way: NDArray[np.bool_]
    presentations: int
    identical: int


def _hexadecimal(digests: NDArray[np.uint64]) -> Iterator[str]:
    joined: str = digests.astype(DIGEST_WORDS).tobytes().hex()
    length = 2 * KEY_BYTES
    return (joined[start : start + length] for start in range(0, len(joined), length))


def empty_columns(n_requests: int) -> RequestColumns:
    """Return columns of zeros, to be filled."""
    numbers = (np.zeros(n_requests, dtype=np.int32) for _ in range(6))
    return RequestColumns(np.zeros((n_requests, 4), dtype=np.uint64), *numbers)


class Columned(Sequence[AnyRequest_co]):
    """Requests of which columns are known."""

    @property
    @abstractmethod
    def columns(self) -> RequestColumns:
        """What is known of each request, in their order."""


def columns_of(requests: Sequence["ModelRequest"]) -> RequestColumns:
    """Return what is known of some requests; each of a plain list is looked at."""
    if isinstance(requests, Columned):
        return requests.columns
    columns = empty_columns(len(requests))
    columns.digests[:] = digests_of(requests)
    for place, request in enumerate(requests):
        params = request.params
        columns.sizes[place] = len(canonical_json(params).encode()) + ENVELOPE_BYTES
        columns.message_sizes[place] = len(canonical_json(params["messages"]).encode())
        columns.caps[place] = params["max_tokens"]
        system = params.get("system", "")
        message = str(params["messages"][0]["content"]) if params["messages"] else ""
        columns.characters[place] = len(message)
        if isinstance(system, str):
            # A model's own responses have no prefix for the cache.
            columns.characters[place] += len(system)
        else:
            columns.prefix_sizes[place] = len(canonical_json(system).encode())
            columns.prefix_characters[place] = len(system[0]["text"])
    return columns


def with_larger_cap(request: AnyRequest) -> AnyRequest:
    """Return the same request with twice the reply cap; it keeps its key."""
    return _with_cap(request, 2 * request.params["max_tokens"])


def with_smaller_cap(request: AnyRequest, n_tokens: int) -> AnyRequest:
    """Return the same request with a cap of some tokens, besides those that it gives to thinking.

    It keeps its key: a reply that is not cut off is the same under any cap.
    """
    n_tokens += _thinking_tokens(request)
    return _with_cap(request, min(n_tokens, request.params["max_tokens"]))


def _thinking_tokens(request: ModelRequest) -> int:
    params: Mapping[str, Any] = request.params
    return int(params.get("thinking", {}).get("budget_tokens", 0))


def _with_cap(request: AnyRequest, max_tokens: int) -> AnyRequest:
    params: MessageParams = {**request.params, "max_tokens": max_tokens}
    return replace(request, params=params)


def digests_of(requests: Sequence[ModelRequest]) -> NDArray[np.uint64]:
    """Return the requests' keys as words of eight bytes, (n, 4)."""
    if isinstance(requests, Columned):
        return requests.columns.digests
    joined = b"".join(bytes.fromhex(request.request_key) for request in requests)
    return np.frombuffer(joined, dtype=DIGEST_WORDS).reshape(-1, 4).astype(np.uint64)


def keys_of(requests: Sequence[ModelRequest]) -> Iterator[str]:
    """Return the requests' keys, in their order; none is built for it where columns are known."""
    if isinstance(requests, Columned):
        return requests.columns.keys()
    return (request.request_key for request in requests)


class KeyPositions(Mapping[str, int]):
    """The first position of each distinct request, by its key, in the requests' order.

    Kept as sorted digests in an array: a dictionary of texts would take six times the memory.
    """

    def __init__(self, requests: Sequence[ModelRequest]) -> None:
        digests = digests_of(requests)
        # Stable, so that of equal digests the first one of the requests comes first.
        order = np.lexsort(digests.T[::-1])
        digests = digests[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = (digests[1:] != digests[:-1]).any(axis=1)
        self._positions = order[is_first].astype(np.int64)
        self._digests = digests[is_first]
        self._leading = np.ascontiguousarray(self._digests[:, 0])

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def first(self) -> NDArray[np.int64]:
        """The positions, in the requests' order."""
        return np.sort(self._positions)

    def __iter__(self) -> Iterator[str]:
        return _hexadecimal(self._digests[np.argsort(self._positions)])

    def __getitem__(self, key: str) -> int:
        digest = np.frombuffer(bytes.fromhex(key), dtype=DIGEST_WORDS).astype(np.uint64)
        place = int(np.searchsorted(self._leading, digest[0]))
        while place < len(self) and self._leading[place] == digest[0]:
            if (self._digests[place] == digest).all():
                return int(self._positions[place])
            place += 1
        raise KeyError(key)


class Selection(Columned[ModelRequest]):
    """Some of the requests, each built when it is looked at.

    Args:
        requests: All of them.
        positions: Positions of the chosen requests; all by default.
        cut_off: Positions of the chosen requests that get a larger reply cap.
        most_tokens: A cap that the others get if it is smaller; None leaves theirs.
    """

    def __init__(
        self,
        requests: Sequence[ModelRequest],
        positions: Sequence[int] | NDArray[np.int64] | None = None,
        cut_off: AbstractSet[int] = frozenset(),
        most_tokens: int | None = None,
    ) -> None:
        self._requests = requests
        chosen = range(len(requests)) if positions is None else positions
        self._positions = np.asarray(chosen, dtype=np.int64)
        self._cut_off = cut_off
        self._most_tokens = most_tokens

    def _choose(self, positions: NDArray[np.int64]) -> "Selection":
        return Selection(self._requests, positions, self._cut_off, self._most_tokens)

    @property
    def columns(self) -> RequestColumns:
        """What is known of each chosen request; where a cap differs, a digit more is counted."""
        columns = columns_of(self._requests).take(self._positions)
        caps = columns.caps
        if self._most_tokens is not None and len(self):
            thinking = _thinking_tokens(self._requests[0])
            caps = np.minimum(caps, self._most_tokens + thinking)
        if self._cut_off:
            is_cut_off = np.isin(self._positions, [*self._cut_off])
            caps = np.where(is_cut_off, 2 * columns.caps, caps)
        return replace(columns, caps=caps, sizes=columns.sizes + (caps != columns.caps))

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> ModelRequest: ...

    @overload
    def __getitem__(self, index: slice) -> "Selection": ...

    def __getitem__(self, index: int | slice) -> "ModelRequest | Selection":
        if isinstance(index, slice):
            return self._choose(self._positions[index])
        position = int(self._positions[index])
        request = self._requests[position]
        if position in self._cut_off:
            return with_larger_cap(request)
        return (
            request if self._most_tokens is None else with_smaller_cap(request, self._most_tokens)
        )

    def capped(self, n_tokens: int) -> "Selection":
        """Return the same requests with a cap of some tokens, where theirs is larger."""
        return Selection(self._requests, self._positions, self._cut_off, n_tokens)

    def spread(self, most: int) -> "Selection":
        """Return some of them, evenly spread; even the first few are far apart."""
        size = min(most, len(self))
        order = sorted(range(size), key=lambda number: number * _GOLDEN_RATIO % 1)
        return self._choose(self._positions[[number * len(self) // size for number in order]])

    def without(self, answered: AbstractSet[str]) -> "Selection":
        """Return those whose key is not among the answered ones."""
        is_left = np.array([key not in answered for key in keys_of(self)], dtype=bool)
        return self._choose(self._positions[is_left])
