"""YAML files, read safely, with the line of every key for messages.

A key that appears twice is refused, since YAML's readers would silently take the last one. What
pydantic finds wrong with the values becomes sentences that name the keys that may stand there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import installed_extensions, installed_extras
from tournament_assets.foundation.formatting import expect_one_of, hint_at, hint_at_number
from tournament_assets.foundation.input_files import read_input_text, reading

KeyPath = tuple[str | int, ...]
"""The keys and positions that lead to a value."""
Model = TypeVar("Model", bound=BaseModel)
_LONGEST_VALUE = 300
_USER_INFO = re.compile("//[^/@\\s'\"]*@")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """What a YAML file holds, and where.

    Attributes:
        name: The file, for messages.
        lines: The line of every key, and of every item of a list.
        plain: What is written where YAML reads something else than a text, by its place.
    """

    name: str
    values: Any
    lines: Mapping[KeyPath, int]
    plain: Mapping[KeyPath, str] = field(default_factory=dict)

    def line_of(self, place: KeyPath) -> int:
        """Return the line of a key, or of the nearest one around it."""
        while place not in self.lines and place:
            place = place[:-1]
        return self.lines.get(place, 1)

    def line_named_in(self, problem: str) -> int:
        """Return the line of the key that a problem begins with.

        An item of a list may be called by its position, or as in `entrants.base.model`.
        """
        place: KeyPath = ()
        values = self.values
        for key in problem.partition(" ")[0].rstrip(":").split("."):
            part = _item_called(key, values) if isinstance(values, list) else key
            if part is None or not isinstance(values, (dict, list)):
                break
            place = (*place, part)
            values = values[part] if isinstance(values, list) else values.get(part)  # type: ignore[index]
        return self.line_of(place)

    def within(self, *place: str) -> "YamlDocument":
        """Return what is under some keys as a document of its own, with its original lines."""
        values = self.values
        for key in place:
            values = values[key]
        inner = {
            where[len(place) :]: line
            for where, line in self.lines.items()
            if where[: len(place)] == place
        }
        return YamlDocument(self.name, values, inner)

    def validate(
        self,
        model: type[Model],
        *,
        what: str,
        others: Iterable[tuple[KeyPath, str]] = (),
    ) -> Model:
        """Return the values as a model.

        Args:
            model: What the file describes.
            what: What it is, where it is wrong as a whole.
            others: Problems that no field alone can show, each with where it stands.
        """
        problems = [
            (self.line_of(place), _with_key(".".join(map(str, place)), message))
            for place, message in others
        ]
        try:
            validated = model.model_validate(self.values)
        except ValidationError as error:
            details = error.errors()
            for detail in details:
                if not any(_follows(detail, other) for other in details):
                    shown, message = _explain(detail, model, what)
                    message = self._unquoted(shown, detail) or message
                    line = self.line_of(shown) if shown else self.line_named_in(message)
                    problems.append((line, message))
        if problems:
            raise InputError(f"{self.name}:{line}: {message}" for line, message in sorted(problems))
        return validated

    def _unquoted(self, place: KeyPath, detail: Any) -> str | None:
        """Explain a text that YAML reads as something else, such as `no`; None for another error.

        A key of a mapping is a text, too.
        """
        if not str(detail["type"]).startswith("string_"):
            return None
        found, name = detail.get("input"), ".".join(map(str, place))
        if place[-1:] == (_KEY,):
            parent = place[:-2]
            keys = [words for at, words in self.plain.items() if at[-1:] == place[-1:] != at]
            written = next((key for key in keys if yaml.safe_load(key) == found), None)
            name, line = f"a key of {'.'.join(map(str, parent))}", f'"{written}":'
        else:
            written = self.plain.get(place)
            last = place[-1] if place else ""
            key = "-" if isinstance(last, int) else f"{last}:"
            line = f'{key} "{written}"'
        if written is None:
            return None
        return (
            f"{name} is {written}, which YAML reads as {_kind_of(found)}; expected a text; put it "
            f"in quotes: {line}"
        )


def _follows(detail: Any, other: Any) -> bool:
    """Whether one of pydantic's errors only follows from another.

    A list whose items are wrong is called too short, a misspelt key missing, and what is no number
    is no word that may stand for one.
    """
    place, cause = detail["loc"], other["loc"]
    match detail["type"], other["type"]:
        case "too_short", _:
            return bool(cause[: len(place)] == place != cause)
        case "missing", "extra_forbidden":
            is_alike = bool(hint_at(str(cause[-1]), [str(place[-1])]))
            return is_alike and cause[:-1] == place[:-1]
        case "literal_error", kind if kind != "literal_error":
            return str(place[-1]).startswith("literal[") and bool(cause[:-1] == place[:-1])
    return False


def _kind_of(value: object) -> str:
    kinds = {bool: "yes or no", int: "a number", float: "a number", type(None): "nothing"}
    return kinds.get(type(value), "a date")


def read_yaml(path: Path | Traversable, *, what: str) -> YamlDocument:
    """Read a YAML file that holds a mapping.

    Args:
        what: What it is, to begin messages with, such as `the config`.
    """
    with reading(path, "a UTF-8 YAML file", label=f"{path}: {what}"):
        text = read_input_text(path)
    document = parse_yaml(text, str(path))
    if not isinstance(document.values, dict):
        kinds = {type(None): "is empty", list: "is a list", str: "is a text"}
        found = kinds.get(type(document.values), f"is {document.values!r}")
        raise InputError(
            f"{path}:1: {what} {found}; expected keys with values, such as `name: value`"
        )
    return document


def parse_yaml(text: str, name: str) -> YamlDocument:
    """Read a YAML text.

    Args:
        name: The file that it is of, for messages.

    Raises:
        InputError: If it is not YAML, with every key that appears twice, or if its aliases stand
            for too much or for what they are part of.
    """
    lines: dict[KeyPath, int] = {}
    repeated: list[str] = []
    plain: dict[KeyPath, str] = {}
    try:
        loader = _CountingLoader(text, name)
        node = loader.get_single_node()
        if node is not None:
            _collect_lines(node, (), lines, repeated, set(), plain)
            values = loader.construct_document(node)
        else:
            values = None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{name}:{_explain_syntax(error, text)}") from None
    if repeated:
        raise InputError(f"{name}:{problem}" for problem in repeated)
    return YamlDocument(name, values, lines, plain)


_TEXT, _KEY = "tag:yaml.org,2002:str", "[key]"
_MOST_VALUES = 100_000
"""The most values a text with aliases may hold: a config that a person wrote has hundreds."""
_TEXT_OF_ONE = 100
"""How many characters count as one more value, since aliases repeat long texts, too."""


class _CountingLoader(yaml.SafeLoader):
    """A safe loader that counts what aliases stand for before anything is made of it.

    A few hundred bytes of aliases of aliases describe billions of values.
    """

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self._name, self._values = name, 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node; refuse an alias for too much, or for what it is part of."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) and event.anchor in self.anchors:
            line = event.start_mark.line + 1  # type: ignore[union-attr]
            where = f"{self._name}:{line}: alias *{event.anchor}"
            if event.anchor not in self._sizes:
                raise InputError(
                    f"{where} stands inside of what it stands for, which has no end; expected an "
                    "alias of something else; write the value out"
                )
            self._values += self._sizes[event.anchor]
            if self._values > _MOST_VALUES:
                raise InputError(
                    f"{where} brings the values to {self._values:,}, with every alias written "
                    f"out; expected at most {_MOST_VALUES:,}; remove aliases"
                )
            return super().compose_node(parent, index)
        before = self._values
        self._values += 1 + len(getattr(event, "value", "")) // _TEXT_OF_ONE
        node = super().compose_node(parent, index)
        if getattr(event, "anchor", None):
            self._sizes[event.anchor] = self._values - before
        return node


def _collect_lines(
    node: yaml.Node,
    place: KeyPath,
    lines: dict[KeyPath, int],
    repeated: list[str],
    seen: set[int],
    plain: dict[KeyPath, str],
) -> None:
    if isinstance(node, yaml.ScalarNode) and node.style is None and node.tag != _TEXT:
        plain[place] = str(node.value)
    lines.setdefault(place, node.start_mark.line + 1)
    if id(node) in seen:  # an alias, which may repeat a lot, or what it stands in
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            inner = (*place, str(key_node.value))
            line = key_node.start_mark.line + 1
            if inner in lines:
                repeated.append(
                    f"{line}: key {key_node.value!r} occurs a second time; "
                    f"the first is in line {lines[inner]}; remove one"
                )
            lines[inner] = line
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _TEXT:
                plain[*inner, _KEY] = str(key_node.value)
            _collect_lines(value_node, inner, lines, repeated, seen, plain)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _collect_lines(item, (*place, index), lines, repeated, seen, plain)


def _item_called(key: str, items: Sequence[Any]) -> int | None:
    names = [
        each.get("entrant_id", each.get("name")) if isinstance(each, Mapping) else None
        for each in items
    ]
    if key in names:
        return names.index(key)
    return int(key) if key.isdigit() and int(key) < len(items) else None


_SYNTAX = {
    "'\\t'": "a tab stands before a key; expected spaces alone; replace the tab",
    "mapping values": "a second colon, or a key that is indented more than its neighbours; "
    "expected keys in one column, and quotes around words with a colon; indent or quote them",
    "<block end>": "something is indented less or more than its neighbours; expected the keys of a "
    "mapping, and the items of one list, in one column; indent them alike",
    "unexpected end of stream": "a quote that is never closed; expected another at the end of the "
    "words; close it",
}
"""What YAML's reader says about common mistakes, and what to say instead."""


