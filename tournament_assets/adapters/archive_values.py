"""Looking up and setting values in a run's JSON by dotted keys."""

import math
from collections.abc import Mapping, MutableMapping
from typing import Any


def value_at(document: Mapping[str, Any], key: str) -> Any:
    """Return what stands under a key whose dots lead into objects; None if nothing does."""
    found: Any = document
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def set_value(document: MutableMapping[str, Any], key: str, value: Any) -> None:
    """Put a value under a key whose dots lead into objects, which are made if need be."""
    *parents, last = key.split(".")
    inner: Any = document
    for part in parents:
        inner = inner.setdefault(part, {})
    inner[last] = value


def number_of(value: Any) -> float | None:
    """Return a JSON number as it is; None for anything else, NaN and infinities included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def is_blank(value: Any) -> bool:
    """Say whether a value holds nothing: null, white space, or a list or object of such."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(each) for each in value.values())
    if isinstance(value, list):
        return all(is_blank(each) for each in value)
    return False
