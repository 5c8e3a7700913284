"""Tables as CSV that a spreadsheet shows and never runs.

A cell that begins like a formula is prefixed with an apostrophe, as OWASP advises:
https://owasp.org/www-community/attacks/CSV_Injection. Numbers are left as they are.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return rows as CSV in UTF-8 with a header; what is None is an empty cell."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([harmless_cell(row[name]) for name in columns] for row in rows)
    return buffer.getvalue().encode("utf-8", errors="backslashreplace")


def harmless_cell(value: Any) -> Any:
    """Return a text so that no spreadsheet takes it for a formula; anything else as it is."""
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.lstrip(" \n").startswith(_FORMULA_SIGNS) else value
