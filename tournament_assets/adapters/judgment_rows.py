"""Reading a judgment out of a line of JSON: every value, and everything that is wrong with it."""

import json
import re
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any, get_args

from tournament_assets.judging.pairing import Presentation
from tournament_assets.judging.service import Channel, TokenUsage
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import short

TOKEN_NAMES = tuple(counted.name for counted in fields(TokenUsage))
"""The counts of tokens in a row."""
_LARGEST_COUNT = 2**31 - 1  # the largest whole number every ledger can store
_REQUEST_KEY = re.compile("[0-9a-f]{64}")
_CHANNELS: tuple[Channel, ...] = get_args(Channel)
_PRESENTATIONS = {presentation.value: presentation for presentation in Presentation}
_repr = Repr()
_repr.maxstring = _repr.maxother = 60


@dataclass(slots=True)
class JudgmentRow:
    """A line's object, and what is found wrong with it; a value that is wrong reads as nothing.

    Attributes:
        values: The object.
        where: `file:line`, for messages.
        problems: What was found wrong so far.
    """

    values: dict[str, Any]
    where: str
    problems: list[str] = field(default_factory=list)

    def refuse(self, name: str, expected: str) -> None:
        """Note that a value is wrong."""
        found = f"is {_repr.repr(self.values[name])}" if name in self.values else "is missing"
        self.problems.append(f"{self.where}: {name} {found}; expected {expected}")

    def text(self, name: str) -> str:
        """Return a text that says something."""
        value = self.values.get(name)
        if isinstance(value, str) and value.strip() and _is_unicode(value):
            return value
        self.refuse(name, "a text of whole characters that says something")
        return ""

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None where there is none."""
        value = self.values.get(name)
        if value is None or (isinstance(value, str) and _is_unicode(value)):
            return value
        self.refuse(name, "a text of whole characters, or null")
        return None

    def count(self, name: str, *, least: int = 0) -> int:
        """Return a whole number."""
        value = self.values.get(name)
        if type(value) is int and least <= value <= _LARGEST_COUNT:
            return value
        self.refuse(name, f"a whole number from {least} to {_LARGEST_COUNT}")
        return least

    def request_key(self) -> str:
        """Return the key, which the short form must agree with."""
        key, cache_key = self.values.get("request_key"), self.values.get("cache_key")
        if not isinstance(key, str) or not _REQUEST_KEY.fullmatch(key):
            self.refuse("request_key", "64 hex characters in lower case")
            return ""
        if cache_key is not None and cache_key != short(key):
            self.refuse("cache_key", f"{short(key)!r}, with which the request_key begins")
        return key

    def presentation(self) -> Presentation:
        """Return the presentation, by either of its names."""
        name, swap = self.values.get("presentation"), self.values.get("position_swap")
        if name is None and isinstance(swap, bool):
            return Presentation.BA if swap else Presentation.AB
        if not isinstance(name, str) or name not in _PRESENTATIONS:
            self.refuse("presentation", "'ab' or 'ba'")
            return Presentation.AB
        presentation = _PRESENTATIONS[name]
        if swap is not None and swap is not (presentation is Presentation.BA):
            self.refuse("position_swap", f"what the presentation {name!r} says")
        return presentation

    def channel(self) -> Channel:
        """Return how the request was sent."""
        value = self.values.get("channel")
        for channel in _CHANNELS:
            if value == channel:
                return channel
        self.refuse("channel", " or ".join(map(repr, _CHANNELS)))
        return _CHANNELS[0]

    def usage(self) -> TokenUsage | None:
        """Return the tokens, or None where nobody says."""
        if all(self.values.get(name) is None for name in TOKEN_NAMES):
            return None
        return TokenUsage(**{name: self.count(name) for name in TOKEN_NAMES})

    def time(self, name: str) -> datetime:
        """Return a time with its zone, in UTC."""
        value = self.values.get(name)
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
            if time is not None and time.utcoffset() is not None:
                return time.astimezone(UTC)
        except (ValueError, OverflowError):  # OverflowError: in UTC it is before the year 1
            pass
        self.refuse(name, "a time with its zone, such as '2026-09-30T12:00:00+00:00'")
        return datetime.min.replace(tzinfo=UTC)


def _is_unicode(text: str) -> bool:
    """Say whether a text is free of lone surrogates, which JSON can carry and nothing stores."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def load_object(line: str | bytes, where: str) -> dict[str, Any]:
    """Read a line as one JSON object.

    Raises:
        InputError: If it is none, repeats a key, or holds what JSON has no word for.
    """
    try:
        text = line if isinstance(line, str) else line.decode()
        row = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # also bytes that are not UTF-8, and a number of 5,000 digits
        reason = str(error)
    else:
        if isinstance(row, dict):
            return row
        reason = f"it is {_repr.repr(row)}"
    raise InputError(f"{where}: the line cannot be read ({reason}); expected one JSON object")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON value")
