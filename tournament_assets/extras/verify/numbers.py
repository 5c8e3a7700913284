"""A number of a file, and what it should be."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_CLOSE = 1e-6
"""Tolerance between two ways of computing a number, relative to it or to 1."""
_PRINTED = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A number that differs from what the verdicts give, or a file that changed."""

    file: str
    place: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Checked:
    """One file: how much of it was checked, and what is wrong."""

    file: str
    n: int
    wrong: tuple[Wrong, ...]


Number = tuple[str, Any, Any]
"""Where a number is, what the file says, and what is expected; None for an empty cell.

A text as the file prints it is compared with all numbers that are expected in it.
"""


def agree(found: Any, expected: Any) -> bool:
    """Whether a file says what is expected of it."""
    if isinstance(expected, tuple):
        return _prints(str(found), [each for each in expected if each is not None])
    if found is None or expected is None or isinstance(expected, str | bool):
        return bool(found == expected)
    return bool(abs(float(found) - expected) <= _CLOSE * max(1.0, abs(expected)))


def _prints(text: str, expected: Sequence[float]) -> bool:
    """Whether a text's numbers are those expected, rounded to the digits that it prints."""
    found = [each.replace(",", "") for each in _PRINTED.findall(text)]
    if len(found) != len(expected):
        return False
    steps = (10.0 ** -len(each.partition(".")[2]) for each in found)
    return all(
        abs(float(one) - other) <= step / 2 + _CLOSE
        for one, other, step in zip(found, expected, steps, strict=True)
    )
