"""Tables, sections and documents for every target: terminal, Markdown, HTML, CSV and LaTeX.

All escaping is done in `rendering`.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any, Literal, TypeVar, get_type_hints

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import ABSENT, Display, join_names
from tournament_assets.reports.rendering import (
    escape_csv,
    render_macro,
    render_page,
    render_part,
    render_template,
)

Row = TypeVar("Row")
Cell = Callable[[Row], str | int | None]
"""A column of a table: what it says of a row; None where that is absent."""


def select_columns(row_type: type, *names: str) -> dict[str, Cell[Any]]:
    """Return columns of a table by their titles, as the class of its rows declares them.

    Args:
        row_type: The class of the rows.
        names: Fields, and properties whose return type is annotated likewise, in order; a dot
            leads to those of a field, as in `record.wins`.

    Raises:
        TypeError: If one of them has no `Display`.
    """
    return {
        display.title or name.replace("_", " "): partial(_text_of, name=name, display=display)
        for name in names
        for display in (_display_of(row_type, name),)
    }


def _text_of(row: Any, *, name: str, display: Display) -> str | int | None:
    return display.text(attrgetter(name)(row))


@cache
def _display_of(row_type: Any, name: str) -> Display:
    name, _, rest = name.partition(".")
    member = getattr(row_type, name, None)
    if isinstance(member, property):
        hint = get_type_hints(member.fget, include_extras=True)["return"]
    else:
        hint = get_type_hints(row_type, include_extras=True)[name]
    if rest:
        return _display_of(hint, rest)
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, Display):
            return note
    raise TypeError(
        f"column {name!r} of {row_type.__name__} has no Display; "
        "expected one in its Annotated type, with its title"
    )


_LIGHTS = {"green": "light good", "amber": "light fair", "red": "light bad"}
_LONGEST_NUMBER = 36
"""Characters in the longest cell that counts as a number with its interval or unit."""
MOST_CHOICES = 24
"""Most dimensions that a page's switch offers; report.css names each."""
_MOST_ROWS = 6
"""Most rows of a table that a page shows whole, all dimensions below each other."""
_ZEROS = frozenset({"0", "0 %", "0.0 %"})
_UNMEASURED = frozenset({ABSENT, "not measured"})
"""Characters between two columns of a table on a terminal."""


class HtmlText(str):
    """A text of which HTML shows more, as a cell or as a sentence.

    Attributes:
        html: What HTML shows in place of the text.
        small: Smaller text below it.
        href: The address it links to; empty for none.
        label: What screen readers say of the link after its text.
        css: Class of the cell.
        light: Class of the light behind the text.
        links: The words of each link that follows, and its address.
    """

    html: str
    small: str = ""
    href: str = ""
    label: str = ""
    css: str = ""
    light: str = ""
    links: Sequence[tuple[str, str]] = ()

    def __new__(cls, text: str, html: str = "", **attributes: Any) -> "HtmlText":
        """Return the text with some of its attributes."""
        self = super().__new__(cls, text)
        vars(self).update(html=html or text, **attributes)
        return self


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts, for every target.

    Attributes:
        headers: Names of the columns.
        rows: One text per column.
        n_labels: Number of left columns that label the row; the others hold numbers.
        subject: Indexes of the columns that say what a row is about; the last label unless given.
        look: How HTML shows it: with a head, as a grid of win rates, or as pairs without a head.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1
    subject: tuple[int, ...] = ()
    look: Literal["", "grid", "pairs", "pairs hashes"] = ""

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
        return cls(
            tuple(columns), tuple(tuple(map(_text, line)) for line in cells), n_labels, subject
        )

    def is_text(self, column: int) -> bool:
        """Whether a column is left-aligned, as a label or as prose."""
        return column < self.n_labels or any(len(r[column]) > _LONGEST_NUMBER for r in self.rows)

    @property
    def row_headers(self) -> tuple[int, ...]:
        """The columns whose cells name the row's subject."""
        return self.subject or (self.n_labels - 1,)

    @property
    def names(self) -> tuple[str, ...]:
        """The headers on one line each."""
        return tuple(" ".join(header.split()) for header in self.headers)

    @property
    def empty_columns(self) -> tuple[str, tuple[int, ...]]:
        """What is true of columns that tell nothing, and which these are.

        They are all columns of numbers where all numbers are 0 or none is measured; else those that
        count nothing.
        """
        numbers = range(self.n_labels, 0 if self.look else len(self.headers))
        texts = {column: {row[column].strip() for row in self.rows} for column in numbers}
        everything = set().union(*texts.values())
        for words, empty in (("0 everywhere", _ZEROS), ("not measured", _UNMEASURED)):
            if everything and everything <= empty:
                return words, tuple(numbers)
        return "0 everywhere", tuple(column for column, cells in texts.items() if cells == {"0"})

    def without(self, columns: Collection[int]) -> "ReportTable":
        """Return the table without some columns, none of which is a label."""
        rest = [column for column in range(len(self.headers)) if column not in columns]
        headers, *rows = (
            tuple(texts[column] for column in rest) for texts in (self.headers, *self.rows)
        )
        return replace(self, headers=headers, rows=tuple(rows))

    @property
    def column_classes(self) -> list[str]:
        """How HTML sets each column: as a label, as prose, or as numbers."""
        return [self._column_class(column) for column in range(len(self.headers))]

    def _column_class(self, column: int) -> str:
        if column < self.n_labels:
            return "label"
        if self.look:
            return "hash" if self.look == "pairs hashes" else ""
        cells = (row[column] for row in self.rows)
        if any(isinstance(cell, HtmlText) and (cell.href or cell.light) for cell in cells):
            return "label"
        return "label prose" if self.is_text(column) else ""

    @property
    def by_dimension(self) -> "dict[str, ReportTable]":
        """One table per dimension, if a page shows one at a time; empty for a short table.

        A table of twelve entrants on three dimensions is three screens long.
        """
        names = list(dict.fromkeys(row[0] for row in self.rows))
        is_long = len(self.rows) > _MOST_ROWS and 1 < len(names) <= MOST_CHOICES
        if not is_long or self.headers[0] != "dimension" or self.n_labels < 2:
            return {}
        return {
            name: replace(
                self,
                headers=self.headers[1:],
                rows=tuple(row[1:] for row in self.rows if row[0] == name),
                n_labels=self.n_labels - 1,
                subject=tuple(column - 1 for column in self.subject if column),
            )
            for name in names
        }

    @property
    def html_rows(self) -> list[list[HtmlText]]:
        """The cells as HTML shows them."""
        classes = self.column_classes
        return [
            [
                cell if isinstance(cell, HtmlText) else HtmlText(cell, css=css)
                for cell, css in zip(row, classes, strict=True)
            ]
            for row in self.rows
        ]


