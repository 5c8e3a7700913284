"""Documents and tables on a terminal, drawn by rich in widths that break no word."""

from dataclasses import replace
from textwrap import wrap
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tournament_assets.reports.rendering import escape_terminal
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable

_GAP = 2


def print_document(document: Document, console: Console) -> None:
    """Print the warnings, the title, and each section's heading, sentences and tables."""
    for warning in document.warnings:
        print_text(warning, console, style="bold red")
        console.print()
    if document.title:
        print_text(document.title, console, style="bold underline")
    for number, section in enumerate(document.sections):
        if number or document.title:
            console.print()
        _print_section(section, console)


def _print_section(section: ReportSection, console: Console) -> None:
    if section.title:
        print_text(section.title, console, style="bold")
    for sentence in section.sentences:
        print_text(sentence, console, style="dim" if section.is_note else "")
    if section.command:
        print_text(section.command, console)
    for heading, table in section.tables:
        print_table(heading, table, console)
    for fold in section.folds:
        console.print()
        _print_section(fold, console)


def print_text(text: str, console: Console, *, style: str = "") -> None:
    """Print a text with control characters made visible and no word broken."""
    for line in escape_terminal(text).split("\n"):
        if max(map(cell_len, line.split()), default=0) <= console.width:
            console.print(Text(line, style=style))
            continue
        # rich would break the word.
        lines = wrap(line, console.width, break_long_words=False, break_on_hyphens=False)
        console.print(Text("\n".join(lines), style=style), overflow="ignore", crop=False)


def print_table(title: str, table: ReportTable, console: Console) -> None:
    """Print a table below an empty line, breaking no word.

    Where its columns do not fit side by side, each row becomes lines `header: value`.

    Args:
        title: What stands above it; nothing if empty.
        table: The table; its control characters are made visible.
    """
    console.print()
    if title:
        print_text(title, console, style="bold")
    headers = tuple(map(escape_terminal, table.headers))
    rows = tuple(
        tuple(escape_terminal(" ".join(text.split())) for text in row) for row in table.rows
    )
    table = replace(table, headers=headers, rows=rows)
    widths = _fitting_widths(table, console.width)
    if not widths:
        for index, row in enumerate(rows):
            if index:
                console.print()
            for header, text in zip(table.names, row, strict=True):
                print_text(f"{header}: {text}", console)
        return
    grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for column, width in enumerate(widths):
        justify: Literal["left", "right"] = "left" if table.is_text(column) else "right"
        grid.add_column(Text(headers[column]), justify=justify, width=width)
    for row in rows:
        grid.add_row(*map(Text, row))
    console.print(grid)


def _fitting_widths(table: ReportTable, width: int) -> list[int]:
    """Return the width of each column; nothing if they do not fit side by side.

    Headers are wrapped first, then texts; numbers stay on one line.
    """
    words, lines, widths = [], [], []
    for header, *cells in zip(table.headers, *table.rows, strict=True):
        words.append(max(map(cell_len, " ".join((header, *cells)).split()), default=1))
        lines.append(max(words[-1], *map(cell_len, cells), 1))
        widths.append(max(lines[-1], *map(cell_len, header.split("\n"))))
    places = range(len(widths))
    least = [words[place] if table.is_text(place) else lines[place] for place in places]
    room = width - _GAP * (len(widths) - 1)
    for floor in (lines, least):
        while sum(widths) > room and widths != floor:
            widest = max(places, key=lambda place: (widths[place] > floor[place], widths[place]))
            widths[widest] -= 1
    return widths if sum(widths) <= room else []
