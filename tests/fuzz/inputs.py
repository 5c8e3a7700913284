"""Replies and lines of judgment files that are nearly right, drawn at random."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar

from tests.fuzz import pools

Target = Literal["line", "structured", "row", "record"]
T = TypeVar("T")

_FIELDS = tuple(pools.ROW)
_TARGETS: tuple[Target, ...] = ("line",) * 4 + ("structured",) * 3 + ("row",)
_WITH_RECORDS: tuple[Target, ...] = (*_TARGETS, "record", "record")


@dataclass(frozen=True, slots=True)
class Case:
    """One input.

    Attributes:
        target: What it is for.
        text: The reply, or the line of a file.
        result_type: For `row`: the row's type.
        stop_reason: For `row`: why the model stopped.
        reply_format: For `row`: how the reply was to be written.
        is_good: For `record`: whether it was written as it should be.
    """

    target: Target
    text: str | bytes
    result_type: str = "succeeded"
    stop_reason: str | None = "end_turn"
    reply_format: Literal["line", "json_schema"] = "line"
    is_good: bool = False


def draw_case(rng: Random, *, records: bool) -> Case:
    """Draw an input for one of the parsers; lines of judgment files only with `records`."""
    target = _pick(rng, _WITH_RECORDS if records else _TARGETS)
    if target == "line":
        return Case(target, draw_line_reply(rng))
    if target == "structured":
        return Case(target, draw_structured_reply(rng))
    if target == "record":
        return _draw_record(rng)
    draw = draw_structured_reply if rng.random() < 0.5 else draw_line_reply
    text = draw(rng)
    if rng.random() < 0.2:
        opening, closing = _pick(rng, pools.FENCES), _pick(rng, pools.FENCES)
        text = f"{opening}{_pick(rng, pools.LINE_ENDS)}{text}{_pick(rng, pools.LINE_ENDS)}{closing}"
    return Case(
        target,
        text,
        result_type=_pick(rng, pools.RESULT_TYPES),
        stop_reason=_pick(rng, pools.STOP_REASONS),
        reply_format="json_schema" if rng.random() < 0.6 else "line",
    )


def draw_line_reply(rng: Random) -> str:
    """Draw a reply that is to end in a verdict line."""
    parts = []
    for _ in range(int(rng.random() * 4)):
        parts.append(_draw_verdict_line(rng) if rng.random() < 0.2 else _pick(rng, pools.PROSE))
        parts.append(_draw(rng, pools.LINE_ENDS, pools.ODD_LINE_ENDS))
    parts.append(_draw_verdict_line(rng))
    if rng.random() < 0.3:
        parts.append(_draw(rng, pools.LINE_ENDS, pools.ODD_LINE_ENDS))
    if rng.random() < 0.05:
        parts.append(_pick(rng, pools.LINE_ENDS) + _pick(rng, pools.ODD_CHARACTERS))
    return _mutate(rng, "".join(parts))


def _draw_verdict_line(rng: Random) -> str:
    return (
        _draw(rng, pools.MARKS, pools.ODD_MARKS)
        + _draw(rng, pools.WORDS, pools.ODD_WORDS)
        + _draw(rng, pools.COLONS, pools.ODD_COLONS)
        + _draw(rng, pools.VALUES, pools.ODD_VALUES)
        + _draw(rng, pools.MARKS, pools.ODD_MARKS)
    )


def draw_structured_reply(rng: Random) -> str:
    """Draw a reply that is to be a JSON object with a verdict."""
    reasoning = json.dumps(_pick(rng, pools.PROSE), ensure_ascii=rng.random() < 0.5)
    members = [
        (pools.JSON_KEYS[0], _draw(rng, (reasoning,), pools.ODD_JSON_VALUES)),
        (pools.JSON_KEYS[1], _draw(rng, pools.JSON_VALUES, pools.ODD_JSON_VALUES)),
    ]
    if rng.random() < 0.15:
        members.append(
            (_draw(rng, pools.JSON_KEYS, pools.ODD_JSON_KEYS), _pick(rng, pools.JSON_VALUES))
        )
    if rng.random() < 0.1:
        members.pop(int(rng.random() * len(members)))
    if rng.random() < 0.2:
        members.reverse()
    inner = ",".join(_write_member(rng, key, value) for key, value in members)
    around = _pick(rng, pools.PROSE) + "\n" if rng.random() < 0.03 else _space(rng)
    after = "\n" + _draw_verdict_line(rng) if rng.random() < 0.05 else _space(rng)
    return _mutate(rng, f"{around}{{{inner}}}{after}")


def _write_member(rng: Random, key: str, value: str) -> str:
    name = _pick(rng, pools.ODD_JSON_KEYS) if rng.random() < 0.02 else key
    return f"{_space(rng)}{name}{_space(rng)}:{_space(rng)}{value}{_space(rng)}"


def _draw_record(rng: Random) -> Case:
    reply = draw_structured_reply(rng) if rng.random() < 0.1 else draw_line_reply(rng)
    row = {**pools.ROW, "reply": reply, "result_type": _pick(rng, pools.RESULT_TYPES) or "errored"}
    row["stop_reason"] = _pick(rng, pools.STOP_REASONS)
    if row["result_type"] == "identical":
        row["reply"] = row["stop_reason"] = None
    is_good = not any("\ud800" <= character <= "\udfff" for character in row["reply"] or "")
    if rng.random() < 0.4:
        is_good = False
        for _ in range(1 + int(rng.random() * 2)):
            name = _pick(rng, _FIELDS)
            if rng.random() < 0.2:
                row.pop(name, None)
            else:
                row[name] = _pick(rng, pools.ODD_FIELDS)
    line = json.dumps(row, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        is_good = False
        key, value = _pick(rng, _FIELDS), _pick(rng, pools.ODD_JSON_VALUES)
        line = f'{line[:-1]}, "{key}": {value}}}'
    if rng.random() < 0.2:
        is_good = False
        line = _mutate_once(rng, line)
    text: str | bytes = line
    if rng.random() < 0.5:
        content = line.encode("utf-8", "surrogatepass")
        text = content if is_good else _spoil(rng, content)
    return Case("record", text, is_good=is_good)


def _space(rng: Random) -> str:
    return _pick(
        rng, pools.ODD_JSON_WHITE_SPACE if rng.random() < 0.005 else pools.JSON_WHITE_SPACE
    )


def _pick(rng: Random, pool: Sequence[T]) -> T:
    return pool[int(rng.random() * len(pool))]


def _draw(rng: Random, usual: Sequence[T], odd: Sequence[T]) -> T:
    return _pick(rng, odd if rng.random() < 0.08 else usual)


def _mutate(rng: Random, text: str) -> str:
    chance = rng.random()
    if chance < 0.7:
        return text
    if chance < 0.78:
        content = _spoil(rng, text.encode("utf-8", "surrogatepass"))
        return content.decode("utf-8", "surrogateescape" if chance < 0.74 else "replace")
    for _ in range(1 + int(rng.random() * 2)):
        text = _mutate_once(rng, text)
    return text


def _mutate_once(rng: Random, text: str) -> str:
    place = int(rng.random() * (len(text) + 1))
    kind = int(rng.random() * 6)
    if kind == 0:
        return text[:place] + text[place + 1 :]
    if kind == 1:
        return text[:place] + _pick(rng, pools.ODD_CHARACTERS) + text[place:]
    if kind == 2:
        return text[:place] + _pick(rng, pools.ODD_CHARACTERS) + text[place + 1 :]
    if kind == 3:
        return text[:place] + text[place // 2 :]
    if kind == 4:
        return text[:place] + text[place:].swapcase()
    return text[:place]


def _spoil(rng: Random, content: bytes) -> bytes:
    spoilt = bytearray(content)
    if spoilt:
        spoilt[int(rng.random() * len(spoilt))] = int(rng.random() * 256)
    return bytes(spoilt)
