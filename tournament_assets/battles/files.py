"""Files of battles: their first row, their rows, and new files written whole or not at all.

Beside them `elo_ratings.json`, a leaderboard with the keys that JudgeArena's has and no other; a
run of several dimensions has one for each.
"""

import csv
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tournament_assets.tournament.battles import BattleSource, EloReport, RatingSettings
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.json_lines import (
    BYTE_ORDER_MARK,
    LONGEST_LINE,
    numbered_lines,
    parse_object,
)

FileKind = Literal["parquet", "json lines", "json list", "csv"]


@dataclass(frozen=True, slots=True)
class FileSample:
    """What the beginning of a file shows: how its rows are written, and the names of its columns.

    `first` is the first row of a JSON file; nothing for the other kinds.
    """

    kind: FileKind
    columns: frozenset[str]
    first: Mapping[str, Any]


def sample_file(path: Path) -> FileSample:
    """Look at the beginning of a file, whatever its name.

    Raises:
        InputError: If the file cannot be read, is empty, or begins with nothing known.
    """
    with opened(path) as file:
        beginning = file.read(4)
        if beginning == b"PAR1":
            return FileSample("parquet", frozenset(parquet_schema(path).names), {})
    where, line = next(battle_lines(path), ("", b""))
    line = line.strip()
    if not line:
        raise InputError(f"{path}: the file is empty; expected at least one battle")
    if line.startswith(b"["):
        items = read_json_list(path)
        return _json_sample("json list", items[0][1] if items else None, path)
    if line.startswith(b"{"):
        return _json_sample("json lines", parse_object(line, where), path)
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


def _json_sample(kind: FileKind, first: object, path: Path) -> FileSample:
    if not isinstance(first, dict):
        raise InputError(
            f"{path}: the first row is {first!r:.60}; expected a JSON object with a battle"
        )
    return FileSample(kind, frozenset(first), first)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes; `InputError` if that fails."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be read ({error.strerror or type(error).__name__}); "
            "expected a file of battles"
        ) from None


def battle_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Go through the lines of a file of battles, each with where it stands (`file:line`)."""
    return numbered_lines(path, expected="a file of battles, one a line")


def csv_rows(path: Path, *, needed: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Go through the rows of a CSV file, each as an object with where it ends (`file:line`).

    Raises:
        InputError: If the file is no CSV in UTF-8 or a column that is needed is not there.
    """
    with opened(path) as file:
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
    """Read the items of a JSON list, each with where it stands (`file:item N`, from 1).

    Raises:
        InputError: If the file is no JSON list in UTF-8.
    """
    with opened(path) as file:
        content = file.read().removeprefix(BYTE_ORDER_MARK)
    try:
        items = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: the file cannot be read ({str(error)[:200]}); expected a JSON "
            "list of objects in UTF-8"
        ) from None
    if not isinstance(items, list):
        raise InputError(f"{path}: the file holds {type(items).__name__}; expected a JSON list")
    return [(f"{path.name}:item {number}", item) for number, item in enumerate(items, start=1)]


def parquet_schema(path: Path) -> pa.Schema:
    """Read the columns of a Parquet file; `InputError` if it is none."""
    with readable_parquet(path):
        return pq.read_schema(path)


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a broken file into an error for people."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: not readable as Parquet ({error}); expected a whole Parquet file; "
            "download or export it again"
        ) from None


def parquet_rows(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, object]]:
    """Go through the rows that a Parquet file has of some columns, each with its `file:row N`."""
    number = 0
    with readable_parquet(path), pq.ParquetFile(path) as file:
        present = [name for name in wanted if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=present):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}:row {number}", row


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears whole or not at all, a part at a time.

    Raises:
        InputError: If there is such a file already, or nothing can be written there.
    """
    if path.exists():
        raise InputError(
            f"{path}: the file is there already; expected a new name, so that no battles are "
            "lost; remove it or choose another"
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be written ({error.strerror or type(error).__name__}); "
            "expected a folder that can be written to"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_json_list(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON list, one object a line."""
    number = 0
    for number, row in enumerate(rows, start=1):
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        file.write(f"{',' if number > 1 else '['}\n  {text}".encode())
    file.write(b"\n]\n" if number else b"[]\n")


def write_csv(file: BinaryIO, rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str]) -> None:
    """Write CSV in UTF-8 with a header."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a file may not say itself.

    Attributes:
        source: Who decided; None takes the format's word for it.
        judge: The model that judged.
        baseline: The model that every other one was compared with.
        prompt_column: The column, or key, that names the prompt; None for those of the format.
    """

    source: BattleSource | None = None
    judge: str | None = None
    baseline: str | None = None
    prompt_column: str | None = None

    def prompt_names(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the columns that may name the prompt: the usual ones unless somebody says."""
        return usual if self.prompt_column is None else (self.prompt_column,)


@dataclass(frozen=True, slots=True, eq=False)
class BattleFile:
    """What a file of battles holds.

    Attributes:
        format: The format's name.
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        left_out: Comparisons that are no battles, counted by the reason.
        settings: How the battles were rated; None where the file does not say.
    """

    format: str
    table: pa.Table
    left_out: Mapping[str, int]
    settings: RatingSettings | None = None


@dataclass(frozen=True, slots=True)
class WriteReport:
    """How many battles are in a new file, and what is not.

    Battles that the format cannot hold are counted by the reason, and those of which one value
    could not be written by the value's name.
    """

    n_written: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


def encode_elo_reports(reports: Mapping[str, EloReport]) -> dict[str, bytes]:
    """Write leaderboards by dimension as JSON files, by name.

    The first is `elo_ratings.json`, where other tools look for it; its arena names the dimension.
    """
    files = {}
    for number, (dimension, report) in enumerate(reports.items()):
        name = f"elo_ratings_{dimension}.json" if number else "elo_ratings.json"
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        files[name] = f"{text}\n".encode()
    return files
