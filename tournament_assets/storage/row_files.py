"""Reading files of rows, whatever their name: their format, and each row with its place.

JSON lines, a JSON list, a JSON object, CSV or Parquet, recognised by the file's beginning.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa

from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.json_lines import (
    BYTE_ORDER_MARK,
    LONGEST_LINE,
    JsonObject,
    numbered_lines,
    parse_object,
    read_json_lines,
    refuse_half_characters,
)

_LISTED_PROBLEMS = 50
FileKind = Literal["parquet", "json lines", "json list", "json object", "csv"]


@dataclass(frozen=True, slots=True)
class FileSample:
    """What the beginning of a file shows: the format of its rows and the names of its columns.

    `first` is the first row of a JSON file; nothing for the other kinds.
    """

    kind: FileKind
    columns: frozenset[str]
    first: JsonObject


def sample_file(path: Path) -> FileSample:
    """Look at the beginning of a file, whatever its name.

    Raises:
        InputError: If the file cannot be read, is empty, or has an unknown format.
    """
    with _opened(path) as file:
        beginning = file.read(4)
    if beginning == b"PAR1":
        return FileSample("parquet", frozenset(parquet_schema(path).names), {})
    if beginning == b"PK\x03\x04":
        raise InputError(
            f"{path}: the file is a ZIP archive; expected Parquet, JSON or CSV; unpack it, or "
            "write a .eval log of inspect as JSON (inspect log convert --to json)"
        )
    where, line = next(numbered_lines(path), ("", b""))
    line = line.strip()
    if not line:
        raise InputError(f"{path}: the file is empty; expected at least one row")
    if line.startswith(b"["):
        items = read_json_list(path)
        return _json_sample("json list", items[0][1] if items else None, path)
    if line.startswith(b"{"):
        return _sample_objects(path, where, line)
    try:
        header = line.decode().strip().split(",")
    except UnicodeDecodeError:
        header = []
    if len(header) < 2:
        raise InputError(
            f"{path}: the file begins with {line[:40]!r}; expected Parquet, JSON lines, a JSON "
            "list, or CSV with a header"
        )
    return FileSample("csv", frozenset(name.strip().strip('"') for name in header), {})


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
        kind: The format of its rows, as `sample_file` says; a JSON object is one row.

    Raises:
        InputError: If it cannot be read, a row is not a JSON object, or a text has a lone
            surrogate.
    """
    if kind == "json lines":
        return read_json_lines(path)
    if kind == "parquet":
        return [(where, dict(row)) for where, row in parquet_rows(path, None)]
    if kind == "csv":
        rows = csv_rows(path)
        return [(at, {name: cell or None for name, cell in row.items()}) for at, row in rows]
    items = read_json_list(path) if kind == "json list" else [(path.name, _load_object(path))]
    problems = Problems(listed=_LISTED_PROBLEMS)
    found: list[tuple[str, JsonObject]] = []
    for where, item in items:
        if not isinstance(item, dict):
            problems.add(f"{where}: the row is {item!r:.60}; expected a JSON object")
            continue
        with problems.collected():
            refuse_half_characters(item, where)
            found.append((where, item))
    problems.raise_if_any()
    return found


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be read ({error.strerror or type(error).__name__}); "
            "expected a file with rows"
        ) from None


def _load(path: Path) -> Any:
    with _opened(path) as file:
        content = file.read().removeprefix(BYTE_ORDER_MARK)
    try:
        return json.loads(content.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _load_object(path: Path) -> Any:
    try:
        return _load(path)
    except ValueError as error:
        raise InputError(
            f"{path}: the file cannot be read ({str(error)[:200]}); expected a JSON object in UTF-8"
        ) from None


def csv_rows(path: Path, *, needed: Sequence[str] = ()) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a CSV file, each as an object with the place of its end (`file:line`).

    Raises:
        InputError: If the file is not CSV in UTF-8 or a needed column is missing.
    """
    with _opened(path) as file:
        try:
            csv.field_size_limit(LONGEST_LINE)  # a response may be longer than the 128 KiB allowed
            reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}: the header has no {', '.join(missing)}")
            for row in reader:
                yield f"{path.name}:{reader.line_num}", row
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(
                f"{path}: the file cannot be read ({error}); expected CSV in UTF-8"
            ) from None


def read_json_list(path: Path) -> list[tuple[str, object]]:
    """Read the items of a JSON list, each with its place (`file:item N`, from 1).

    Raises:
        InputError: If the file is not a JSON list in UTF-8.
    """
    try:
        items = _load(path)
    except ValueError as error:
        raise InputError(
            f"{path}: the file cannot be read ({str(error)[:200]}); expected a JSON "
            "list of objects in UTF-8"
        ) from None
    if not isinstance(items, list):
        raise InputError(f"{path}: the file holds {type(items).__name__}; expected a JSON list")
    return [(f"{path.name}:item {number}", item) for number, item in enumerate(items, start=1)]


def parquet_schema(path: Path) -> pa.Schema:
    """Read the columns of a Parquet file; raise `InputError` if it is not one."""
    import pyarrow.parquet as pq

    with readable_parquet(path):
        return pq.read_schema(path)


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """Turn Arrow's error about a broken file into an error for users."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not readable as Parquet ({error}); expected a whole Parquet file; "
            "download or export it again"
        ) from None


def parquet_rows(path: Path, wanted: Iterable[str] | None) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a Parquet file, each with its place (`file:row N`).

    Args:
        wanted: The columns to read if they exist; all of them if None.
    """
    import pyarrow.parquet as pq

    number = 0
    with readable_parquet(path), pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        present = names if wanted is None else [name for name in wanted if name in names]
        for batch in file.iter_batches(columns=present):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}:row {number}", row
