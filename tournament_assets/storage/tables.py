"""The tables that assets exchange: rows, frames, Arrow and Parquet bytes; and traces as npz.

A table is a pandas DataFrame with Arrow-backed columns, so that absent numbers stay absent and
integers stay integers when written and read. Tables that grow with the square of the number of
entrants are never whole in memory: they are written row by row (`write_table`), passed on as files,
and read some rows at a time. Equal tables and traces give equal bytes, and nothing is ever
unpickled.

The Arrow schema of a table is derived from its row's class.
"""

from __future__ import annotations

import hashlib
import io
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import pandas as pd
import pyarrow as pa
import upath

from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.atomic_files import WaitingContent
from tournament_assets.storage.row_files import arrow_parquet
from tournament_assets.tournament.asset_rows import ResponseRow
from tournament_assets.tournament.prompts import OfSample, without_time

_KINDS: Mapping[Any, str] = {
    str: "string",
    int: "int64",
    float: "double",
    bool: "bool",
    tuple[str, ...]: "list<item: string>",
    tuple[float, ...]: "list<item: double>",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as its row class declares it.

    Attributes:
        name: The field's name.
        kind: The name of its Arrow type.
        is_nullable: Whether a value may be absent.
        description: The meaning of the column; may be empty.
        words: The only words that it may hold, if it is limited to some.
    """

    name: str
    kind: str
    is_nullable: bool
    description: str
    words: type[StrEnum] | None = None


@cache
def columns_of(row_type: type) -> tuple[Column, ...]:
    """Return a table's columns without loading Arrow: one for each field, in field order."""
    if not is_dataclass(row_type):
        raise TypeError(f"{row_type!r} is not a dataclass; expected the class of a table's rows")
    hints = get_type_hints(row_type, include_extras=True)
    return tuple(_column(each.name, hints[each.name]) for each in fields(row_type))


def _column(name: str, hint: Any) -> Column:
    kind, description, *_ = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
    nullable = get_origin(kind) in (types.UnionType, Union) and type(None) in get_args(kind)
    if nullable:
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Column(name, "string", nullable, description, kind)
    if kind not in _KINDS:
        raise TypeError(f"column {name!r} has type {kind!r}; expected one of {[*map(str, _KINDS)]}")
    return Column(name, _KINDS[kind], nullable, description)


@cache
def _text_names(row_type: type) -> tuple[str, ...]:
    return tuple(each.name for each in columns_of(row_type) if each.kind == "string")


def derive_schema(row_type: type) -> pa.Schema:
    """Return a table's Arrow schema: one column per field, nullable if its type allows None."""
    return _schema_of(columns_of(row_type))


@cache
def _schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    kinds = _arrow_types()
    return pa.schema(
        [
            pa.field(
                each.name,
                kinds[each.kind],
                nullable=each.is_nullable,
                metadata={"description": each.description} if each.description else None,
            )
            for each in columns
        ]
    )


@cache
def _arrow_types() -> Mapping[str, pa.DataType]:
    lists = (pa.list_(pa.string()), pa.list_(pa.float64()))
    return {str(each): each for each in (pa.string(), pa.int64(), pa.float64(), pa.bool_(), *lists)}


RowT = TypeVar("RowT")

_PART_ROWS = 8_192
_PART_CHARACTERS = 32_000_000
_LONG_ROW_CHARACTERS = 1_000_000
_READ_ROWS = 1_024


def make_table(row_type: type[RowT], rows: Sequence[RowT]) -> pd.DataFrame:
    """Build a table from its rows.

    Raises:
        TypeError: If a row is of another class.
        ValueError: If a required value is absent.
    """
    return _to_frame(_from_rows(row_type, rows))


def _from_rows(row_type: type, rows: Sequence[Any]) -> pa.Table:
    for row in rows:
        if type(row) is not row_type:
            raise TypeError(
                f"a row of the table is a {type(row).__name__}; expected {row_type.__name__}"
            )
    schema = derive_schema(row_type)
    columns = {each: [getattr(row, each) for row in rows] for each in schema.names}
    return _validated(row_type, pa.Table.from_pydict(columns, schema=schema))


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTable(Generic[RowT]):
    """A table that was written part by part and waits to be stored.

    Attributes:
        row_type: The class of its rows.
        version: SHA-256 of its contents, as from `content_version`.
        content: The Parquet file.
    """

    row_type: type[RowT]
    n_rows: int
    version: str
    content: WaitingContent = field(repr=False)

    def __len__(self) -> int:
        return self.n_rows


class StoredTable:
    """A table in a Parquet file that is read some rows at a time.

    If the file is replaced meanwhile, the version that was opened is read to its end.

    Args:
        row_type: The class of its rows.
        path: The file, in a local folder or in an object store.
    """

    def __init__(self, row_type: type, path: Path | upath.UPath) -> None:
        is_remote = isinstance(path, upath.UPath) and path.protocol not in ("", "file", "local")
        # A local file is opened by Arrow, which reads anywhere without moving a cursor.
        self._source = path.open("rb") if is_remote else pa.OSFile(str(path), "rb")
        self._row_type = row_type
        with _open_parquet(self._source) as file:
            _check_columns(row_type, file.schema_arrow)
            self._n_rows: int = file.metadata.num_rows

    def __len__(self) -> int:
        return self._n_rows

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, in the declared schema, some at a time.

        Args:
            columns: Read only these, in this order; all unless given.
        """
        schema = derive_schema(self._row_type)
        selected = pa.schema([schema.field(name) for name in columns or schema.names])
        with _open_parquet(self._source) as file:
            # One row group at a time: a batch across several would hold a whole report's pages.
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(
                    _READ_ROWS, row_groups=[group], columns=selected.names, use_threads=False
                ):
                    yield batch.select(selected.names).cast(selected)

    def arrow(self) -> pa.Table:
        """Return the whole table as Arrow; for tables known to be small."""
        return pa.Table.from_batches(self.batches(), schema=derive_schema(self._row_type))

    def frame(self) -> pd.DataFrame:
        """Return the whole table as a DataFrame; for tables known to be small."""
        return _to_frame(self.arrow())


AnyTable: TypeAlias = "pd.DataFrame | StoredTable"
LoadedTable: TypeAlias = "AnyTable | Mapping[str, AnyTable]"
"""A table as an asset gets it: whole, or by entrant or dimension in config order."""


def write_table(row_type: type[RowT], rows: Iterable[RowT]) -> WrittenTable[RowT]:
    """Write a table as its rows come; equal rows give equal bytes."""
    pq = arrow_parquet()
    schema = derive_schema(row_type)
    plain = _without_descriptions(schema)
    hashed = _Hashed()
    content = WaitingContent()
    n_rows = 0
    with (
        pq.ParquetWriter(content.file, schema, compression="zstd") as parquet,
        pa.ipc.new_stream(hashed, plain) as stream,
    ):
        for part in _parts(rows):
            table = _from_rows(row_type, part)
            # Otherwise this name would keep the old rows while the next part's are made.
            part.clear()
            parquet.write_table(table)
            stream.write_table(table.cast(plain))
            n_rows += table.num_rows
            # Nor may this part be kept while the next one is made.
            del table
    return WrittenTable(row_type, n_rows, hashed.hexdigest(), content)


def rows_of(row_type: type[RowT], table: AnyTable, *, shares_texts: bool = False) -> Iterator[RowT]:
    """Yield a table's rows, one at a time.

    Args:
        row_type: The table's row class, or a dataclass of the only fields to read.
        table: The table, in memory or in its file.
        shares_texts: Whether equal texts share one object, for rows that are kept.
    """
    schema = derive_schema(row_type)
    if isinstance(table, StoredTable):
        batches = table.batches(schema.names)
    else:
        missing = set(schema.names) - set(table.columns)
        if missing:
            raise ValueError(
                f"the table has columns {list(table.columns)!r}; {row_type.__name__} needs "
                f"{sorted(missing)!r} too"
            )
        arrow = pa.Table.from_pandas(table[schema.names], schema=schema, preserve_index=False)
        batches = iter(_validated(row_type, arrow).to_batches(_READ_ROWS))
    texts: dict[str, str] = {}
    words_of = _words_of(row_type)
    for batch in batches:
        columns = [
            _values(column, texts if shares_texts else None, words)
            for column, words in zip(batch.columns, words_of, strict=True)
        ]
        for values in zip(*columns, strict=True):
            yield row_type(**dict(zip(schema.names, values, strict=True)))


def values_of(row: Any) -> dict[str, Any]:
    """Return a table row's values by column; they are plain, so nothing of them is copied."""
    return {each.name: getattr(row, each.name) for each in fields(row)}


def parts_of(table: LoadedTable) -> list[AnyTable]:
    """Return the tables of all partitions."""
    return [*table.values()] if isinstance(table, Mapping) else [table]


def rows_of_all(row_type: type[RowT], table: LoadedTable) -> list[RowT]:
    """Return the rows of all partitions."""
    return [row for part in parts_of(table) for row in rows_of(row_type, part)]


def rows_by_name(row_type: type[RowT], table: LoadedTable) -> dict[str, list[RowT]]:
    """Return the rows by partition, or those of a whole table by dimension."""
    if isinstance(table, Mapping):
        return {name: [*rows_of(row_type, part)] for name, part in table.items()}
    by_name: dict[str, list[RowT]] = {}
    for row in rows_of(row_type, table):
        by_name.setdefault(getattr(row, "dimension"), []).append(row)  # noqa: B009
    return by_name


def judge_models_of(verdicts: AnyTable) -> set[str]:
    """Return the models that gave the verdicts of the table `judge_verdicts`."""
    return set(texts_of(verdicts, "settled_by"))


def texts_of(table: AnyTable, column: str) -> Iterator[str]:
    """Yield the values of a text column, which may not be absent; no other column is read."""
    if isinstance(table, StoredTable):
        for batch in table.batches([column]):
            yield from batch.column(0).to_pylist()
    else:
        yield from table[column]


def _words_of(row_type: type) -> list[type[StrEnum] | None]:
    return [each.words for each in columns_of(row_type)]


def _values(
    column: pa.Array, texts: dict[str, str] | None, words: type[StrEnum] | None
) -> list[Any]:
    values = column.to_pylist()
    if words is not None:
        by_value = {word.value: word for word in words}
        return [value if value is None else by_value[value] for value in values]
    if texts is not None and pa.types.is_string(column.type):
        return [each if each is None else texts.setdefault(each, each) for each in values]
    return [*map(tuple, values)] if pa.types.is_list(column.type) else values


PairKey = tuple[str, int, str, str]


class OfPair(OfSample, Protocol):
    """A row about a pair."""

    @property
    def entrant_a(self) -> str:
        """The first entrant."""
        ...

    @property
    def entrant_b(self) -> str:
        """The second."""
        ...


PairT = TypeVar("PairT", bound=OfPair)
OtherPairT = TypeVar("OtherPairT", bound=OfPair)


def pair_key(row: OfPair) -> PairKey:
    """Return the key of a row's pair within a dimension: prompt, sample and two entrants."""
    return row.prompt_id, row.sample, row.entrant_a, row.entrant_b


def join_pairs(
    rows: Iterable[PairT], others: Iterable[OtherPairT]
) -> Iterator[tuple[PairT, list[OtherPairT]]]:
    """Yield every row of one table with the rows of another about the same pair.

    The graph's tables hold their pairs in the same order, so only rows that come early are kept.

    Args:
        rows: Rows of one dimension, each about a pair.
        others: Rows of the same dimension; those about one pair are adjacent.
    """
    early: dict[PairKey, list[OtherPairT]] = {}
    groups = groupby(others, key=pair_key)
    for row in rows:
        key = pair_key(row)
        matches = early.pop(key, None)
        while matches is None and (following := next(groups, None)) is not None:
            pair, members = following
            if pair == key:
                matches = list(members)
            else:
                early[pair] = list(members)
        yield row, matches or []


def _parts(rows: Iterable[RowT]) -> Iterator[list[RowT]]:
    """Split rows into at least one part, each limited in rows and in characters.

    A row as long as a page of battles ends its part, because a writer holds a part several times.
    """
    part: list[RowT] = []
    size = 0
    is_first = True
    for row in rows:
        part.append(row)
        values = (getattr(row, name) for name in _text_names(type(row)))
        length = sum(map(len, filter(None, values)))
        size += length
        is_full = len(part) == _PART_ROWS or size >= _PART_CHARACTERS
        if is_full or length >= _LONG_ROW_CHARACTERS:
            yield part
            part, size, is_first = [], 0, False
    if part or is_first:
        yield part


class _Hashed(io.RawIOBase):
    """A file object that keeps only the hash of what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _without_descriptions(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.remove_metadata() for each in schema])


def to_arrow(row_type: type, frame: pd.DataFrame) -> pa.Table:
    """Convert a table to Arrow, in its declared schema."""
    schema = derive_schema(row_type)
    if list(frame.columns) != schema.names:
        raise ValueError(
            f"a table of {row_type.__name__} has columns {list(frame.columns)!r}; "
            f"expected {schema.names!r}"
        )
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    return _validated(row_type, table.replace_schema_metadata(None))


def _validated(row_type: type, table: pa.Table) -> pa.Table:
    for column in table.schema:
        if not column.nullable and table.column(column.name).null_count:
            raise ValueError(
                f"a table of {row_type.__name__} has absent values in column {column.name!r}; "
                "expected none"
            )
    return table


def _to_frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def encode_parquet(row_type: type, frame: pd.DataFrame) -> bytes:
    """Write a table as Parquet; equal tables give equal bytes."""
    pq = arrow_parquet()
    buffer = io.BytesIO()
    pq.write_table(to_arrow(row_type, frame), buffer, compression="zstd")
    return buffer.getvalue()


def decode_parquet(row_type: type, content: bytes) -> pd.DataFrame:
    """Read a table from Parquet.

    Raises:
        ValueError: If the file's columns are not the table's.
    """
    # In this thread only: an Arrow thread that releases Python's bytes while the interpreter ends
    # would abort the process.
    file = _open_parquet(pa.BufferReader(content))
    table, schema = file.read(use_threads=False), derive_schema(row_type)
    _check_columns(row_type, table.schema)
    return _to_frame(table.select(schema.names).cast(schema))


def _open_parquet(source: Any) -> Any:
    pq = arrow_parquet()
    return pq.ParquetFile(source, pre_buffer=False)


def _check_columns(row_type: type, schema: pa.Schema) -> None:
    expected = derive_schema(row_type).names
    if schema.names != expected:
        raise ValueError(
            f"a stored table of {row_type.__name__} has columns {schema.names!r}; "
            f"expected {expected!r}; it is of another version: materialise the asset again"
        )


def content_version(row_type: type, table: AnyTable) -> str:
    """Return the SHA-256 of a table's contents, however it is stored.

    Response times are left out: the same response, generated again, counts as the same.
    """
    # Arrow keeps arbitrary bytes where values are absent or sliced away; new arrays have none.
    columns = _without_descriptions(derive_schema(row_type))
    rows: Iterator[Any] = rows_of(row_type, table)
    hashed = _Hashed()
    with pa.ipc.new_stream(hashed, columns) as stream:
        for part in _parts(map(_unmeasured, rows) if row_type is ResponseRow else rows):
            stream.write_table(_from_rows(row_type, part).cast(columns))
            part.clear()
    return hashed.hexdigest()


def _unmeasured(row: ResponseRow) -> ResponseRow:
    return replace(row, diagnostics=without_time(row.diagnostics))


def encode_npz(traces: EloTraces) -> bytes:
    """Write rating traces as an npz archive."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        ratings=traces.ratings,
        entrants=np.array(traces.entrants, dtype=np.str_),
        matches_per_entrant=traces.matches_per_entrant,
        k_factor=np.float64(traces.k_factor),
        seed=np.int64(traces.seed),
        initial_rating=np.float64(traces.initial_rating),
    )
    return buffer.getvalue()


def decode_npz(content: bytes) -> EloTraces:
    """Read rating traces from an npz archive."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return EloTraces(
            entrants=tuple(str(entrant) for entrant in archive["entrants"]),
            ratings=archive["ratings"],
            matches_per_entrant=archive["matches_per_entrant"],
            k_factor=float(archive["k_factor"]),
            seed=int(archive["seed"]),
            initial_rating=float(archive["initial_rating"]),
        )
