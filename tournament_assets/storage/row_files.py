"""Recognises the format of a file of rows, and reads each row with its place.

JSON lines, a JSON list, a JSON object, CSV or Parquet, recognised by content, not by name.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.input_files import MOST_ROWS_BYTES, open_input, reading
from tournament_assets.foundation.json_lines import (
    BYTE_ORDER_MARK,
    LONGEST_LINE,
    Json,
    JsonObject,
    numbered_lines,
    parse_object,
    read_json_lines,
    refuse_half_characters,
)

MOST_PARQUET_VALUES = 50_000_000
"""Of one column, with those in lists, of which a file may have more only if it is as large."""
_VALUES_PER_BYTE = 20  # the names of two of a hundred models take a byte or two
FileKind = Literal["parquet", "json lines", "json list", "json object", "csv", "xlsx"]


@dataclass(frozen=True, slots=True)
class FileSample:
    """What the beginning of a file shows: the format of its rows and the names of its columns.

    `first` is the first row of a JSON file; nothing for the other kinds. `note` says what was
    taken for granted, in a clause; empty without anything.
    """

    kind: FileKind
    columns: frozenset[str]
    first: JsonObject
    note: str = ""


def sample_file(path: Path) -> FileSample:
    """Look at the beginning of a file, whatever its name."""
    with _opened(path) as file:
        beginning = file.read(4)
    if beginning == b"PAR1":
        return FileSample("parquet", frozenset(parquet_schema(path).names), {})
    if beginning == b"PK\x03\x04" and _is_workbook(path):
        sheet, names, _ = _first_sheet(path)
        return FileSample("xlsx", frozenset(names), {}, sheet)
    if beginning == b"PK\x03\x04":
        raise InputError(
            f"{path}: the file is a ZIP archive; expected Parquet, JSON, CSV or an Excel workbook; "
            "write a .eval log of inspect as JSON (inspect log convert --to json), or unpack it"
        )
    if beginning[:2] in _UTF_16 and not {*beginning} & {*b"[{"}:
        return _csv_sample(path, beginning)
    where, line = next(numbered_lines(path), ("", b""))
    line = line.strip()
    if not line:
        raise InputError(f"{path}: the file is empty; expected at least one row")
    if line.startswith(b"["):
        items = read_json_list(path)
        return _json_sample("json list", items[0][1] if items else None, path)
    if line.startswith(b"{"):
        return _sample_objects(path, where, line)
    return _csv_sample(path, line)


def _is_workbook(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def _first_sheet(path: Path) -> tuple[str, list[str], list[tuple[int, list[Json]]]]:
    """Return what to say of a workbook's sheets, its columns, and its rows with their numbers."""
    from openpyxl import load_workbook

    try:
        # By its content: openpyxl refuses a path that does not end in .xlsx.
        book = load_workbook(io.BytesIO(path.read_bytes()), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [(n, [_seen(cell) for cell in row]) for n, row in enumerate(sheet.values, start=1)]
    except Exception as error:  # noqa: BLE001  # openpyxl raises what its parts raise
        raise InputError(
            f"{path}: the workbook cannot be read ({type(error).__name__}); expected a whole .xlsx "
            "file; save it again, or as CSV"
        ) from None
    others = [each.title for each in book.worksheets[1:]]
    note = f"of its sheets {sheet.title!r} was read, not {', '.join(map(repr, others))}"
    start = _header_place([row for _, row in rows])
    names = ["" if cell is None else str(cell).strip() for cell in rows[start][1]] if rows else []
    return note if others else "", names, rows[start + 1 :]


def _seen(cell: Any) -> Json:
    """Return the text of a workbook's cell as somebody sees it; None of an empty one."""
    if cell is None or isinstance(cell, str):
        return cell if cell and cell.strip() else None
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _xlsx_rows(path: Path) -> Iterator[tuple[str, JsonObject]]:
    _, names, rows = _first_sheet(path)
    _refuse_twice(path, names)
    for number, cells in rows:
        if any(cell is not None for cell in cells):
            row = [*cells, *[None] * (len(names) - len(cells))]
            yield f"{path.name}:row {number}", dict(zip(names, row, strict=False))


_HEADER_ROWS = 10
"""How many rows at the beginning of a table may be its header."""


def _header_place(rows: Sequence[Sequence[Any]]) -> int:
    """Return which row names the columns: the first that fills half as many cells as any row."""
    filled = [sum(cell not in (None, "") for cell in row) for row in rows[: 3 * _HEADER_ROWS]]
    needed = max(2, max(filled, default=0) / 2)
    return next((n for n, count in enumerate(filled[:_HEADER_ROWS]) if count >= needed), 0)


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: the header has {', '.join(map(repr, twice))} more than once; expected every "
            "column's name once; rename one"
        )


