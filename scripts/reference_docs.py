"""The reference pages of the documentation's site, which come from the code.

`commands.md` is the help of every command, `configuration.md` every key of a config, `tables.md`
every asset, every stored table with its columns, and the rating methods. They are made when the
site is built and are stored nowhere else.
"""

import inspect
import re
from collections.abc import Iterator

import click
import pyarrow as pa

from tournament_assets.cli import main as tournament
from tournament_assets.cli.configuration import render_page as configuration_page
from tournament_assets.graph.table import ASSETS
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.rating_methods import METHODS
from tournament_assets.storage.tables import derive_schema

_TYPES = {
    pa.string(): "text",
    pa.int64(): "integer",
    pa.float64(): "number",
    pa.bool_(): "true or false",
    pa.list_(pa.string()): "list of texts",
    pa.list_(pa.float64()): "list of numbers",
}
_STORED = {
    "table": "Parquet",
    "stream": "Parquet, streamed",
    "arrays": "npz",
    "folder": "`runs/<mode>_<time>/`",
    "file": "observed, not stored",
}
_WIDTH = 88


def commands_page() -> str:
    """Return the page of all commands, as `--help` prints them."""
    lines = [
        "# Commands",
        "",
        "What `--help` prints for each command. Exit codes: 0 success, 1 the work failed, 2 bad",
        "usage or bad input, 130 interrupted, unless the command says otherwise.",
    ]
    for path, command in _walk(tournament, "tournament"):
        context = click.Context(
            command,
            info_name=path,
            terminal_width=_WIDTH,
            max_content_width=_WIDTH,
            help_option_names=["-h", "--help"],
        )
        lines += ["", f"## {path}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (found := command.get_command(context, name)) is not None:
                yield from _walk(found, f"{path} {name}")


def tables_page() -> str:
    """Return the page of all stored tables and arrays, from the classes of their rows."""
    lines = [
        "# Stored tables",
        "",
        "Every table that the graph stores as Parquet, and the arrays that it stores as npz, from",
        "the classes of their rows. A column that may be absent says so: absent is never 0, a tie",
        "or an empty text.",
        "",
        "## Assets",
        "",
        "| asset | partitions | made from | stored as |",
        "|---|---|---|---|",
    ]
    for row in ASSETS:
        sources = ", ".join(f"`{name}`" for name in (*row.reads, *row.after))
        note = "on request" if row.on_request else row.where.words
        name = f"`{row.name}`" + (f", {note}" if note else "")
        lines.append(
            f"| {name} | {' × '.join(row.axes) or '–'} | {sources or '–'} "
            f"| {_STORED[row.stored_as]} |"
        )
    for row in ASSETS:
        if not row.is_table:
            continue
        said = inspect.getdoc(row.row_type) or ""
        lines += [
            "",
            f"## {row.name}",
            "",
            _one_line(said.split("\n\n")[0]),
            f"One file for each {' × '.join(row.axes)}.",
            "",
            "| column | type | may be absent | meaning |",
            "|---|---|---|---|",
        ]
        for column in derive_schema(row.row_type):
            meaning = (column.metadata or {}).get(b"description", b"").decode()
            absent = "yes" if column.nullable else ""
            lines.append(f"| `{column.name}` | {_TYPES[column.type]} | {absent} | {meaning} |")
    lines += [
        "",
        "## Rating methods",
        "",
        "What the column `method` of `ratings`, `fair_comparison` and `people_ratings` names.",
        "",
        "| `method` | title | the number | needs, beside the matches | table |",
        "|---|---|---|---|---|",
    ]
    for each in METHODS.values():
        needs = f"`{each.needs}`" if each.needs else ""
        lines.append(
            f"| `{each.name}` | {each.title} | {each.meaning} | {needs} | `{each.asset}` |"
        )
    lines += [
        "",
        "## elo_traces",
        "",
        "Arrays in one npz archive.",
        "",
        "| array | meaning |",
        "|---|---|",
    ]
    for name, meaning in _attributes(EloTraces):
        lines.append(f"| `{name}` | {meaning} |")
    return "\n".join(lines) + "\n"


def _attributes(kind: type) -> list[tuple[str, str]]:
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, flags=re.MULTILINE)
    return [(name, _one_line(text)) for name, text in found]


def _one_line(text: str) -> str:
    return " ".join(text.split())


PAGES = {
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "tables.md": tables_page,
}
