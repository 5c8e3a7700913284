"""What an asset's function returns, in plain values without Dagster's types.

A value, its metadata, and its checks' results.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pandas as pd

from tournament_assets.foundation.fingerprints import short
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.graph.rows import AssetRow
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.reports.report_tables import ReportTable, table_markdown
from tournament_assets.storage.atomic_files import write_atomically, write_bytes_atomically
from tournament_assets.storage.tables import (
    StoredTable,
    WrittenTable,
    content_version,
    decode_npz,
    decode_parquet,
    encode_npz,
    encode_parquet,
    make_table,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from upath import UPath

AnyRow: TypeAlias = "DataclassInstance | JsonObject"
Value = TypeVar("Value")
Kept = TypeVar("Kept")
ShownT = TypeVar("ShownT", bound="AnyRow")

_SHOWN_ROWS = 8
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Markdown:
    """A text that the UI shows as Markdown; everything in it that a model wrote is escaped."""

    text: str


Metadata: TypeAlias = Mapping[str, "Json | Path | Markdown"]
"""What the UI shows, by name."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    Attributes:
        name: The check's name, as its asset's row has it.
        passed: Whether it is green.
        description: The result in a sentence.
        metadata: The numbers behind it.
        is_error: Whether it stops what comes next, where it is a blocking check.
    """

    name: str
    passed: bool
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False

    @property
    def sentence(self) -> str:
        """What it found, after its name."""
        return f"{self.name}: {self.description}"


@dataclass(frozen=True, slots=True)
class Made(Generic[Value]):
    """What an asset's function made.

    Attributes:
        value: What is stored: rows, a table, a table already written, arrays, or nothing.
        metadata: What the UI shows of it, by name; a path is shown as one.
        checks: What its checks found.
        version: Hash of the contents, if it does not follow from `value`.
    """

    value: Value
    metadata: Mapping[str, Any]
    checks: Sequence[Check] = ()
    version: str | None = None


def as_stored(made: Made[Any], row: AssetRow) -> Made[Any]:
    """Return a value in its stored form: a table of the rows, with the contents' version.

    Args:
        made: What an asset's function returned.
        row: The asset's row.
    """
    value, version, counted = made.value, made.version, {}
    if row.is_table:
        if isinstance(value, WrittenTable):
            version = value.version
        elif not isinstance(value, pd.DataFrame):
            value = make_table(row.row_type, value)
        version = version or content_version(row.row_type, value)
        counted = {"dagster/row_count": len(value)}
    if version is None:
        raise TypeError(f"{row.name} says no version of what it made; expected a hash")
    metadata = {**made.metadata, **counted, "content_hash": short(version)}
    return Made(value, metadata, made.checks, version)


def write_stored(row: AssetRow, value: Any, path: "Path | UPath") -> None:
    """Write a value in its stored form as its file, whole or not at all."""
    if isinstance(value, WrittenTable):
        write_atomically(path, value.content.copy_to)
    else:
        is_arrays = row.stored_as == "arrays"
        content = encode_npz(value) if is_arrays else encode_parquet(row.row_type, value)
        write_bytes_atomically(path, content)


def read_stored(row: AssetRow, path: "Path | UPath") -> Any:
    """Return what a file holds; a stream as the file, which is never loaded as a whole."""
    if row.stored_as == "arrays":
        return decode_npz(path.read_bytes())
    if row.stored_as == "stream":
        return StoredTable(row.row_type, path)
    return decode_parquet(row.row_type, path.read_bytes())


class Shown(Generic[ShownT]):
    """The first rows of a table that is streamed, for the UI.

    Args:
        rows: The table's rows.
        columns: What is shown of them.
    """

    def __init__(self, rows: Iterable[ShownT], columns: Sequence[str]) -> None:
        self._rows = rows
        self._columns = columns
        self._first: list[ShownT] = []
        self._count = 0

    def __iter__(self) -> Iterator[ShownT]:
        for row in self._rows:
            self._count += 1
            if self._count <= _SHOWN_ROWS:
                self._first.append(row)
            yield row

    @property
    def markdown(self) -> Markdown:
        """The first of the rows that passed, and how many more there were."""
        return markdown_table(self._first, self._columns, total=self._count)


def markdown_table(
    rows: Sequence[AnyRow],
    columns: Sequence[str],
    *,
    limit: int = _SHOWN_ROWS,
    total: int | None = None,
) -> Markdown:
    """Return the first rows of a table as Markdown that the UI shows at once.

    Cells are escaped: a model's words can neither break the table nor bring HTML into the page.

    Args:
        rows: The rows, or the first of them.
        columns: What is shown of them.
        limit: How many are shown.
        total: How many rows there are; as many as were given by default.
    """
    shown = tuple(tuple(_cell(_value(row, name)) for name in columns) for row in rows[:limit])
    text = table_markdown(ReportTable(tuple(columns), shown, n_labels=len(columns)))
    more = (len(rows) if total is None else total) - limit
    return Markdown(f"{text}\n… and {more} more rows" if more > 0 else text)


def report_table(table: ReportTable) -> Markdown:
    """Show a report's table, whole."""
    rows = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    return markdown_table(rows, table.headers, limit=len(rows))


def markdown_list(sentences: Iterable[str]) -> Markdown:
    """Show sentences where a reader of the UI sees them at once; they are escaped."""
    return Markdown("\n".join(f"- {escape_markdown(each)}" for each in sentences))


def known(values: Mapping[str, Kept | None]) -> dict[str, Kept]:
    """Return the values that are not None, as the UI plots only numbers."""
    return {name: value for name, value in values.items() if value is not None}


def _value(row: AnyRow, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"
    text = " ".join(str(value).split())
    return f"{text[: _SHOWN_CHARACTERS - 1]}…" if len(text) > _SHOWN_CHARACTERS else text