def _explain_syntax(error: Exception, text: str) -> str:
    """Return the line of what is not YAML, and what is wrong there."""
    mark = getattr(error, "problem_mark", None)
    reason = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML")
    begun = getattr(error, "context_mark", None)
    if "end of stream" in reason and begun is not None:
        mark = begun
    line = mark.line if mark is not None else text.count("\n", 0, getattr(error, "position", 0))
    for words, said in _SYNTAX.items():
        if words in reason:
            return f"{line + 1}: {said}"
    return f"{line + 1}: {reason}; expected valid YAML"


def _with_key(key: str, message: str) -> str:
    """Return a problem that begins with the key of its place."""
    return message if key in message else f"{key}: {message}"


_FORMS = {
    r"^[a-z][a-z0-9_]*$": "small letters, digits and _ after a first letter (a-z), such as my_own"
}
"""Patterns, and what to say about them."""


def _expectation(detail: Any, here: Sequence[Any]) -> str:
    """Return what pydantic expected, in words of YAML."""
    kind, limits = str(detail["type"]), detail.get("ctx", {})
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        keys = sorted({key for member in here for key in _fields_of(member)})
        value = detail.get("input")
        written = (
            key for member in here for key in _fields_of(member) if _takes(member, key, value)
        )
        hint = "".join(f"; write {{{key}: {value}}}" for key in [*written][:1])
        return f"expected keys with values{': ' if keys else ''}{', '.join(keys)}{hint}"
    if kind in ("tuple_type", "list_type"):
        return "expected a list: a line for each item, after `- `, or [one, another]"
    if kind == "string_pattern_mismatch":
        pattern = limits["pattern"]
        return f"expected {_FORMS.get(pattern, f'a text of the form {pattern}')}"
    if kind in ("too_short", "string_too_short"):
        return f"expected at least {limits['min_length']} of them"
    return str(detail["msg"]).replace("Input should", "expected it to", 1)


