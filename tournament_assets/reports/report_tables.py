"""Tables, sections and documents for every target: terminal, Markdown, HTML, CSV and LaTeX.

All escaping is done in `rendering`.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from textwrap import wrap
from typing import Any, Literal, Protocol, TypeVar, get_type_hints

from tournament_assets.reports.rendering import (
    break_latex,
    escape_csv,
    escape_latex,
    escape_terminal,
    render_macro,
    render_template,
)
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.tournament.formatting import ABSENT, Display, join_names

Row = TypeVar("Row")
Cell = Callable[[Row], str | int | None]
"""A column of a table: what it says of a row; None where that is absent."""


def select_columns(row_type: type, *names: str) -> dict[str, Cell[Any]]:
    """Return columns of a table by their titles, as the class of its rows declares them.

    Args:
        row_type: The class of the rows.
        names: Fields, and properties whose return type is annotated likewise, in order.

    Raises:
        TypeError: If one of them has no `Display`.
    """
    return {
        display.title: partial(_text_of, name=name, display=display)
        for name in names
        for display in (_display_of(row_type, name),)
    }


def _text_of(row: Any, *, name: str, display: Display) -> str | int | None:
    return display.text(getattr(row, name))


@cache
def _display_of(row_type: Any, name: str) -> Display:
    member = getattr(row_type, name, None)
    if isinstance(member, property):
        hint = get_type_hints(member.fget, include_extras=True)["return"]
    else:
        hint = get_type_hints(row_type, include_extras=True)[name]
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, Display):
            return note
    raise TypeError(
        f"column {name!r} of {row_type.__name__} has no Display; "
        "expected one in its Annotated type, with its title"
    )


_LIGHTS = {
    "green": "light good",
    "amber": "light fair",
    "yellow": "light fair",
    "red": "light bad",
    "grey": "light unknown",
    "gray": "light unknown",
    "not measured": "light unknown",
    "pooled": "light unknown",
    "no threshold": "light unknown",
}
_LONGEST_NUMBER = 36
"""Characters in the longest cell that counts as a number with its interval or unit."""
MOST_CHOICES = 24
"""Most dimensions that a page's switch offers; report.css names each."""
_MOST_ROWS = 6
"""Most rows of a table that a page shows whole, all dimensions below each other."""
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
"""Numbers that siunitx aligns at the decimal point."""
_LATEX_GAP = "@{\\hskip 7pt}"
"""Column separation in LaTeX; the default of 12 pt makes tables wider than a text column."""
_ZEROS = frozenset({"0", "0 %", "0.0 %"})
_UNMEASURED = frozenset({ABSENT, "not measured"})
_GAP = 2
"""Characters between two columns of a table on a terminal."""


class Console(Protocol):
    """The part of rich's console that is used, so that the definitions load without rich."""

    @property
    def width(self) -> int:
        """In columns."""

    def print(
        self, *shown: Any, overflow: Literal["ignore"] | None = None, crop: bool = True
    ) -> None:
        """Print texts or tables."""


