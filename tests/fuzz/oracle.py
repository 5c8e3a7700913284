"""What a reply says, worked out a second time and differently; slow, and shares no code.

A verdict is told by its name here, `A`, `B` or `TIE`; None means that there is none. The package
matches lines against a pattern and leaves JSON to `json`; this takes lines apart piece by piece
and matches JSON against a pattern.
"""

import re

_BLANKS = " \t\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_MARKS = "*_`#>" + _BLANKS + "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_SMALL = {ord(big): big.lower() for big in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_VALUES = {"a": "A", "b": "B", "tie": "TIE"}

_STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_SPACE = r"[ \t\n\r]*"
_MEMBER = rf"{_SPACE}({_STRING}){_SPACE}:{_SPACE}({_STRING}){_SPACE}"
_TWO_TEXTS = re.compile(rf"{_SPACE}\{{{_MEMBER},{_MEMBER}\}}{_SPACE}")
_FENCED = re.compile(
    rf"{_SPACE}(?P<fence>`{{3,}}|~{{3,}})[ \t\r]*(?:[jJ][sS][oO][nN])?[ \t\r]*\n"
    rf"(?:(?P<inside>.*)\n)?[ \t\r]*(?P=fence){_SPACE}",
    re.DOTALL,
)
_TOKEN = re.compile(rf"{_STRING}|[{{}}\[\]:,]|[^\s{{}}\[\]:,\"]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def verdict_on_last_line(reply: str) -> str | None:
    """Return the verdict of a reply that is to end in a verdict line."""
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
    match = _TWO_TEXTS.fullmatch(reply)
    if match is None:
        return None
    first, first_value, second, second_value = (decode_string(group) for group in match.groups())
    if {first, second} != {"reasoning", "verdict"}:
        return None
    verdict = first_value if first == "verdict" else second_value
    return verdict if verdict in ("A", "B", "TIE") else None


def verdict_of_row(
    *, result_type: str, stop_reason: str | None, text: str | None, reply_format: str
) -> str | None:
    """Return the verdict of a result row."""
    if result_type == "identical":
        return "TIE"
    if (result_type, stop_reason) != ("succeeded", "end_turn") or text is None:
        return None
    if reply_format == "json_schema":
        fenced = _FENCED.fullmatch(text)
        inside = text if fenced is None else fenced["inside"]
        if re.match(_SPACE + r"\{", inside):
            return verdict_in_object(inside)
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
