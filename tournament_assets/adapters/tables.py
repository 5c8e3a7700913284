"""The tables that travel between assets: rows, frames, Arrow, and Parquet bytes.

A table is a pandas DataFrame with Arrow-backed columns, so that an absent number stays absent and
an integer stays an integer on the way through a file.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tournament_assets.adapters.table_schemas import SCHEMAS
from tournament_assets.tournament.fingerprints import fingerprint_bytes


def make_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Build a table from its rows.

    Args:
        name: The asset's name, which chooses the schema.
        rows: One mapping a row; every column that may not be absent must be there.

    Raises:
        ValueError: If a row has an unknown column, or misses one that may not be absent.
    """
    schema = SCHEMAS[name]
    for row in rows:
        unknown = row.keys() - set(schema.names)
        if unknown:
            raise ValueError(f"table {name!r} has no column {sorted(unknown)!r}")
    return _to_frame(_validated(name, pa.Table.from_pylist(list(rows), schema=schema)))


def table_rows(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as plain Python values."""
    rows: list[dict[str, Any]] = to_arrow(name, frame).to_pylist()
    return rows


def to_arrow(name: str, frame: pd.DataFrame) -> pa.Table:
    """Convert a table to Arrow, in its declared schema.

    Raises:
        ValueError: If a column is missing or unknown, or absent values stand where none may.
    """
    schema = SCHEMAS[name]
    if list(frame.columns) != schema.names:
        raise ValueError(
            f"table {name!r} has columns {list(frame.columns)!r}; expected {schema.names!r}"
        )
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    return _validated(name, table.replace_schema_metadata(None))


def _validated(name: str, table: pa.Table) -> pa.Table:
    for field in table.schema:
        if not field.nullable and table.column(field.name).null_count:
            raise ValueError(
                f"table {name!r} has absent values in column {field.name!r}; expected none"
            )
    return table


def _to_frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def encode_parquet(name: str, frame: pd.DataFrame) -> bytes:
    """Write a table as Parquet; equal tables give equal bytes."""
    buffer = io.BytesIO()
    pq.write_table(to_arrow(name, frame), buffer, compression="zstd")
    return buffer.getvalue()


def decode_parquet(name: str, content: bytes) -> pd.DataFrame:
    """Read a table from Parquet.

    Raises:
        ValueError: If the file's columns are not the table's.
    """
    table = pq.read_table(io.BytesIO(content))
    schema = SCHEMAS[name]
    if table.schema.names != schema.names:
        raise ValueError(
            f"a stored table {name!r} has columns {table.schema.names!r}; "
            f"expected {schema.names!r}; it is of another version: materialise the asset again"
        )
    return _to_frame(table.cast(schema))


def content_version(name: str, frame: pd.DataFrame) -> str:
    """Return SHA-256 of a table's contents, whatever file it is kept in."""
    # Arrow keeps arbitrary bytes where a value is absent or sliced away; new arrays have none.
    columns = pa.schema([field.remove_metadata() for field in SCHEMAS[name]])
    table = pa.Table.from_pylist(table_rows(name, frame), schema=columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return fingerprint_bytes(sink.getvalue())
