"""A run's JSON file: read, looked up by dotted keys, and edited in place.

An archive belongs to the harness that wrote it. So an edit replaces the text of the values that
change and leaves every other byte of the file as it is: other numbers keep their digits, and keys
their order and layout.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHOWN = 80
_TOLERANCE = 1e-4
"""How far above the ceiling a score may be: harnesses round."""
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class BrokenRunError(ValueError):
    """A file that holds no run: what was found, and what was expected."""


def read_document(path: Path) -> dict[str, Any]:
    """Read a run's file as the JSON object it holds.

    Raises:
        BrokenRunError: If it cannot be read, or is none.
    """
    text = _read_text(path).removeprefix("\ufeff")
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


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenRunError(
            f"the file cannot be read ({type(error).__name__}); expected JSON in UTF-8"
        ) from None


def value_at(document: Mapping[str, Any], key: str) -> Any:
    """Return what stands under a key whose dots lead into objects; None if nothing does."""
    found: Any = document
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def number_of(value: Any) -> float | None:
    """Return a JSON number as it is; None for anything else, NaN and infinities included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def is_blank(value: Any) -> bool:
    """Return whether a value holds nothing: null, white space, or a list or object of such."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(each) for each in value.values())
    if isinstance(value, list):
        return all(is_blank(each) for each in value)
    return False


def score_at(document: Mapping[str, Any], key: str, *, ceiling: float = 1.0) -> float | None:
    """Return the score that stands under a key; None if nothing does.

    Raises:
        BrokenRunError: If it is no number from 0 to the ceiling.
    """
    value = value_at(document, key)
    score = number_of(value)
    if value is not None and (score is None or not 0 <= score <= ceiling + _TOLERANCE):
        raise BrokenRunError(
            f"{key} is {value!r:.{_SHOWN}}; expected a number from 0 to {ceiling:g}"
        )
    return score


def text_of(value: Any) -> str:
    """Return a value as a text; what is blank, or false, as an empty one."""
    if is_blank(value) or value is False:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Edit:
    """A value that takes the place of another one.

    Attributes:
        key: Where it stands, in an object that is there; dots lead into objects.
        value: The new value.
        kept_as: The name under which the old one stays beside it, unless that is taken.
    """

    key: str
    value: Any
    kept_as: str


def edit_document(path: Path, edits: Sequence[Edit]) -> bytes:
    """Return a run's file with some values replaced, the old ones kept beside them.

    Raises:
        BrokenRunError: If it cannot be read, or one of the keys is not there.
    """
    read_document(path)
    text = _read_text(path)
    for edit in edits:
        text = _edit(text, edit)
    return text.encode()


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member of an object stands in the text.

    Attributes:
        lead: What stands between the comma, or the brace, and its name.
        colon: What stands between its name and its value.
        start: Where its value begins.
        end: Where its value ends.
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
    if edit.kept_as not in members:
        # In an object on one line, the first member has nothing before its name.
        lead = list(members.values())[-1].lead
        new += f",{lead}{json.dumps(edit.kept_as)}{member.colon}{old}"
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
    """Write a value in the manner in which the old one is written."""
    indent, base = None, ""
    layout = re.match(r"\{[ \r]*\n([ \t]*)(?s:.*)\n([ \t]*)\}", old)
    if layout is not None:
        base = layout[2]
        indent = layout[1].removeprefix(base)
    separators = (",", ":") if indent is None and colon == ":" else None
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=is_ascii)
    try:
        written.encode()
    except UnicodeEncodeError:  # a lone surrogate, which can be written in no other way
        written = json.dumps(value, indent=indent, separators=separators)
    newline = "\r\n" if "\r\n" in old else "\n"
    return written.replace("\n", f"{newline}{base}")
