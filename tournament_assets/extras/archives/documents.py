"""Reading a run's JSON file, looking values up by dotted keys, and editing it in place.

An archive belongs to the harness that wrote it, so an edit replaces only the text of the values
that change and leaves every other byte as it was: other numbers keep their digits, and keys their
order and layout.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from tournament_assets.foundation.input_files import MOST_DOCUMENT_BYTES, read_input
from tournament_assets.recorded.sample_formats import value_at

_TOLERANCE = 1e-4
"""How far a score may exceed the ceiling, because harnesses round."""
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class BrokenRunError(ValueError):
    """An unusable file; the message says what was found and what was expected."""


def read_document(path: Path) -> dict[str, Any]:
    """Return the JSON object in a run's file.

    Raises:
        BrokenRunError: If the file cannot be read, or holds anything else.
    """
    text = read_text(path).removeprefix("\ufeff")
    if not text.strip():
        raise BrokenRunError("the file is empty; expected a JSON object")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        is_cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        state = "is cut off" if is_cut else "is not JSON"
        raise BrokenRunError(
            f"the file {state} in line {error.lineno} ({error.msg}); expected a JSON object"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BrokenRunError(
            f"the file is not JSON ({type(error).__name__}); expected a JSON object"
        ) from None
    if not isinstance(document, dict):
        raise BrokenRunError(f"the file holds {type(document).__name__}; expected a JSON object")
    return document


def read_text(path: Path) -> str:
    """Return a run's file as it is.

    Raises:
        BrokenRunError: If it cannot be read, or is not UTF-8.
    """
    try:
        return read_input(path, most=MOST_DOCUMENT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenRunError(
            f"the file cannot be read ({type(error).__name__}); expected JSON in UTF-8"
        ) from None


def number_of(value: Any) -> float | None:
    """Return a finite JSON number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def is_blank(value: Any) -> bool:
    """Return whether a value is null, white space, or a list or object of only such values."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(each) for each in value.values())
    if isinstance(value, list):
        return all(is_blank(each) for each in value)
    return False


def score_at(document: Mapping[str, Any], key: str) -> float | None:
    """Return the score under a key; None if there is none.

    Raises:
        BrokenRunError: If the value is not a number from 0 to 1.
    """
    value = value_at(document, key)
    score = number_of(value)
    if value is not None and (score is None or not 0 <= score <= 1 + _TOLERANCE):
        raise BrokenRunError(f"{key} is {value!r:.80}; expected a number from 0 to 1")
    return score


def text_of(value: Any) -> str:
    """Return a value as text, empty if the value is blank or false."""
    if is_blank(value) or value is False:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of a value.

    Attributes:
        key: The key of the old value, which must exist; dots lead into objects.
        kept_as: The name under which the old value is kept beside the new one, with a number behind
            it if another old value is kept under that name.
    """

    key: str
    value: Any
    kept_as: str


def edit_document(text: str, edits: Sequence[Edit]) -> bytes:
    """Return the JSON of a run's file with some values replaced and the old ones kept.

    Raises:
        BrokenRunError: If it lacks one of the keys.
    """
    for edit in edits:
        text = _edit(text, edit)
    return text.encode()


@dataclass(frozen=True, slots=True)
class _Member:
    """The position of an object's member in the text.

    Attributes:
        lead: The white space before its name.
        colon: The text between its name and its value.
        start: Offset of the value's first character.
        end: Offset just after the value's last character.
    """

    lead: str
    colon: str
    start: int
    end: int


def _edit(text: str, edit: Edit) -> str:
    *parents, last = edit.key.split(".")
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    for name in (*parents, last):
        members = _members_of(text, start, edit.key)
        if name not in members:
            raise BrokenRunError(f"{edit.key} is missing; expected a value to replace")
        start = members[name].start
    member = members[last]
    old = text[member.start : member.end]
    new = _write(edit.value, old, member.colon, is_ascii=text.isascii())
    numbered = (f"{edit.kept_as}_{number}" for number in count(2))
    kept_as = next(name for name in chain([edit.kept_as], numbered) if name not in members)
    # In an object on one line, the first member has nothing before its name.
    lead = list(members.values())[-1].lead
    new += f",{lead}{json.dumps(kept_as)}{member.colon}{old}"
    return text[: member.start] + new + text[member.end :]


def _members_of(text: str, start: int, key: str) -> dict[str, _Member]:
    if text[start] != "{":
        raise BrokenRunError(f"{key} is not inside an object; expected one")
    members: dict[str, _Member] = {}
    place = start + 1
    while text[_skip(text, place)] != "}":
        name_start = _skip(text, place)
        name, name_end = _DECODER.raw_decode(text, name_start)
        value_start = _skip(text, _skip(text, name_end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        members[name] = _Member(
            text[place:name_start], text[name_end:value_start], value_start, value_end
        )
        place = _skip(text, value_end)
        place += text[place] == ","
    return members


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return place if match is None else match.end()


def _write(value: Any, old: str, colon: str, *, is_ascii: bool) -> str:
    """Write a value in the layout of the old one."""
    indent, base = None, ""
    layout = re.match(r"\{[ \r]*\n([ \t]*)(?s:.*)\n([ \t]*)\}", old)
    if layout is not None:
        base = layout[2]
        indent = layout[1].removeprefix(base)
    separators = (",", ":") if indent is None and colon == ":" else None
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=is_ascii)
    try:
        written.encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        written = json.dumps(value, indent=indent, separators=separators)
    newline = "\r\n" if "\r\n" in old else "\n"
    return written.replace("\n", f"{newline}{base}")
