"""YAML with the line of every key, and what pydantic finds wrong in sentences."""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tournament_assets.tournament.errors import InputError

_USER_INFO = re.compile("//[^/@\\s'\"]*@")
KeyPath = tuple[str | int, ...]
"""The keys and positions that lead to a value."""


def read_yaml_mapping(path: Path, *, what: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Read a YAML file that holds a mapping, and the line of every key.

    Args:
        path: The file.
        what: What it is, to begin messages with, such as `the config`.

    Raises:
        InputError: If it cannot be read, is no YAML or no mapping, or a key stands twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: {what} cannot be read ({type(error).__name__}); "
            "expected a UTF-8 YAML file; check the path"
        ) from error
    values, lines = parse_yaml(text, path)
    if not isinstance(values, dict):
        raise InputError(f"{path}:1: {what} holds {type(values).__name__}; expected a mapping")
    return values, lines


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Read a YAML text, and the line of every key.

    Raises:
        InputError: If it is no YAML, or a key stands twice.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        reason = getattr(error, "problem", None) or "it is not YAML"
        raise InputError(f"{path}:{line}: {reason}; expected valid YAML") from None
    lines: dict[KeyPath, int] = {}
    repeated: list[str] = []
    if node is not None:
        _collect_lines(node, (), lines, repeated, path)
    if repeated:
        raise InputError(repeated)
    return values, lines


def _collect_lines(
    node: yaml.Node,
    key_path: KeyPath,
    lines: dict[KeyPath, int],
    repeated: list[str],
    path: Path,
) -> None:
    lines.setdefault(key_path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            inner = (*key_path, str(key_node.value))
            line = key_node.start_mark.line + 1
            if inner in lines:
                repeated.append(
                    f"{path}:{line}: key {key_node.value!r} stands a second time; "
                    f"the first is in line {lines[inner]}; remove one"
                )
            lines[inner] = line
            _collect_lines(value_node, inner, lines, repeated, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _collect_lines(item, (*key_path, index), lines, repeated, path)


def line_of(lines: Mapping[KeyPath, int], key_path: KeyPath) -> int:
    """Return the line of a key, or of the nearest one around it."""
    while key_path not in lines and key_path:
        key_path = key_path[:-1]
    return lines.get(key_path, 1)


def problem_sentence(detail: Any, *, name: str, known: Sequence[str]) -> str:
    """Say what is wrong with one field.

    Args:
        detail: One of pydantic's `ValidationError.errors()`.
        name: The field, with dots.
        known: The keys that may stand where an unknown one was found.
    """
    kind, found = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"unknown key {name!r}; expected one of {', '.join(known)}{hint}"
    if kind == "missing":
        return f"{name} is missing; add it"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return f"{name}: {message}"
    shown = _USER_INFO.sub("//…@", repr(found))
    return f"{name} is {shown}; {message.replace('Input should', 'expected it to', 1)}"
