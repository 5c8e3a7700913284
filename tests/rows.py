"""Rows of tables as plain values, which tests compare with what is written out."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from tournament_assets.storage.tables import ROW_TYPES, AnyTable, make_table, rows_of


def table_rows(name: str, table: AnyTable) -> list[dict[str, Any]]:
    """A table's rows as plain Python values."""
    rows: Iterable[Any] = rows_of(ROW_TYPES[name], table)
    return [
        {
            column: list(value) if isinstance(value, tuple) else value
            for column, value in asdict(row).items()
        }
        for row in rows
    ]


def typed_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Rows of the table's class from their columns."""
    return [
        ROW_TYPES[name](
            **{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()}
        )
        for row in rows
    ]


def table_of(name: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table from its rows' columns."""
    return make_table(name, typed_rows(name, rows))
