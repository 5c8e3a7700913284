"""Rows of tables as plain values, which tests compare with what is written out."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from tournament_assets.graph.table import row_of
from tournament_assets.storage.tables import AnyTable, StoredTable, make_table, rows_of


def table_rows(row_type: type, table: AnyTable) -> list[dict[str, Any]]:
    """A table's rows as plain Python values."""
    rows: Iterable[Any] = rows_of(row_type, table)
    return [
        {
            column: list(value) if isinstance(value, tuple) else value
            for column, value in asdict(row).items()
        }
        for row in rows
    ]


def stored_rows(name: str, path: Path) -> list[dict[str, Any]]:
    """The rows of an asset's stored table as plain Python values."""
    row_type = row_of(name).row_type
    return table_rows(row_type, StoredTable(row_type, path))


def typed_rows(row_type: type, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Rows of the table's class from their columns."""
    return [
        row_type(
            **{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()}
        )
        for row in rows
    ]


def table_of(row_type: type, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table from its rows' columns."""
    return make_table(row_type, typed_rows(row_type, rows))
