"""Fills the templates; everything that comes from outside is escaped on the way in.

Source of the Markdown rules: CommonMark 0.31, https://spec.commonmark.org/0.31.2/#backslash-escapes
"""

import functools
import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.formatting import show_directions

if TYPE_CHECKING:
    from jinja2 import Environment

# What would begin markup, and no more, so that the source stays readable: an underscore inside a
# word means nothing, and ids are full of them; lists and rules begin at the start of a line only.
_MARKDOWN_SIGNS = re.compile(
    r"[\\`*\[\]|~$@#]|(?<![^\W_])_|_(?![^\W_])|^[-+=]|^\d+[.)](?!\S)|:(?=//)"
)

_LIGHTS = {
    "green": "light good",
    "amber": "light fair",
    "yellow": "light fair",
    "red": "light bad",
    "grey": "light unknown",
    "gray": "light unknown",
    "not measured": "light unknown",
    "no threshold": "light unknown",
}
_LONGEST_NUMBER = 36
"""Signs of the longest cell that is a number with what belongs to it."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table as text, for Markdown and HTML alike.

    Attributes:
        headers: Names of the columns.
        rows: One text per column.
        n_labels: Columns at the left that name the row; the others hold numbers.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int = 1


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report under a heading of its own.

    Attributes:
        title: The heading.
        sentences: What it says, most important first.
        tables: What it shows, each under a title of its own; a title may be empty.
    """

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[tuple[str, ReportTable], ...] = ()


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line and inside a table too."""
    line = show_directions(" ".join(text.split()))
    escaped = _MARKDOWN_SIGNS.sub(lambda match: _escape_last(match[0]), line)
    return html.escape(escaped, quote=False)


def _escape_last(signs: str) -> str:
    return f"{signs[:-1]}\\{signs[-1]}"


def render_template(name: str, **values: Any) -> str:
    """Return a template of this package, filled in.

    Args:
        name: The file's name in `templates/`.
        values: What the template names.
    """
    return _environment().get_template(name).render(**values)


@functools.cache
def _environment() -> "Environment":
    # Imported here, so that loading the definitions does not pay for it.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def markdown_text(value: object) -> Markup:
        return Markup(escape_markdown(str(value)))  # noqa: S704 (escaped on this very line)

    def markdown_code(value: object) -> Markup:
        # Inside an indented block Markdown knows neither markup nor HTML.
        lines = show_directions(str(value)).splitlines()
        return Markup("\n".join(f"    {line}" for line in lines))  # noqa: S704

    def visible(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return show_directions(str(value)) if is_text else value

    environment = Environment(
        finalize=visible,
        loader=PackageLoader("tournament_assets.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown_text
    environment.filters["code"] = markdown_code
    environment.filters["zip"] = zip
    environment.filters["shade"] = _shade
    environment.filters["light"] = _light
    environment.filters["column_classes"] = _column_classes
    return environment


def _shade(rate: float) -> str:
    """Return the class of a win rate's colour: blue for winning, orange for losing."""
    return f"r{round(20 * rate)}"


def _light(text: str) -> str:
    """Return the class of a cell that says how a test turned out, or nothing."""
    return _LIGHTS.get(text.strip().lower(), "")


def _column_classes(grid: ReportTable) -> list[str]:
    """Return how each column is set: as a label, as prose, or as numbers."""
    classes = []
    for index in range(len(grid.headers)):
        cells = [row[index] for row in grid.rows]
        if index < grid.n_labels or any(map(_light, cells)):
            classes.append("label")
        else:
            is_prose = any(len(cell) > _LONGEST_NUMBER for cell in cells)
            classes.append("label prose" if is_prose else "")
    return classes