@dataclass(frozen=True, slots=True)
class HtmlCell:
    """How a cell looks in HTML, if that is more than its text.

    Attributes:
        text: The text.
        small: Smaller text below it.
        href: The address it links to; empty for none.
        label: The link's label for screen readers.
        css: Class of the cell.
        light: Class of the light behind the text.
    """

    text: str
    small: str = ""
    href: str = ""
    label: str = ""
    css: str = ""
    light: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts, for every target.

    Attributes:
        headers: Names of the columns.
        rows: One text per column.
        n_labels: Number of left columns that label the row; the others hold numbers.
        subject: Indexes of the columns that say what a row is about; the last label unless given.
        spare: Indexes of columns that a narrow terminal omits.
        look: How HTML shows it: with a head, as a grid of win rates, or as pairs without a head.
        html: Cells that look different in HTML, by row and column.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1
    subject: tuple[int, ...] = ()
    spare: tuple[int, ...] = ()
    look: Literal["", "grid", "pairs", "pairs hashes"] = ""
    html: Mapping[tuple[int, int], HtmlCell] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Iterable[Row],
        columns: Mapping[str, Cell[Row]],
        n_labels: int = 1,
        subject: tuple[int, ...] = (),
    ) -> "ReportTable":
        """Return a table with a line for each row and a column for each header."""
        cells = ([cell(row) for cell in columns.values()] for row in rows)
        lines = (tuple(ABSENT if cell is None else str(cell) for cell in line) for line in cells)
        return cls(tuple(columns), tuple(lines), n_labels, subject)

    def is_text(self, column: int) -> bool:
        """Whether a column is left-aligned, as a label or as prose."""
        return column < self.n_labels or any(len(r[column]) > _LONGEST_NUMBER for r in self.rows)

    @property
    def row_headers(self) -> tuple[int, ...]:
        """The columns whose cells name the row's subject."""
        return self.subject or (self.n_labels - 1,)

    @property
    def said_of_nothing(self) -> str:
        """What every number of the table says, if it is 0 everywhere or nowhere measured."""
        cells = {cell.strip() for row in self.rows for cell in row[self.n_labels :]}
        for said, empty in (("0 everywhere", _ZEROS), ("not measured", _UNMEASURED)):
            if not self.look and cells and cells <= empty:
                return f"{said} ({join_names(self.names[self.n_labels :])})"
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        """The headers on one line each."""
        return tuple(" ".join(header.split()) for header in self.headers)

    @property
    def zero_columns(self) -> tuple[int, ...]:
        """Columns that count nothing in any row."""
        columns = range(self.n_labels, 0 if self.look else len(self.headers))
        return tuple(each for each in columns if {row[each].strip() for row in self.rows} == {"0"})

    def without(self, columns: Collection[int]) -> "ReportTable":
        """Return the table without some columns, none of which is a label."""
        kept = [each for each in range(len(self.headers)) if each not in columns]
        return replace(
            self,
            headers=tuple(self.headers[each] for each in kept),
            rows=tuple(tuple(row[each] for each in kept) for row in self.rows),
            spare=tuple(kept.index(each) for each in self.spare if each in kept),
            html={
                (row, kept.index(column)): cell
                for (row, column), cell in self.html.items()
                if column in kept
            },
        )

    @property
    def column_classes(self) -> list[str]:
        """How HTML sets each column: as a label, as prose, or as numbers."""
        return [self._column_class(column) for column in range(len(self.headers))]

    def _column_class(self, column: int) -> str:
        cells = [row[column] for row in self.rows]
        shown = [cell for place, cell in self.html.items() if place[1] == column]
        has_link = any(cell.href for cell in shown)
        is_lit = any(map(light_class, cells)) or any(cell.light for cell in shown)
        if column < self.n_labels or is_lit:
            return "label"
        if self.look:
            return "hash" if self.look == "pairs hashes" else ""
        if has_link:
            return "label"
        return "label prose" if self.is_text(column) else ""

    @property
    def by_dimension(self) -> "dict[str, ReportTable]":
        """One table per dimension, if a page shows one at a time; empty for a short table.

        A table of twelve entrants on three dimensions is three screens long.
        """
        names = list(dict.fromkeys(row[0] for row in self.rows))
        is_long = len(self.rows) > _MOST_ROWS and 1 < len(names) <= MOST_CHOICES
        if not is_long or self.headers[0] != "dimension" or self.n_labels < 2 or self.html:
            return {}
        return {
            name: replace(
                self,
                headers=self.headers[1:],
                rows=tuple(row[1:] for row in self.rows if row[0] == name),
                n_labels=self.n_labels - 1,
                subject=tuple(column - 1 for column in self.subject if column),
                spare=tuple(column - 1 for column in self.spare if column),
            )
            for name in names
        }

    @property
    def html_rows(self) -> list[list[HtmlCell]]:
        """How HTML shows the cells."""
        classes = self.column_classes
        return [
            [
                self.html.get((index, column))
                or HtmlCell(text, css=classes[column], light=light_class(text))
                for column, text in enumerate(row)
            ]
            for index, row in enumerate(self.rows)
        ]


def light_class(text: str) -> str:
    """Return the class of a cell that shows a test's result, or nothing."""
    return _LIGHTS.get(text.strip().lower(), "")


class LinkedSentence(str):
    """A sentence that HTML follows with links.

    Attributes:
        links: The words of each link, and its address.
    """

    links: Sequence[tuple[str, str]]

    def __new__(cls, sentence: str, *, links: Sequence[tuple[str, str]]) -> "LinkedSentence":
        """Return the sentence with its links."""
        self = super().__new__(cls, sentence)
        self.links = links
        return self


@dataclass(frozen=True, slots=True)
class ThemedPicture:
    """A figure on a page, whose content is also in a table.

    Attributes:
        title: The title above it.
        alt: Its content in words.
        images: Its address for each theme, `light` and `dark`.
    """

    title: str
    alt: str
    images: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LadderBar:
    """An entrant's rating on a dimension; places are per cent of the axis.

    Attributes:
        text: The rating, or why there is none.
        interval: Its sampling interval in Elo points.
        group: The letters of its groups.
        place: The positions of the rating and its interval's ends; no value without a rating, and
            no end where the judgments set no bound.
    """

    text: str
    interval: str = ""
    group: str = ""
    place: Estimate = field(default_factory=Estimate)


