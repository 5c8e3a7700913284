"""A table says the same on every target, read by each target's own parser."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Annotated

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from tournament_assets.foundation.formatting import Display
from tournament_assets.reports.rendering import render_macro, show_controls
from tournament_assets.reports.report_tables import (
    HtmlText,
    ReportSection,
    ReportTable,
    ThemedPicture,
    light_text,
    select_columns,
    table_csv,
    table_latex,
    table_markdown,
)
from tournament_assets.reports.terminal import print_table

TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="ab1 _*`[]()<>&|!#-+=~.:/\\{}$@\"'^%,;\n\r\t\x1b\u202e", max_size=30),
)
ROWS = st.tuples(TEXTS, TEXTS, TEXTS)
STEERS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def _table(*rows: tuple[str, ...]) -> ReportTable:
    return ReportTable(("name", "value", "note"), rows)


class _Cells(HTMLParser):
    """The texts of an HTML table's body, as a browser shows them but for white space."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "wbr")
        if tag == "td" or (tag == "th" and ("scope", "row") in attrs):
            self.cells.append("")
            self._is_inside = True

    def handle_endtag(self, tag: str) -> None:
        self._is_inside = self._is_inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.cells[-1] += data


def _html(table: ReportTable, caption: str) -> str:
    return render_macro("macros.html.jinja", "table", table, caption)


def _from_html(table: ReportTable) -> list[str]:
    parser = _Cells()
    parser.feed(_html(table, "a table"))
    return [" ".join(cell.split()) for cell in parser.cells]


def _from_markdown(table: ReportTable) -> list[str]:
    tokens = (
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table_markdown(table))
    )
    assert tokens[0].type == "table_open"
    assert tokens[-1].type == "table_close"
    cells = [token.children or [] for token in tokens if token.type == "inline"]
    assert {child.type for cell in cells for child in cell} <= {"text", "text_special"}
    return ["".join(child.content for child in cell) for cell in cells][len(table.headers) :]


def _from_latex(table: ReportTable) -> list[str]:
    text = table_latex({"": table}, columns="lrr")
    body = text.split("\\midrule\n")[1].removesuffix("\\bottomrule\n\\end{tabular}\n")
    named = {"textasciitilde{}": "~", "textasciicircum{}": "^", "textbackslash{}": "\\"}
    cells = [""]
    for token in re.findall(r"\\\\\n| & |\\text\w+\{\}|\\.|.", body, flags=re.DOTALL):
        if token == " & " or token == "\\\\\n":
            cells.append("")
        elif token.startswith("\\"):
            cells[-1] += named.get(token[1:], token[1:])
        else:
            assert token not in "&%$#_{}~^\n", token
            cells[-1] += token
    return [" ".join(cell.split()) for cell in cells[:-1]]


def _from_csv(table: ReportTable) -> list[str]:
    text = table_csv(table.headers, table.rows).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    return [" ".join(_without_apostrophe(cell).split()) for row in rows[1:] for cell in row]


def _without_apostrophe(cell: str) -> str:
    is_marked = re.match(r"'[ \n']*[=+\-@\t\r]", cell)
    return cell[1:] if is_marked else cell


def test_a_table_says_of_each_row_what_its_columns_say_and_a_dash_for_what_is_absent() -> None:
    counts: dict[str, int | None] = {"ada": 0, "bob": None}
    table = ReportTable.of(counts, {"who": str, "n": counts.get})
    assert table == ReportTable(("who", "n"), (("ada", "0"), ("bob", "\N{EN DASH}")))


@pytest.mark.parametrize("read", [_from_html, _from_markdown, _from_latex, _from_csv])
@given(row=ROWS)
@example(row=("=1+1", "~ a", "\x1b[31mred"))
@example(row=("a|b", "| --- |", "<b>&amp;"))
@example(row=("'\r", "\r=1", "'\r="))
def test_a_text_comes_back_from_each_targets_own_parser(
    read: Callable[[ReportTable], list[str]], row: tuple[str, ...]
) -> None:
    if read is _from_csv:
        # A spreadsheet is told every line break as a line feed.
        lines = [cell.replace("\r", "\n") for cell in row]
        expected = [" ".join(show_controls(cell).split()) for cell in lines]
    elif read is _from_html:
        expected = [" ".join(show_controls(cell).split()) for cell in row]
    else:
        expected = [show_controls(" ".join(cell.split())) for cell in row]
    assert read(_table(row, ("a", "1", "b"))) == [*expected, "a", "1", "b"]