def _takes(model: type[BaseModel], key: str, value: object) -> bool:
    """Whether a value alone, under a key, is all that a model needs."""
    try:
        return value is not None and bool(model.model_validate({key: value}))
    except ValidationError:
        return False


def _explain(detail: Any, model: type[BaseModel], what: str) -> tuple[KeyPath, str]:
    """Return where in the file one of pydantic's errors is, and what is wrong."""
    shown, beside, here = _follow(model, tuple(detail["loc"]))
    name = ".".join(map(str, shown)) or what
    kind, found = detail["type"], detail.get("input")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        key = detail["ctx"]["discriminator"].strip("'")
        tags = [tag for member in here for tag in _literals(member, key)]
        keys = [*found] if isinstance(found, Mapping) else []
        near = next((each for each in keys if each == key or hint_at(key, [str(each)])), None)
        if near == key:
            return shown, f"{name} has {key} {found[key]!r}; {expect_one_of(found[key], tags)}"
        if near is not None:
            return (*shown, near), f"unknown key '{name}.{near}'; {expect_one_of(near, [key])}"
        return shown, f"{name} has no {key}; expected one of {', '.join(tags)}; add it"
    if kind == "extra_forbidden":
        known = sorted({key for member in beside for key in _fields_of(member)})
        hint = hint_at(str(shown[-1]), known)
        if len(shown) == 1 and not hint:  # an extra may have added it to a config's own keys
            names = (*installed_extras(), *map(str, installed_extensions()))
            hint = f"; installed extras are {', '.join(names) or 'none'}"
        return shown, f"unknown key {name!r}; expected one of {', '.join(known)}{hint}"
    if kind == "missing":
        return shown, f"{name} is missing; add it"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return shown, f"{name}: {message}" if shown else message
    safe = "empty" if found is None else _USER_INFO.sub("//…@", repr(found))
    if len(safe) > _LONGEST_VALUE:
        safe = f"{safe[:_LONGEST_VALUE]}…"
    return shown, f"{name} is {safe}; {_expectation(detail, here)}{_hint(detail)}"


