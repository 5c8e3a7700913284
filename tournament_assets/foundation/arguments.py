"""Refuses, in words, arguments whose type is not the one that a function declares."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from tournament_assets.foundation.errors import Problems

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Refuse arguments that do not have their declared types, before anything uses them."""

    @wraps(function)
    def refusing(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
        expected = get_type_hints(function)
        problems = Problems()
        for name, value in arguments.items():
            if name in expected and not _fits(value, expected[name]):
                kind = type(value).__name__
                # What holds several values may hold keys to a service.
                words = f"{value!r:.60} ({kind})" if isinstance(value, _PLAIN) else f"a {kind}"
                problems.add(
                    f"{function.__name__}: {name} is {words}; expected {_said(expected[name])}"
                )
        problems.raise_if_any()
        return function(*args, **kwargs)

    return refusing


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; a path may be a text, and a number any kind of number."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if hint is Any or origin is Literal:
        return True  # a name that is unknown is refused with those that are known
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    kind: Any = os.PathLike if hint is Path else origin or hint
    if not isinstance(value, kind):
        return False
    if origin is tuple:
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if origin is Sequence:
        return not isinstance(value, str) and all(_fits(each, parts[0]) for each in value)
    if origin is Mapping:
        return all(_fits(each, parts[0]) and _fits(held, parts[1]) for each, held in value.items())
    return True


def _said(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_said(part) for part in parts if part is not type(None))
    if origin is Sequence:
        return f"a list, each {_said(parts[0])}"
    kind = origin or hint
    return _WORDS.get(kind, f"a {kind.__name__}")


_NUMBERS = {int: Integral, float: Real}
_PLAIN = (str, int, float, type(None))
_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Path: "a path",
    Mapping: "a dict",
    Callable: "a function",
}
