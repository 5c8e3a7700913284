"""A number of a file, and what it should be."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_CLOSE, _RATING = 1e-9, 1400.0
"""Tolerance between two ways of computing a number, relative to it and at least to 1, or to a
rating where ratings were added or subtracted: 1400 is rounded a hundred times as far as 10."""
_PRINTED = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")
UNKNOWN: Final = object()
"""Expected where nothing is computed again."""


class OfRatings(float):
    """A rating, or what ratings were added up or subtracted to."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A number that differs from what the verdicts give, or a file that changed."""

    file: str
    place: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Checked:
    """One file: how much of it was checked, what is wrong, and how many numbers nobody checked."""

    file: str
    n: int
    wrong: tuple[Wrong, ...]
    n_left: int = 0


Number = tuple[str, Any, Any]
"""Where a number is, what the file says, and what is expected; None for an empty cell.

A text as the file prints it is compared with all numbers that are expected in it.
"""
Places = Mapping[tuple[Any, ...], Any]
"""What a file holds, or should hold, by key, row and column."""


def leaves(value: Any, *at: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value in nested ones with the keys to it."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, *at, key)
    else:
        yield at, value


def side_by_side(found: Places, expected: Places) -> Iterator[Number]:
    """Yield everything that a file holds beside what it should hold."""
    for place in {**found, **expected}:
        at = ", ".join(map(str, place))
        yield at, found.get(place), expected.get(place, UNKNOWN)


def agree(found: Any, expected: Any) -> bool:
    """Whether a file says what is expected of it.

    A text with a number must be the shortest that is read as this number.
    """
    if isinstance(expected, tuple):
        return _prints(str(found), [each for each in expected if each is not None])
    if found is None or not isinstance(expected, int | float) or isinstance(expected, bool):
        return bool(found == expected)
    if isinstance(found, str) and found not in (f"{float(found)}", f"{float(found):.0f}"):
        return False
    scale = _RATING if isinstance(expected, OfRatings) else 1.0
    return bool(abs(float(found) - expected) <= _CLOSE * max(scale, abs(expected)))


def _prints(text: str, expected: Sequence[float]) -> bool:
    """Whether a text's numbers are those expected, rounded to the digits that it prints."""
    found = [each.replace(",", "") for each in _PRINTED.findall(text)]
    if len(found) != len(expected):
        return False
    steps = (10.0 ** -len(each.partition(".")[2]) for each in found)
    return all(
        abs(float(one) - other) <= step / 2 + 1e-6
        for one, other, step in zip(found, expected, steps, strict=True)
    )