def _hint(detail: Any) -> str:
    """Return what may have been meant by a value: a name that is nearly so, or a share."""
    kind, written, limits = str(detail["type"]), detail.get("input"), detail.get("ctx", {})
    if kind == "literal_error":
        return hint_at(str(written), re.findall("'(.*?)'", limits["expected"]))
    is_share = "%" in str(written) or (kind.startswith("less_than") and 1 in limits.values())
    is_number = is_share or kind in ("float_type", "int_type")
    return hint_at_number(repr(written), is_share=is_share) if is_number else ""


def _follow(model: type[BaseModel], place: KeyPath) -> tuple[KeyPath, list[Any], list[Any]]:
    """Follow a place of pydantic's through the types.

    Returns:
        The place as the file has it, without the names by which pydantic tells the members of a
        union apart; the types around its last key; and those of its value.
    """
    shown: list[str | int] = []
    beside: list[Any] = []
    here: list[Any] = [model]
    for part in place:
        inner = [member for outer in here for member in _inside(outer, part)]
        named = [member for member in here if _is_called(member, part)]
        if len(here) > 1 and not inner and named:
            here = named
            continue
        shown.append(part)
        beside, here = here, inner
    return tuple(shown), beside, here


def _inside(outer: Any, part: str | int) -> list[Any]:
    if part in _fields_of(outer):
        return _members(outer.model_fields[part].annotation)
    arguments = get_args(outer) if get_origin(outer) is not Literal else ()
    if isinstance(part, int) or not arguments:
        return _members(arguments[0]) if arguments else []
    return _members(arguments[-1]) if get_origin(outer) is not tuple else []


def _members(annotation: Any) -> list[Any]:
    """Return what a union is made of, without None; any other type is made of itself."""
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _members(arguments[0])
    if str(get_origin(annotation)) in ("typing.Union", "<class 'types.UnionType'>"):
        return [member for part in arguments for member in _members(part)]
    return [] if annotation is type(None) else [annotation]


def _is_called(member: Any, tag: str | int) -> bool:
    """Whether pydantic calls a member of a union so: by a literal, or by its type."""
    literals = [each for key in _fields_of(member) for each in _literals(member, key)]
    return tag in literals or (
        getattr(member, "__name__", str(member)).casefold() in str(tag).casefold()
    )


def _literals(member: Any, key: str) -> Sequence[Any]:
    annotation = _fields_of(member).get(key)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _fields_of(member: Any) -> Mapping[str, Any]:
    is_model = isinstance(member, type) and issubclass(member, BaseModel)
    return {key: each.annotation for key, each in member.model_fields.items()} if is_model else {}
