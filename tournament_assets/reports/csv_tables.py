"""Tables as the CSV files of a run, and read back from them."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tournament_assets.foundation.errors import InputError
from tournament_assets.reports.rendering import unescape_csv
from tournament_assets.reports.report_tables import table_csv
from tournament_assets.storage.row_files import csv_rows
from tournament_assets.storage.tables import Column, columns_of, make_table

_READERS: Mapping[str, Callable[[str], Any]] = {
    "int64": int,
    "double": float,
    "string": unescape_csv,
    "list<item: string>": lambda cell: _names(unescape_csv(cell)),
}


def write_csv_table(row_type: type, rows: Iterable[Any]) -> bytes:
    """Return every column of a table as CSV."""
    columns = [column.name for column in columns_of(row_type)]
    return table_csv(columns, ([getattr(row, name) for name in columns] for row in rows))


def read_csv_table(row_type: type, path: Path) -> pd.DataFrame:
    """Read a table as `write_csv_table` writes it; an empty cell is absent.

    Raises:
        InputError: If the file is missing, lacks a column, or a cell is not of its column.
    """
    columns = columns_of(row_type)
    try:
        rows = csv_rows(path, needed=[column.name for column in columns])
        return make_table(
            row_type, [row_type(**{c.name: _value(c, cells) for c in columns}) for _, cells in rows]
        )
    except (InputError, ValueError) as error:
        raise InputError(
            f"{path}: {str(error).removeprefix(f'{path}: ')[:300]}; expected the table as this "
            "version writes it; run the mode again, which sends no request"
        ) from None


def _names(cell: str) -> tuple[str, ...]:
    return tuple(json.loads(cell) if cell.startswith("[") else cell.split())


def _value(column: Column, cells: Mapping[str, Any]) -> Any:
    cell = cells[column.name] or ""
    return _READERS[column.kind](cell) if cell or not column.is_nullable else None
