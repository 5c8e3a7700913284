"""Prints tables, and sections of sentences and tables, on a terminal.

Tables as CSV that a spreadsheet shows and never runs.

A cell that begins like a formula is prefixed with an apostrophe, as OWASP advises:
https://owasp.org/www-community/attacks/CSV_Injection. Numbers are left as they are.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.rendering import ReportSection, ReportTable

if TYPE_CHECKING:
    from rich.console import Console


def print_sections(title: str, sections: Sequence[ReportSection], console: "Console") -> None:
    """Print a title, then each section: its heading, its sentences, its tables.

    Args:
        title: What it is all about.
        sections: The sections.
        console: Where to print.
    """
    from rich.text import Text

    console.print(Text(shown(title), style="bold underline"))
    for section in sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        for sentence in section.sentences:
            console.print(Text(shown(sentence)))
        for heading, cells in section.tables:
            print_table(heading, cells, console)


def print_table(title: str, cells: ReportTable, console: "Console") -> None:
    """Print a table below an empty line.

    Args:
        title: What stands above it; nothing if empty.
        cells: The table; what would steer the terminal is shown instead.
        console: Where to print.
    """
    # Imported here, so that loading the definitions does not pay for it.
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, header in enumerate(cells.headers):
        is_label = index < cells.n_labels
        table.add_column(header, justify="left" if is_label else "right", overflow="fold")
    for texts in cells.rows:
        table.add_row(*(Text(shown(text)) for text in texts))
    console.print()
    console.print(table)


def shown(text: str) -> str:
    """Return a text in which what would steer a terminal can be seen and does nothing."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


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