@given(row=ROWS)
def test_nothing_that_steers_a_program_or_turns_a_text_reaches_a_file(
    row: tuple[str, ...],
) -> None:
    table = _table(row)
    for written in (
        _html(table, row[0]),
        table_markdown(table),
        table_latex({"": table}, columns="lrr"),
        table_csv(table.headers, table.rows).decode(),
    ):
        assert not STEERS.search(written)


@given(row=ROWS)
def test_no_cell_of_a_spreadsheet_is_a_formula(row: tuple[str, ...]) -> None:
    text = table_csv(("name", "value", "note"), [row]).decode()
    cells = list(csv.reader(io.StringIO(text, newline="")))[1]
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in cells)


def test_numbers_and_nothing_stay_what_they_are_in_a_spreadsheet() -> None:
    assert table_csv(("a", "b", "c"), [(-1.5, None, "-1.5")]) == b"a,b,c\n-1.5,,'-1.5\n"


def _printed(table: ReportTable, width: int) -> str:
    out = io.StringIO()
    print_table("", table, Console(file=out, width=width))
    return out.getvalue()


@given(row=ROWS)
def test_a_terminal_shows_the_text_and_is_not_steered(row: tuple[str, ...]) -> None:
    printed = _printed(ReportTable(("value",), tuple((cell,) for cell in row)), 1000)
    assert not STEERS.search(printed)
    shown = [line.strip() for line in printed.splitlines()[3:]]
    # What is not printable is shown as Python writes it.
    words = [" ".join(cell.split()) for cell in row]
    assert shown == [
        "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
        for text in words
    ]


WORDS = st.text(alphabet="abcdefghij", min_size=1, max_size=16)
PROSE = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@pytest.mark.parametrize("width", [50, 80])
@given(
    headers=st.lists(PROSE, min_size=7, max_size=7),
    rows=st.lists(st.lists(PROSE, min_size=7, max_size=7), min_size=1, max_size=3),
)
def test_a_narrow_terminal_never_breaks_a_word(
    width: int, headers: list[str], rows: list[list[str]]
) -> None:
    table = ReportTable(tuple(headers), tuple(map(tuple, rows)), n_labels=2)
    printed = _printed(table, width)
    found = set(printed.replace(":", " ").split())
    assert found >= {word for row in (headers, *rows) for cell in row for word in cell.split()}
    assert max(map(len, printed.splitlines())) <= width


def test_what_does_not_fit_side_by_side_is_stacked() -> None:
    table = ReportTable(("who", "win share"), (("olmo_" * 8, "55.3 %"), ("b", "44.7 %")))
    assert _printed(table, 47).split("\n") == [
        "",
        f"who: {'olmo_' * 8}",
        "win share: 55.3 %",
        "",
        "who: b",
        "win share: 44.7 %",
        "",
    ]


def test_a_word_longer_than_the_terminal_stays_whole() -> None:
    assert f"\n{'olmo_' * 12}\n" in _printed(ReportTable(("who",), (("olmo_" * 12,),)), 50)


def test_a_cell_may_look_otherwise_in_html_alone() -> None:
    link = {"href": "#x?a=<b>", "label": 'of "ada"'}
    cell = HtmlText("55 % (n = 9)", "55 %", small="n = 9", css="r11", **link)
    table = ReportTable(("", "bob"), (("ada", cell),), look="grid")
    assert "| ada | 55 % (n = 9) |" in table_markdown(table)
    page = _html(table, "grid")
    # A name that is spoken begins with the text that is seen.
    spoken = "55 % n = 9: of &#34;ada&#34;"
    assert f'<td class="r11"><a href="#x?a=&lt;b&gt;" aria-label="{spoken}">' in page
    assert "55 % <small>n = 9</small></a>" in page


