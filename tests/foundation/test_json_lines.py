import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tournament_assets.foundation import json_lines
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import (
    numbered_lines,
    parse_object,
    parse_rows,
    read_json_lines,
    write_json_lines,
)


def test_line_ends_blank_lines_and_a_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a": 1}\r\n\n \t\n{"a": "x\u2028\x85"}'.encode())
    assert read_json_lines(path) == [("a.jsonl:1", {"a": 1}), ("a.jsonl:4", {"a": "x\u2028\x85"})]
    stored = UPath("memory://json-lines/a.jsonl")
    stored.write_bytes(path.read_bytes())
    assert read_json_lines(stored) == read_json_lines(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "holds list; expected a JSON object"),
        (b"\xff{}", "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "is not JSON"),
        (b'{"a": "half \\ud83d"}', "half a character"),
    ],
)
def test_what_is_no_object_is_refused_where_it_stands(
    tmp_path: Path, line: bytes, said: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\\ud83d\\ude00"}\n' + line + b"\n7\n")
    with pytest.raises(InputError) as caught:
        read_json_lines(path)
    second, third = caught.value.problems
    assert second.startswith("a.jsonl:2: ")
    assert said in second
    assert len(second) < 400
    assert third.startswith("a.jsonl:3: ")
    assert " int;" in third


@pytest.mark.parametrize("line", ['{"a": 1, "a": 1}', '{"b": {"a": 1, "a": 2}}', '{"a": NaN}'])
def test_what_json_leaves_open_is_refused_only_by_the_strict(line: str) -> None:
    assert parse_object(line, "a.jsonl:1", strict=False)
    with pytest.raises(InputError, match=r"^a\.jsonl:1: .*JSON"):
        parse_object(line, "a.jsonl:1")


def test_problems_of_all_rows_come_at_once_and_rows_after_the_first_are_kept_back() -> None:
    def parse(where: str, row: Mapping[str, Any]) -> str:
        if row["n"] % 2:
            raise InputError([f"{row['n']} is odd", f"{where}: 2 problems"])
        return f"{where} {row['n']}"

    found: list[str] = []
    rows: list[tuple[str, object]] = [("f:1", {"n": 0}), ("f:2", b'{"n": 1}'), ("f:3", {"n": 2})]
    others: list[tuple[str, object]] = [(f"f:{n}", b'{"n": 1}') for n in range(5, 35)]
    with pytest.raises(InputError) as caught:
        found.extend(parse_rows([*rows, ("f:4", 4), *others], parse))
    *listed, rest = caught.value.problems
    places = [problem.partition(" ")[0] for problem in listed]
    assert (len(listed), places[:4]) == (50, ["f:2:", "f:2:", "f:4:", "f:5:"])
    assert listed[:2] == ["f:2: 1 is odd", "f:2: 2 problems"]
    assert " 4;" in listed[2]
    assert " 13 " in rest
    assert found == ["f:1 0"]
    assert list(parse_rows(rows[:1], parse)) == ["f:1 0"]


def test_a_line_that_never_ends_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 2**20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + b" " * 2**21)
    with pytest.raises(InputError, match=r"^a\.jsonl:2: .* 1 MiB; .* x$"):
        list(numbered_lines(path, expected="x"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: .*\(.*UTF-8"):
        list(numbered_lines(tmp_path / "none"))


def test_what_is_written_is_read_again_and_half_a_character_is_an_escape(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"a": "é\n\u2028"}, {"b": [1.5, None]}]
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        write_json_lines(file, rows)
    assert [row for _, row in read_json_lines(path)] == rows
    half = io.BytesIO()
    write_json_lines(half, [{"a": "\ud83d"}])
    assert json.loads(half.getvalue()) == {"a": "\ud83d"}