@dataclass(frozen=True, slots=True)
class Ladder:
    """All dimensions on one scale, with each entrant in the same line.

    Attributes:
        dimensions: The columns: dimensions, or other things set side by side.
        bands: The leader's sampling interval on each dimension; None without a leader.
        lines: The entrants with their bars, best on the first dimension first.
        ticks: Places and Elo points of the axis.
        caption: The caption; by default that of the first screen's ladder.
        remarks: Sentences behind the caption.
    """

    dimensions: tuple[str, ...]
    bands: tuple[Estimate | None, ...]
    lines: tuple[tuple[str, tuple[LadderBar, ...]], ...]
    ticks: tuple[tuple[float, str], ...]
    caption: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def most_letters(self) -> int:
        """Most letters that an entrant has; 3 stands for 3 or more."""
        groups = (len(bar.group.split()) for _, bars in self.lines for bar in bars)
        return min(max(groups, default=0), 3)


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report under a heading of its own.

    Attributes:
        title: The heading.
        sentences: Its sentences, most important first.
        tables: Its tables with their titles, which may be empty.
        finding: The result in a few words, beside the heading of a folded section.
        folds: Folded parts for readers who check or defend the result.
        pictures: Figures on a page.
        ladders: Ratings that a page shows as bars, above the tables.
        command: A command, shown as code at its end.
        is_open: Whether a page shows it unfolded.
        one_at_a_time: Whether there is a table per dimension, of which a page shows one and lets
            the reader choose.
        is_note: Whether a terminal shows it in small print.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[tuple[str, ReportTable], ...] = ()
    finding: str = ""
    folds: "tuple[ReportSection, ...]" = ()
    pictures: tuple[ThemedPicture, ...] = ()
    ladders: tuple[Ladder, ...] = ()
    command: str = ""
    is_open: bool = False
    one_at_a_time: bool = False
    is_note: bool = False

    @property
    def without_empty_tables(self) -> "ReportSection":
        """The section with a sentence in place of each table, or column, that is 0 or unmeasured.

        A column goes where every number of it is 0.
        """
        empty: dict[str, list[str]] = {}
        tables: list[tuple[str, ReportTable]] = []
        for title, table in self.tables:
            if said := table.said_of_nothing:
                empty.setdefault(said, []).append(title or self.title)
                continue
            if zeros := table.zero_columns:
                said = f"0 everywhere ({join_names([table.names[each] for each in zeros])})"
                empty.setdefault(said, []).append(title or self.title)
            tables.append((title, table.without(zeros)))
        return replace(
            self,
            sentences=(
                *self.sentences,
                *(f"{join_names(titles)}: {said}." for said, titles in empty.items()),
            ),
            tables=tuple(tables),
            folds=tuple(fold.without_empty_tables for fold in self.folds),
        )

    @property
    def choices(self) -> "dict[str, ReportSection]":
        """What a page shows of every dimension, if it shows one at a time.

        The title of a table is its dimension, or begins with it and a colon; so is a picture's.
        """
        found: dict[str, ReportSection] = {}
        for title, table in self.tables if self.one_at_a_time else ():
            name, _, rest = title.partition(": ")
            caption = f"{rest[0].upper()}{rest[1:]}" if rest else self.title
            own = found.setdefault(name, ReportSection(name))
            shown = (*own.tables, (f"{caption}, {name}", table))
            found[name] = replace(own, tables=shown)
        for picture in self.pictures:
            own = found.setdefault(picture.title, ReportSection(picture.title))
            found[picture.title] = replace(own, pictures=(*own.pictures, picture))
        return found if 1 < len(found) <= MOST_CHOICES else {}

    @property
    def unchosen(self) -> "ReportSection":
        """The tables and pictures that a page shows whatever dimension is chosen."""
        if not self.choices:
            return self
        return replace(self, tables=() if self.one_at_a_time else self.tables, pictures=())


def table_markdown(table: ReportTable) -> str:
    """Return a table in the Markdown of GitHub."""
    return render_macro("macros.md.jinja", "table", table)


def table_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as CSV in UTF-8 with a header; None becomes an empty cell."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(escape_csv, columns))
    writer.writerows([escape_csv(value) for value in row] for row in rows)
    return buffer.getvalue().encode()


