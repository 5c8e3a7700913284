"""Files with one JSON object per line: read with the place of every problem, and written.

A file may begin with a byte order mark. Blank lines are skipped.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.input_files import (
    MOST_ROWS_BYTES,
    OTHER_KINDS,
    explain_bytes,
    open_input,
    reading,
)

if TYPE_CHECKING:
    from upath import UPath

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
"""A value as JSON writes it: what came over a wire, or is written to one."""
JsonObject: TypeAlias = Mapping[str, Json]

LONGEST_LINE = 64 * 2**20
"""In bytes. No response comes near it, and a file without line feeds is not read into memory."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Parsed = TypeVar("Parsed")


def numbered_lines(
    path: "Path | UPath", *, expected: str = "UTF-8 text with one JSON object a line"
) -> Iterator[tuple[str, bytes]]:
    """Yield the lines that are not blank, each with its place (`file:line`).

    Args:
        expected: What the file should be, for messages.

    Raises:
        InputError: If it cannot be read, or a line is longer than `LONGEST_LINE`.
    """
    with reading(path, expected), open_input(path, most=MOST_ROWS_BYTES) as file:
        lines = iter(lambda: file.readline(LONGEST_LINE + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{path.name}:{number}: the line is longer than {LONGEST_LINE // 2**20} "
                    f"MiB; expected {expected}"
                )
            if number == 1 and line.startswith(tuple(OTHER_KINDS)):
                raise InputError(f"{path.name}:1: {explain_bytes(line)}")
            content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if content.strip():
                yield f"{path.name}:{number}", content


def parse_object(line: str | bytes, where: str, *, strict: bool = True) -> JsonObject:
    """Read a line as one JSON object.

    Args:
        where: `file:line`, for messages.
        strict: Refuse a key that occurs twice in an object, and NaN and infinities.

    Raises:
        InputError: If it is not one.
    """
    try:
        text = line if isinstance(line, str) else line.decode()
        if strict:
            row = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse)
        else:
            row = json.loads(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: {explain_bytes(error.object)}") from None
    except ValueError as error:  # also a number of 5,000 digits
        reason = str(error)
    else:
        if isinstance(row, dict):
            return row
        raise InputError(f"{where}: the line holds {type(row).__name__}; expected a JSON object")
    raise InputError(f"{where}: the line is not JSON ({reason:.200}); expected an object; mend it")


def parse_rows(
    rows: Iterable[tuple[str, object]],
    parse: Callable[[str, JsonObject], Parsed],
) -> Iterator[Parsed]:
    """Yield what each row parses to, and raise all problems after the last row.

    After the first problem nothing more is yielded, although all rows are read.

    Args:
        rows: The place of each row, with its line of JSON or what was read from one.
        parse: Reads one row, given its place; raises `InputError` with what is wrong with it,
            whether or not that says where.
    """
    problems = Problems(of_file=True)
    for where, row in rows:
        try:
            values = parse_object(row, where) if isinstance(row, bytes) else row
            if not isinstance(values, Mapping):
                raise InputError(f"the row is {values!r:.60}; expected a JSON object")
            parsed = parse(where, values)
        except InputError as error:
            problems.extend(
                problem if problem.startswith(where) else f"{where}: {problem}"
                for problem in error.problems
            )
            continue
        if not problems:
            yield parsed
    problems.raise_if_any()


def read_json_lines(path: "Path | UPath") -> list[tuple[str, JsonObject]]:
    """Read a whole file: the place of each row (`file:line`), and the row.

    Of a key that appears twice in an object, the last one counts. CSV and a list are refused once.
    """
    problems = Problems(of_file=True)
    rows: list[tuple[str, JsonObject]] = []
    for where, line in numbered_lines(path):
        if not (rows or problems) and re.match(rb"\s*\[|\w[^{]*[,;\t]", line):  # a list, CSV
            beginning = line[:80].decode(errors="replace").strip()
            raise InputError(
                f"{where}: the file begins with {beginning!r}; expected one JSON object a line; "
                f"`tournament bank import {path.name} --out BANK.jsonl` makes a bank of a table"
            )
        with problems.collected():
            row = parse_object(line, where, strict=False)
            if b"\\u" in line:
                refuse_half_characters(row, where)
            rows.append((where, row))
    problems.raise_if_any()
    return rows


def write_json_lines(file: IO[bytes], rows: Iterable[JsonObject]) -> None:
    """Write one JSON object per line; half a character is written as its escape."""
    for row in rows:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        file.write(text.encode(errors="backslashreplace") + b"\n")


def refuse_half_characters(row: object, where: str) -> None:
    """Refuse lone surrogates (half of a pair of escapes), which UTF-8 cannot encode."""
    try:
        json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: the row holds half a character (a lone \\ud800 to \\udfff); "
            "expected whole characters; write the text again as UTF-8"
        ) from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> JsonObject:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a JSON value")
