"""Reading a run's JSON file, looking values up by dotted keys, and editing it in place.

An archive belongs to the harness that wrote it, so an edit replaces only the text of the values
that change and leaves every other byte as it was: other numbers keep their digits, and keys their
order and layout.
"""

import json
import math
import re
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.input_files import MOST_DOCUMENT_BYTES, read_input
from tournament_assets.recorded.sample_formats import value_at

_TOLERANCE = 1e-4
"""How far a score may exceed the ceiling, because harnesses round."""
_MEMBER = re.compile(r'\s*[{,](?P<lead>\s*)(?P<name>"(?:[^"\\]|\\.)*")(?P<colon>\s*:\s*)')
_DECODER = json.JSONDecoder()


def read_document(path: Path) -> dict[str, Any]:
    """Return the JSON object in a run's file.

    Raises:
        InputError: If the file cannot be read, or holds anything else.
    """
    try:
        document = json.loads(read_text(path).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        reason = type(error).__name__
    else:
        if isinstance(document, dict):
            return document
        reason = f"it holds {type(document).__name__}"
    raise InputError(f"the file is no JSON object ({reason}); expected one")


def read_text(path: Path) -> str:
    """Return a run's file as it is.

    Raises:
        InputError: If it cannot be read, or is not UTF-8.
    """
    try:
        return read_input(path, most=MOST_DOCUMENT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
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
        InputError: If the value is not a number from 0 to 1.
    """
    value = value_at(document, key)
    score = number_of(value)
    if value is not None and (score is None or not 0 <= score <= 1 + _TOLERANCE):
        raise InputError(f"{key} is {value!r:.80}; expected a number from 0 to 1")
    return score


def text_of(value: Any) -> str:
    """Return a value as text, empty if the value is blank or false."""
    if is_blank(value) or value is False:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def edit_document(text: str, values: Mapping[str, Any]) -> bytes:
    """Return the JSON of a run's file with some values of its object replaced.

    Each old value is kept beside the new one as `KEY_before`, with a number behind it if an older
    one is kept under that name.

    Args:
        text: The file as it is.
        values: The new values, by key.

    Raises:
        InputError: If it lacks one of the keys.
    """
    for key, value in values.items():
        members = _members_of(text)
        if key not in members:
            raise InputError(f"{key} is missing; expected a value to replace")
        member, end = members[key]
        old, colon = text[member.end() : end], member["colon"]
        # In an object on one line, the first member has nothing before its name.
        lead = list(members.values())[-1][0]["lead"]
        layout: dict[str, Any] = {"separators": (",", ":")} if colon == ":" else {}
        if "\n" in lead:
            layout = {"indent": lead.rpartition("\n")[2]}
        new = json.dumps(value, ensure_ascii=text.isascii(), **layout).replace("\n", lead)
        numbered = (f"{key}_before_{number}" for number in count(2))
        kept_as = next(name for name in chain([f"{key}_before"], numbered) if name not in members)
        kept = f",{lead}{json.dumps(kept_as)}{colon}{old}"
        text = f"{text[: member.end()]}{new}{kept}{text[end:]}"
    return text.encode(errors="backslashreplace")  # half a character is written as its escape


def _members_of(text: str) -> dict[str, tuple[re.Match[str], int]]:
    """Return what precedes each member's value, and where the value ends, by the member's name."""
    members: dict[str, tuple[re.Match[str], int]] = {}
    end = text.index("{")
    while (match := _MEMBER.match(text, end)) is not None:
        _, end = _DECODER.raw_decode(text, match.end())
        members[json.loads(match["name"])] = match, end
    return members
