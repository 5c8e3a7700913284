"""Reads the tables of Markdown, HTML and LaTeX as texts, whatever they are about."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass(slots=True)
class PrintedTable:
    """A table as it is printed.

    Attributes:
        title: Its caption, or the heading or line above it.
        headers: The names of its columns; empty if it has none.
        rows: The texts of its cells, row by row.
    """

    title: str = ""
    headers: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def markdown_tables(text: str) -> Iterator[PrintedTable]:
    """Yield the tables of a Markdown file, each with the heading above it."""
    title, table = "", PrintedTable()
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            title = line.lstrip("# ")
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            table.rows.append([re.sub(r"\\(.)", r"\1", cell).strip() for cell in cells])
        elif table.rows:
            # The second line only aligns the columns.
            headers, _, *rows = table.rows
            yield PrintedTable(title, headers, rows)
            table = PrintedTable()


def latex_tables(text: str) -> Iterator[PrintedTable]:
    """Yield the tables of a LaTeX file; a line over all columns begins another one."""
    headers: list[str] = []
    table = PrintedTable()
    for line in text.splitlines():
        if not line.endswith(r"\\"):
            continue
        plain = line.removesuffix(r"\\").replace(r"\allowbreak{}", "")
        title = re.search(r"\\multicolumn\{\d+\}\{l\}\{(.*)\}", plain)
        cells = [re.sub(r"\\(.)|[{}]", r"\1", cell).strip() for cell in plain.split(" & ")]
        if title:
            if table.rows:
                yield table
            table = PrintedTable(re.sub(r"\\(.)", r"\1", title[1]), headers)
        elif not headers:
            headers = table.headers = cells
        else:
            table.rows.append(cells)
    yield table


def html_tables(text: str) -> Iterator[PrintedTable]:
    """Yield the tables of an HTML page with their captions."""
    parser = _Tables()
    parser.feed(text)
    yield from parser.tables


class _Tables(HTMLParser):
    """Gathers tables; what stands outside their cells is passed over."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[PrintedTable] = []
        self._into: list[str] | None = None
        self._in_head = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag == "table":
            self.tables.append(PrintedTable())
        elif tag in ("thead", "tbody"):
            self._in_head = tag == "thead"
        elif tag == "tr" and not self._in_head:
            self.tables[-1].rows.append([])
        elif tag in ("td", "th", "caption"):
            self._into = []
        elif tag in ("small", "span") and self._into is not None:
            self._into.append(" ")

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("td", "th", "caption") or self._into is None:
            return
        table, text = self.tables[-1], " ".join("".join(self._into).split())
        self._into = None
        if tag == "caption":
            table.title = text
        elif self._in_head:
            table.headers.append(text)
        else:
            table.rows[-1].append(text)
