"""What a reply says, worked out a second time and differently; slow, and shares no code.

A verdict is told by its name here, `A`, `B` or `TIE`; None means that there is none. The package
matches lines against a pattern and leaves JSON to `json`; this takes lines apart piece by piece
and matches JSON against a pattern.
"""

import json
import re
import unicodedata

_BLANKS = " \t\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_MARKS = "*_`#>" + _BLANKS + "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_SMALL = {ord(big): big.lower() for big in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_VALUES = {"a": "A", "b": "B", "tie": "TIE"}

_STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_SPACE = r"[ \t\n\r]*"
_FENCED = re.compile(
    rf"{_SPACE}(?P<fence>`{{3,}}|~{{3,}})[ \t\r]*(?:[jJ][sS][oO][nN])?[ \t\r]*\n"
    rf"(?:(?P<inside>.*)\n)?[ \t\r]*(?P=fence){_SPACE}",
    re.DOTALL,
)
_BAD_ENDS = ("max_tokens", "refusal", "tool_use", "pause_turn", "model_context_window_exceeded")
_ENDS_FENCED = re.compile(
    rf"(?P<before>(?:[^\n]*\n)*?)[ \t\r]*(?P<fence>`{{3,}}|~{{3,}})[ \t\r]*"
    rf"(?:[jJ][sS][oO][nN])?[ \t\r]*\n(?P<inside>.*)\n[ \t\r]*(?P=fence){_SPACE}",
    re.DOTALL,
)
_TOKEN = re.compile(rf"{_STRING}|[{{}}\[\]:,]|[^\s{{}}\[\]:,\"]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _seen(text: str) -> str:
    """Return a text as somebody sees it who does not tell full width from half."""
    seen = []
    for letter in text:
        if unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f":
            continue
        half = unicodedata.normalize("NFKC", letter) if "\uff01" <= letter <= "\uff5e" else letter
        seen.append({"\u3002": ".", "\uff61": ".", "\u3010": "[", "\u3011": "]"}.get(half, half))
    return "".join(seen).replace("\u3000", " ")


def verdict_on_last_line(reply: str) -> str | None:
    """Return the verdict of a reply that is to end in a verdict line."""
    reply = _seen(reply)
    lines = reply.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [stripped for line in lines if (stripped := line.strip(_BLANKS))]
    if len(lines) > 1 and len(lines[-1]) > 2 and set(lines[-1]) in ({"`"}, {"~"}):
        del lines[-1]
    said = [_word_of_line(line) for line in lines]
    if not said or set(said) - {None, said[-1]}:
        return None
    return _VALUES.get(said[-1] or "")


def _word_of_line(line: str) -> str | None:
    word, colon, value = line.partition(":")
    word = word.strip(_MARKS)
    if word[:1] in ("-", "+", "\u2022"):
        word = word[1:].lstrip(_MARKS)
    value = value.strip(_MARKS)
    if value.endswith("."):
        value = value[:-1].rstrip(_MARKS)
    for n_brackets in (2, 1):
        inside = value[n_brackets : len(value) - n_brackets]
        if value == "[" * n_brackets + inside + "]" * n_brackets and inside:
            value = inside
            break
    value, word = value.translate(_SMALL), word.translate(_SMALL)
    before, _, last = word.rpartition("final")
    if not before and last.lstrip(_BLANKS) != last:
        word = last.lstrip(_BLANKS)
    if not colon or word != "verdict" or not value or set(value) - _LETTERS:
        return None
    return value


def verdict_in_object(reply: str) -> str | None:
    """Return the verdict of a reply that is to be one JSON object."""
    if not re.match(_SPACE + r"\{", reply) or not _is_json(reply):
        return None
    outer = [(_folded(name), value) for name, value in outer_members(reply)]
    names = [name for name, _ in outer]
    values = dict(outer)
    if len(set(names)) != len(names) or not {"reasoning", "verdict"} <= set(names):
        return None
    if not values["reasoning"].startswith('"') or not values["verdict"].startswith('"'):
        return None
    verdict = _capital(decode_string(values["verdict"]))
    said = set()
    for name, literal in _leaves(reply):
        word = _capital(decode_string(literal)) if literal.startswith('"') else None
        if name == "verdict" or (name != "reasoning" and word in ("A", "B", "TIE")):
            said.add(word)
    return verdict if said == {verdict} and verdict in ("A", "B", "TIE") else None


def _folded(text: str) -> str:
    return text.strip(" \t\n\r").translate(_SMALL) if text.isascii() else text


def _capital(text: str) -> str:
    return _folded(text).upper() if text.isascii() else text


def _leaves(reply: str) -> list[tuple[str, str]]:
    """Return every value that is no object and no list, with the name it stands under."""
    leaves: list[tuple[str, str]] = []
    opened: list[tuple[str, str]] = []
    name = previous = ""
    for token in [*_TOKEN.findall(reply)]:
        if token == ":":
            name = _folded(decode_string(previous))
            leaves.pop()
        elif token in "{[":
            opened.append((token, name))
        elif token in "}]":
            _, name = opened.pop()
        elif token != ",":
            if opened and opened[-1][0] == "[":
                name = opened[-1][1]
            leaves.append((name, token))
        previous = token
    return leaves


def _is_json(reply: str) -> bool:
    """Whether a text is JSON; the one thing here that is left to the library."""
    try:
        json.loads(reply)
    except (ValueError, RecursionError):
        return False
    return True


def _behind_a_sentence(text: str) -> str | None:
    """Return the object in the one fence of a reply, which ends it."""
    match = _ENDS_FENCED.fullmatch(text)
    if match is None or re.search(
        r"^[ \t]*(?:`{3,}|~{3,})", match["before"] + match["inside"], re.M
    ):
        return None
    before = match["before"]
    if "{" in before or any(_word_of_line(line.strip("\r")) for line in before.split("\n")):
        return None
    return match["inside"] if re.match(_SPACE + r"\{", match["inside"]) else None


def verdict_of_row(
    *, result_type: str, stop_reason: str | None, text: str | None, reply_format: str
) -> str | None:
    """Return the verdict of a result row."""
    if result_type == "identical":
        return "TIE"
    if result_type != "succeeded" or stop_reason in _BAD_ENDS or text is None:
        return None
    text = text.strip(" \t\n\r\ufeff\u200b\u200e\u200f\u2060")
    if reply_format == "json_schema":
        fenced = _FENCED.fullmatch(text)
        inside = text if fenced is None else fenced["inside"]
        if re.match(_SPACE + r"\{", inside):
            return verdict_in_object(inside)
        behind = _behind_a_sentence(text)
        if behind is not None:
            return verdict_in_object(behind)
    return verdict_on_last_line(text)


def verdict_of_record(line: str) -> str | None:
    """Return the verdict of a line of a judgment file; none if a name stands in it twice."""
    members = outer_members(line)
    row = {name: decode_string(value) for name, value in members if value.startswith('"')}
    if len({name for name, _ in members}) != len(members):
        return None
    return verdict_of_row(
        result_type=row.get("result_type", ""),
        stop_reason=row.get("stop_reason"),
        text=row.get("reply"),
        reply_format="line",
    )


def outer_members(line: str) -> list[tuple[str, str]]:
    """Return the members of a JSON object as they are written; of an inner value its beginning."""
    depth = 0
    members: list[tuple[str, str]] = []
    name = None
    previous = ""
    for token in _TOKEN.findall(line):
        if token in ("}", "]"):
            depth -= 1
        elif depth == 1 and token == ":":
            name = decode_string(previous)
        elif depth == 1 and name is not None:
            members.append((name, token))
            name = None
        if token in ("{", "["):
            depth += 1
        previous = token
    return members


def decode_string(literal: str) -> str:
    """Return the text that a JSON string stands for; halves of a pair stay halves."""
    return _ESCAPE.sub(
        lambda match: (
            chr(int(match[1][1:], 16)) if match[1][0] == "u" else _ESCAPED.get(match[1], match[1])
        ),
        literal[1:-1],
    )