def _text(cell: str | int | None) -> str:
    return ABSENT if cell is None else cell if isinstance(cell, str) else str(cell)


def light_text(state: str, text: str = "", html: str = "", **attributes: Any) -> HtmlText:
    """Return a text, by default a test's state, which HTML shows on the light of that state."""
    light = _LIGHTS.get(state, "light unknown")
    return HtmlText(text or state, html, css="label", light=light, **attributes)


@dataclass(frozen=True, slots=True)
class ThemedPicture:
    """A figure on a page, whose content is also in a table.

    Attributes:
        title: The title above it.
        alt: Its content in words.
        drawing: Itself as SVG, from `canvas.to_page`.
    """

    title: str
    alt: str
    drawing: str


Standing = Literal["best", "open", "out", ""]
"""Whether an entrant is best, may be, or is no longer; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class LadderBar:
    """An entrant's rating on a dimension; places are per cent of the axis.

    Attributes:
        text: The rating, or why there is none.
        interval: Its sampling interval in Elo points.
        group: Its possible places, or the letters of its groups.
        standing: Whether it is best, or may be.
        place: The positions of the rating and its comparison bar's ends; no value without a rating,
            and no end where the judgments set no bound.
        reach: Those of the sampling interval's ends.
    """

    text: str
    interval: str = ""
    group: str = ""
    standing: Standing = ""
    place: Estimate = field(default_factory=Estimate)
    reach: Estimate = field(default_factory=Estimate)


@dataclass(frozen=True, slots=True)
class Ladder:
    """All dimensions on one scale, with each entrant in the same line.

    Attributes:
        dimensions: The columns: dimensions, or other things set side by side.
        lines: The entrants with their bars, best on the first dimension first.
        ticks: Places and Elo points of the axis.
        heads: What is said above each column.
        names: What the entrants are called, by their ids.
        caption: The caption; by default that of the first screen's ladder.
        remarks: Sentences behind the caption.
    """

    dimensions: tuple[str, ...]
    lines: tuple[tuple[str, tuple[LadderBar, ...]], ...]
    ticks: tuple[tuple[float, str], ...]
    heads: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    caption: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def most_letters(self) -> int:
        """Letters of the longest name, in steps of eight."""
        return 8 * -(
            -max((len(self.names.get(name, name)) for name, _ in self.lines), default=0) // 8
        )


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
        one_at_a_time: Whether the titles of its tables are dimensions, of which a page shows one
            and lets the reader choose.
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
            words, columns = table.empty_columns
            if columns:
                names = join_names([table.names[column] for column in columns])
                empty.setdefault(f"{words} ({names})", []).append(title or self.title)
            if len(columns) < len(table.headers) - table.n_labels or not columns:
                tables.append((title, table.without(columns)))
        return replace(
            self,
            sentences=(
                *self.sentences,
                *(f"{join_names(titles)}: {words}." for words, titles in empty.items()),
            ),
            tables=tuple(tables),
            folds=tuple(fold.without_empty_tables for fold in self.folds),
        )

    @property
    def blocks(self) -> "list[tuple[str, dict[str, _Part]]]":
        """What a page shows below the sentences: blocks of tables and pictures by their captions.

        A block with a title has a part for each dimension, of which a page shows one at a time.
        """
        tables = dict(self.tables) if self.one_at_a_time else {}
        pictures = {picture.title: picture for picture in self.pictures}
        blocks = list[tuple[str, dict[str, _Part]]]()
        for title, table in () if self.one_at_a_time else self.tables:
            caption, parts = title or self.title, table.by_dimension
            shown = (parts or {caption: table}).items()
            blocks.append((caption if parts else "", {name: (part, None) for name, part in shown}))
        names = dict.fromkeys((*tables, *pictures))
        title = self.title if 1 < len(names) <= MOST_CHOICES else ""
        return [*blocks, (title, {name: (tables.get(name), pictures.get(name)) for name in names})]


_Part = tuple[ReportTable | None, ThemedPicture | None]
"""What a page shows of a dimension."""


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


def table_latex(tables: Mapping[str, ReportTable], *, columns: Sequence[str]) -> str:
    """Return a `tabular` in the style of booktabs, its numbers aligned by siunitx.

    Args:
        tables: Tables of the same columns, as blocks between rules, by titles that may be empty.
        columns: LaTeX's type of each column: l, c, r, a p of some width, whose names may be
            hyphenated, or siunitx's S, in which non-numbers are put in braces.
    """
    return "\n".join([*render_part("macros.tex.jinja", "tabular", tables, columns), ""])


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


def document_page(document: Document) -> str:
    """Return a document as an HTML page that needs no other file."""
    return render_page("document.html.jinja", "report", document=document)
