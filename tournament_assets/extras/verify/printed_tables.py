"""Reads Markdown, HTML and LaTeX as tables and lines of text, whatever they are about."""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


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


@dataclass(slots=True)
class Printed:
    """A page.

    Attributes:
        lines: The paragraphs outside of tables.
        data: What a page holds for its own program; None if nothing.
    """

    tables: list[PrintedTable] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    data: Any = None


def read_markdown(text: str) -> Printed:
    """Read a Markdown file; a table has the heading above it as its title."""
    page = Printed()
    title, table = "", PrintedTable()
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            table.rows.append([_unescaped(cell) for cell in cells])
            continue
        page.lines.append(_unescaped(line.strip("#>-* ")))
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif table.rows:
            # The second line only aligns the columns.
            headers, _, *rows = table.rows
            page.tables.append(PrintedTable(title, headers, rows))
            table = PrintedTable()
    return page


def read_latex(text: str) -> Printed:
    """Read a LaTeX file; a line over all columns begins another table."""
    page = Printed()
    headers: list[str] = []
    table = PrintedTable()
    for line in text.splitlines():
        plain = line.removesuffix(r"\\").replace(r"\allowbreak{}", "")
        if not line.endswith(r"\\"):
            plain = re.sub(r"\\num\{(.*?)\}", r"\1", plain)
            page.lines.append(_unescaped(re.sub(r"\\SI\{(.*?)\}\{\\percent\}", r"\1 %", plain)))
            continue
        title = re.search(r"\\multicolumn\{\d+\}\{l\}\{(.*)\}", plain)
        cells = [re.sub(r"[{}]", "", _unescaped(cell)) for cell in plain.split(" & ")]
        if title:
            table = PrintedTable(_unescaped(title[1]), headers)
        elif not headers:
            headers = table.headers = cells
        else:
            if not table.rows:
                page.tables.append(table)
            table.rows.append(cells)
    return page


def read_html(text: str) -> Printed:
    """Read an HTML page."""
    reader = _Html()
    reader.feed(text)
    reader.close()
    return reader.page


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text).strip()


_INLINE = {"a", "b", "button", "code", "dd", "dt", "em", "small", "span", "strong", "wbr"}
_SPACED = {"br", "dd", "dt", "small", "span"}


class _Html(HTMLParser):
    """Gathers tables, the lines between them, and the shapes in their cells."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Printed()
        self._text: list[str] = []
        self._inside: list[str] = []
        self._in_head = False
        self._columns = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        tables, values = self.page.tables, {key: value or "" for key, value in attrs}
        if "aria-label" in values:
            self.page.lines.append(values["aria-label"])
        if tag in ("script", "style", "svg", "table", "td", "th", "caption"):
            if tag == "table":
                self._end_line()
                tables.append(PrintedTable())
            self._inside.append(tag)
        if "svg" in self._inside:
            return
        if tag in ("thead", "tbody", "tfoot"):
            self._in_head = tag == "thead"
        elif tag == "tr" and not self._in_head:
            tables[-1].rows.append([])
        elif tag in ("td", "th", "caption"):
            self._text = []
        elif tag in _SPACED:
            self._text.append(" ")
        elif tag not in _INLINE and "table" not in self._inside:
            self._end_line()

    def handle_data(self, data: str) -> None:
        where = self._inside[-1] if self._inside else ""
        if where == "script" and data.startswith("{"):
            self.page.data = json.loads(data)
        elif where not in ("script", "style", "svg", "table"):
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()
        if "svg" in self._inside:
            return
        if tag in ("td", "th", "caption"):
            table, text = self.page.tables[-1], self._read_off()
            if tag == "caption":
                table.title = text
            elif self._in_head:
                table.headers.append(text)
            else:
                table.rows[-1].append(text)
        elif tag not in _INLINE and "table" not in self._inside:
            self._end_line()

    def _read_off(self) -> str:
        text, self._text = " ".join("".join(self._text).split()), []
        return text

    def _end_line(self) -> None:
        line = self._read_off()
        if line:
            self.page.lines.append(line)
