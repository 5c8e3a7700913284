"""Some of a tournament's requests, without holding them all in memory."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import overload

from tournament_assets.judging.requests import ModelRequest, with_larger_cap


class Selection(Sequence[ModelRequest]):
    """Some of the requests, each built when it is looked at.

    Args:
        requests: All of them.
        positions: Where the chosen ones stand.
        cut_off: Where those stand whose reply is to have more room.
    """

    def __init__(
        self,
        requests: Sequence[ModelRequest],
        positions: Sequence[int],
        cut_off: AbstractSet[int] = frozenset(),
    ) -> None:
        self._requests = requests
        self._positions = positions
        self._cut_off = cut_off

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> ModelRequest: ...

    @overload
    def __getitem__(self, index: slice) -> "Selection": ...

    def __getitem__(self, index: int | slice) -> "ModelRequest | Selection":
        if isinstance(index, slice):
            return Selection(self._requests, self._positions[index], self._cut_off)
        position = self._positions[index]
        request = self._requests[position]
        return with_larger_cap(request) if position in self._cut_off else request

    def without(self, answered: AbstractSet[str]) -> "Selection":
        """Return those whose key is not among the answered ones."""
        left = [
            position
            for position, request in zip(self._positions, self, strict=True)
            if request.request_key not in answered
        ]
        return Selection(self._requests, left, self._cut_off)