def table_latex(
    table: ReportTable, *, columns: Sequence[str], blocks: Sequence[tuple[str, int]]
) -> str:
    """Return a `tabular` in the style of booktabs, its numbers aligned by siunitx.

    Args:
        columns: LaTeX's type of each column: l, c, r, a p of some width, whose names may be
            hyphenated, or siunitx's S, in which non-numbers are put in braces.
        blocks: For each block between two rules, its title, which may be empty, and its number of
            rows.
    """
    lines = [_latex_line(row, columns) for row in table.rows]
    parts = [_latex_line(table.headers, columns)]
    for title, size in blocks:
        above = f"\\multicolumn{{{len(columns)}}}{{l}}{{{escape_latex(title)}}} \\\\\n"
        parts.append("".join([above if title else "", *lines[:size]]))
        del lines[:size]
    return "".join(
        (
            f"\\begin{{tabular}}{{@{{}}{_LATEX_GAP.join(columns)}@{{}}}}\n\\toprule\n",
            "\\midrule\n".join(parts),
            "\\bottomrule\n\\end{tabular}\n",
        )
    )


def _latex_line(texts: Iterable[str], columns: Sequence[str]) -> str:
    cells = [_latex_cell(text, column) for text, column in zip(texts, columns, strict=True)]
    return f"{' & '.join(cells)} \\\\\n"


def _latex_cell(text: str, column: str) -> str:
    if column.startswith("S") and not _NUMBER.fullmatch(text):
        return f"{{{escape_latex(text)}}}"
    # TeX would run a long name into the next column.
    return break_latex(text) if column.startswith("p") else escape_latex(text)


@dataclass(frozen=True, slots=True)
class Document:
    """A titled list of sections, for a terminal, a Markdown page or a notebook.

    Attributes:
        title: The title above them; none if empty.
        warnings: Sentences before everything else.
    """

    title: str
    sections: Sequence[ReportSection]
    warnings: Sequence[str] = ()


def document_markdown(document: Document) -> str:
    """Return a document as a Markdown page."""
    return render_template("sections.md.jinja", document=document)


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
    from rich.cells import cell_len
    from rich.text import Text

    for line in escape_terminal(text).split("\n"):
        if max(map(cell_len, line.split()), default=0) <= console.width:
            console.print(Text(line, style=style))
            continue
        # rich would break the word.
        lines = wrap(line, console.width, break_long_words=False, break_on_hyphens=False)
        console.print(Text("\n".join(lines), style=style), overflow="ignore", crop=False)


def print_table(title: str, table: ReportTable, console: Console) -> None:
    """Print a table below an empty line, breaking no word.

    If it is too wide, spare columns are omitted; if that is not enough, every row becomes a block
    of lines `header: value`.

    Args:
        title: What stands above it; nothing if empty.
        table: The table; its control characters are made visible.
    """
    console.print()
    table = replace(
        table,
        headers=tuple(map(escape_terminal, table.headers)),
        rows=tuple(tuple(_one_line(text) for text in row) for row in table.rows),
    )
    columns = list(range(len(table.headers)))
    kept = [column for column in columns if column not in table.spare]
    for shown in (columns, kept):
        widths = _fitting_widths(table, shown, console.width)
        if widths:
            _print_side_by_side(title, table, widths, console)
            return
    _print_stacked(title, table, console)


def _one_line(text: str) -> str:
    return escape_terminal(" ".join(text.split()))


def _fitting_widths(table: ReportTable, columns: Sequence[int], width: int) -> dict[int, int]:
    """Return the width of each column, by its index; nothing if they do not fit side by side.

    Headers are wrapped first, then texts; numbers stay on one line.
    """
    from rich.cells import cell_len

    widths: dict[int, int] = {}
    whole: dict[int, int] = {}
    least: dict[int, int] = {}
    for column in columns:
        header, cells = table.headers[column], [row[column] for row in table.rows]
        words = max(map(cell_len, " ".join((header, *cells)).split()), default=1)
        whole[column] = max(words, *map(cell_len, cells), 1)
        least[column] = words if table.is_text(column) else whole[column]
        widths[column] = max(whole[column], *map(cell_len, header.split("\n")))
    excess = sum(widths.values()) + _GAP * (len(columns) - 1) - width
    for floor in (whole, least):
        while excess > 0:
            shrinkable = [column for column in columns if widths[column] > floor[column]]
            if not shrinkable:
                break
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
            excess -= 1
    return {} if excess > 0 else widths


def _print_side_by_side(
    title: str, cells: ReportTable, widths: Mapping[int, int], console: Console
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(escape_terminal(title), style="bold") if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column, width in widths.items():
        justify: Literal["left", "right"] = "left" if cells.is_text(column) else "right"
        table.add_column(Text(cells.headers[column]), justify=justify, width=width)
    for texts in cells.rows:
        table.add_row(*(Text(texts[column]) for column in widths))
    console.print(table)


def _print_stacked(title: str, cells: ReportTable, console: Console) -> None:
    if title:
        print_text(title, console, style="bold")
    for index, texts in enumerate(cells.rows):
        if index:
            console.print()
        for header, text in zip(cells.headers, texts, strict=True):
            print_text(f"{' '.join(header.split())}: {text}", console)