def _csv_sample(path: Path, beginning: bytes) -> FileSample:
    layout = csv_layout(path)
    names = layout.names
    if len(names) < 2:
        raise InputError(
            f"{path}: the file begins with {beginning[:40]!r}; expected Parquet, JSON lines, a "
            "JSON list, or CSV with a header"
        )
    notes = [
        f"the text is not UTF-8 and was read as {layout.encoding}, as Excel saves CSV"
        if layout.encoding == _WESTERN
        else "",
        f"the header is in line {layout.skipped + 1}" if layout.has_title else "",
    ]
    return FileSample("csv", frozenset(names), {}, "; ".join(note for note in notes if note))


def _sample_objects(path: Path, where: str, line: bytes) -> FileSample:
    try:
        return _json_sample("json lines", parse_object(line, where, strict=False), path)
    except InputError:
        try:
            whole = _load(path)
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            raise
    return _json_sample("json object", whole, path)


def _json_sample(kind: FileKind, first: object, path: Path) -> FileSample:
    if not isinstance(first, dict):
        raise InputError(f"{path}: the first row is {first!r:.60}; expected a JSON object")
    return FileSample(kind, frozenset(first), first)


def read_rows(path: Path, kind: FileKind) -> list[tuple[str, JsonObject]]:
    """Read a whole file: the place of each row, and the row.

    An empty cell of a CSV file is a missing value.

    Args:
        kind: The format from `sample_file`; a JSON object is one row.
    """
    if kind == "json lines":
        return read_json_lines(path)
    rows = rows_in(path, kind)
    if kind not in ("json list", "json object"):
        return list(rows)
    problems = Problems(of_file=True)
    objects: list[tuple[str, JsonObject]] = []
    for where, item in rows:
        if not isinstance(item, dict):
            problems.add(f"{where}: the row is {item!r:.60}; expected a JSON object")
            continue
        with problems.collected():
            refuse_half_characters(item, where)
            objects.append((where, item))
    problems.raise_if_any()
    return objects


def rows_in(
    path: Path, kind: FileKind, *, columns: Iterable[str] | None = None, needed: Sequence[str] = ()
) -> Iterable[tuple[str, Any]]:
    """Return the rows of a file of any kind one after another, each with its place.

    A JSON line is still bytes, and an item of a JSON list may be anything. An empty cell of a CSV
    file is None.

    Args:
        columns: The columns to read of a Parquet file if they exist; all of them if None.
        needed: The columns without which a CSV file is refused.
    """
    match kind:
        case "csv":
            rows = csv_rows(path, needed=needed)
            return ((at, {name: _cell(cell) for name, cell in row.items()}) for at, row in rows)
        case "parquet":
            return parquet_rows(path, columns)
        case "xlsx":
            return _xlsx_rows(path)
        case "json list":
            return read_json_list(path)
        case "json object":
            return [(path.name, _load_as("a JSON object", path))]
        case "json lines":
            return numbered_lines(path)


def _cell(cell: Json) -> Json:
    return cell if isinstance(cell, str) and cell.strip() else None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with reading(path, "a file with rows"), open_input(path, most=MOST_ROWS_BYTES) as file:
        yield file