def test_a_light_stands_behind_a_state_and_never_behind_a_name() -> None:
    table = ReportTable(("who", "beats", "light"), (("ada", "red", light_text("red")),))
    page = _html(table, "lights")
    assert page.count("light bad") == 1


def test_columns_are_headed_and_read_as_the_fields_of_the_rows_say() -> None:
    pair = _Pair(_Record(1200), "ada")
    columns = select_columns(_Pair, "winner", "record.wins", "loud")
    assert {title: cell(pair) for title, cell in columns.items()} == {
        "who": "ada",
        "won": "1,200",
        "aloud": "ADA",
    }
    with pytest.raises(TypeError, match="'record' of _Pair has no Display"):
        select_columns(_Pair, "record")


@dataclass
class _Record:
    wins: Annotated[int, "pairs", Display("won", "{:,}".format)]


@dataclass
class _Pair:
    record: _Record
    winner: Annotated[str, Display("who")]

    @property
    def loud(self) -> Annotated[str, Display("aloud")]:
        return self.winner.upper()


def test_columns_that_just_fit_stand_side_by_side() -> None:
    table = ReportTable(("who", "won"), (("a" * 20, "1" * 8),))
    assert f"{'a' * 20}  {'1' * 8}\n" in _printed(table, 30)
    assert f"who: {'a' * 20}\n" in _printed(table, 29)


def test_a_long_table_is_shown_one_dimension_at_a_time_with_every_row_once() -> None:
    rows = tuple((name, f"e{n}", f"{name}{n}") for name in ("f", "g") for n in range(7))
    table = ReportTable(("dimension", "entrant", "value"), rows, n_labels=2)
    parts = dict(table.by_dimension)
    assert list(parts) == ["f", "g"]
    assert parts["g"].headers == ("entrant", "value")
    assert parts["g"].n_labels == 1
    assert [("g", *row) for row in parts["g"].rows] == list(rows[7:])
    section = ReportSection("Audit", tables=(("Present", table),))
    page = render_macro("macros.html.jinja", "section", section, "audit")
    assert page.count('<input type="radio"') == 2
    assert all(page.count(f">{value}</td>") == 1 for *_, value in rows)


@pytest.mark.parametrize("n_rows", [4, 13])
def test_a_short_table_or_one_of_a_single_dimension_is_shown_whole(n_rows: int) -> None:
    short = tuple((f"d{n % 2}", str(n), "x") for n in range(4))
    single = tuple(("f", str(n), "x") for n in range(13))
    rows = short if n_rows == 4 else single
    assert ReportTable(("dimension", "entrant", "x"), rows, n_labels=2).by_dimension == {}


def test_a_picture_of_each_dimension_is_chosen_with_its_table_or_alone() -> None:
    table = ReportTable(("entrant", "x"), (("ada", "1"),))
    names = ("f: g", "g")
    pictures = tuple(ThemedPicture(name, "alt", f"<svg id='{name}'/>") for name in names)
    section = ReportSection("Gaps", (), (("f: g", table),), pictures=pictures, one_at_a_time=True)
    ((title, parts),) = section.blocks
    assert (title, parts) == ("Gaps", {"f: g": (table, pictures[0]), "g": (None, pictures[1])})
    apart = ReportSection("Cost", tables=(("All", table),), pictures=pictures)
    page = render_macro("macros.html.jinja", "section", apart, "cost")
    assert page.count('<input type="radio"') == page.count("<svg") == 2
    assert page.count("<table") == 1


def test_a_column_that_counts_nothing_becomes_a_sentence_and_links_stay_with_their_cells() -> None:
    cell = HtmlText("9", href="#x")
    rows = (("ada", "0", "3", cell), ("bob", "0", "0", "9"))
    table = ReportTable(("who", "lost", "won", "read"), rows)
    section = ReportSection("Pairs", tables=(("f", table), ("g", table))).without_empty_tables
    assert section.sentences == ("f and g: 0 everywhere (lost).",)
    left = section.tables[0][1]
    assert left.headers == ("who", "won", "read")
    assert left.rows[0][2] is cell