def _load(path: Path) -> Any:
    with _opened(path) as file:
        content = file.read().removeprefix(BYTE_ORDER_MARK)
    try:
        return json.loads(content.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _load_as(expected: str, path: Path) -> Any:
    with reading(path, f"{expected} in UTF-8"):
        return _load(path)


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_LOOKED_AT = 2**18  # characters; enough for the rows that tell one delimiter from another


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The layout of a file of separated values; `skipped` lines precede its header."""

    encoding: str
    delimiter: str
    skipped: int
    names: tuple[str, ...]
    has_title: bool


def csv_layout(path: Path) -> CsvLayout:
    """Detect the encoding and delimiter, as Excel and others write them.

    The delimiter is the one by which most rows have as many cells as the header. `csv.Sniffer`
    counts characters instead and is misled by answers full of commas.
    """
    encoding = _encoding_of(path)
    with _csv_text(path, encoding) as text:
        beginning = text.read(_LOOKED_AT)
    n_blank = len(beginning) - len(beginning.lstrip("\r\n"))
    above = beginning[:n_blank].count("\n")
    first, _, rest = beginning[n_blank:].partition("\n")
    if match := _DELIMITER_LINE.fullmatch(first):
        beginning, above = rest, above + 1
    else:
        beginning = beginning[n_blank:]
    candidates = match[1] if match else _DELIMITERS
    tables = {each: _first_rows(beginning, each) for each in candidates}
    places = {each: _header_place([row for _, row in tables[each]]) for each in candidates}

    def fit(delimiter: str) -> tuple[bool, int, int]:
        (_, header), *rows = tables[delimiter][places[delimiter] :] or [(0, [])]
        return len(header) > 1, sum(len(row) == len(header) for _, row in rows), len(header)

    delimiter = max(candidates, key=fit)
    table, place = tables[delimiter], places[delimiter]
    line, header = table[place] if table else (0, list[str]())
    names = tuple(map(str.strip, header))
    return CsvLayout(encoding, delimiter, above + line, names, has_title=place > 0)


def _first_rows(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the first rows that are not empty, each with the number of lines before it."""
    csv.field_size_limit(LONGEST_LINE)  # a response may be longer than the 128 KiB allowed
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[tuple[int, list[str]]] = []
    before = 0
    try:
        for row in reader:
            if row:
                rows.append((before, row))
            before = reader.line_num
    except csv.Error:
        return []
    return rows


_WESTERN = "cp1252"


def _encoding_of(path: Path) -> str:
    """Return the encoding of a text: Unicode, or what Excel saves as CSV in western Windows.

    A text that is UTF-8 but for a few bytes is a broken one, and not of another encoding.
    """
    with _opened(path) as file:
        content = file.read(2)
        if content in _UTF_16:
            return "utf-16"
        content += file.read()
        try:
            content.decode()
        except UnicodeDecodeError:
            if any(ord(letter) > 0x7F for letter in content.decode(errors="ignore")):
                raise
            return _WESTERN
    return "utf-8-sig"


@contextmanager
def _csv_text(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    with _opened(path) as file:
        yield io.TextIOWrapper(file, encoding=encoding, newline="")


def csv_rows(path: Path, *, needed: Sequence[str] = ()) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a CSV file, each as an object with the place where it begins (`file:line`).

    Cells may be separated by commas, semicolons, tabs or bars; the text may be UTF-8 or, with a
    byte order mark, UTF-16. A row that is too short has None in its last columns.

    Raises:
        InputError: If the file is not such a CSV, a column is named twice or a needed one is
            missing; after the good rows, with every row that has more cells than the header.
    """
    layout = csv_layout(path)
    if missing := [name for name in needed if name not in layout.names]:
        raise InputError(f"{path}: the header has no {', '.join(missing)}")
    _refuse_twice(path, layout.names)
    problems = Problems(of_file=True)
    with _csv_text(path, layout.encoding) as text:
        for _ in range(layout.skipped):
            text.readline()
        reader = csv.reader(text, delimiter=layout.delimiter, strict=True)
        begins = layout.skipped + 1
        try:
            is_header = True
            for row in reader:
                where, begins = f"{path.name}:{begins}", layout.skipped + reader.line_num + 1
                if not row:
                    continue
                if is_header:
                    is_header = False
                elif any(cell.strip() for cell in row[len(layout.names) :]):
                    problems.add(
                        f"{where}: the row has {len(row)} cells and the header "
                        f"{len(layout.names)}; expected as many; put a text with "
                        f"{layout.delimiter!r} between quotation marks"
                    )
                else:
                    cells = [*row, *[None] * (len(layout.names) - len(row))]
                    yield where, dict(zip(layout.names, cells, strict=False))
        except csv.Error as error:
            raise InputError(
                f"{path.name}:{begins}: the row that begins here cannot be read ({error}); "
                "expected CSV; put a text with a quotation mark between quotation marks, and "
                "double its own"
            ) from None
    problems.raise_if_any()


def read_json_list(path: Path) -> list[tuple[str, object]]:
    """Read the items of a JSON list, each with its place (`file:item N`, from 1)."""
    items = _load_as("a JSON list of objects", path)
    if not isinstance(items, list):
        raise InputError(f"{path}: the file holds {type(items).__name__}; expected a JSON list")
    return [(f"{path.name}:item {number}", item) for number, item in enumerate(items, start=1)]


def arrow_parquet() -> Any:
    """Return `pyarrow.parquet`, whose 30 ms of loading definitions do without."""
    import pyarrow.parquet

    return pyarrow.parquet


def parquet_schema(path: Path) -> pa.Schema:
    """Read the columns of a Parquet file; raise `InputError` if it is not one."""
    with _opened_parquet(path) as file:
        return file.schema_arrow


@contextmanager
def _opened_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file of not too many values: a few bytes can stand for millions of them."""
    pq = arrow_parquet()
    try:
        with open_input(path, most=MOST_ROWS_BYTES) as content, pq.ParquetFile(content) as file:
            footer = file.metadata
            groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
            counts = [
                sum(group.column(place).num_values for group in groups)
                for place in range(footer.num_columns)
            ]
            most = max((footer.num_rows, *counts))
            size = path.stat().st_size
            if most > max(MOST_PARQUET_VALUES, _VALUES_PER_BYTE * size):
                raise InputError(
                    f"{path}: a column of the Parquet file has {most:,} values in {size:,} bytes; "
                    f"expected at most {MOST_PARQUET_VALUES:,}; leave out the empty ones"
                )
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not readable as Parquet ({error}); expected a whole Parquet file; "
            "download or export it again"
        ) from None


def parquet_rows(path: Path, columns: Iterable[str] | None) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a Parquet file, each with its place (`file:row N`).

    Args:
        columns: The columns to read if they exist; all of them if None.
    """
    number = 0
    with _opened_parquet(path) as file:
        names = file.schema_arrow.names
        present = names if columns is None else [name for name in columns if name in names]
        for batch in file.iter_batches(batch_size=4096, columns=present):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}:row {number}", row
