"""Fills the templates; everything that comes from outside is escaped on the way in.

What each target would not take literally is told here and nowhere else. Sources:
Markdown: CommonMark 0.31, https://spec.commonmark.org/0.31.2/#backslash-escapes
CSV: https://owasp.org/www-community/attacks/CSV_Injection
Direction: https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters
"""

import base64
import functools
import hashlib
import html
import re
from itertools import takewhile
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tournament_assets.tournament.formatting import (
    format_kappa,
    format_plural,
    format_rate,
    format_share,
    join_names,
)

# What would begin markup, and no more, so that the source stays readable: an underscore inside a
# word means nothing, and ids are full of them; lists and rules begin at the start of a line only.
_MARKDOWN_SIGNS = re.compile(
    r"[\\`*\[\]|~$@#]|(?<![^\W_])_|_(?![^\W_])|^[-+=]|^\d+[.)](?!\S)|:(?=//)"
)

_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

_LATEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
}
_LATEX = str.maketrans(_LATEX_SIGNS)

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t")


def show_controls(text: str) -> str:
    """Return a text in which signs that steer a program or its direction are seen and do nothing.

    A name with such a sign may look like another one, may turn the numbers beside it round, and
    may begin a command to a terminal. Line breaks and tabs stay.
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_terminal(text: str) -> str:
    """Return a text in which whatever a terminal would not print as it is can be seen."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


def escape_csv(value: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula; anything else as it is.

    What begins like a formula is prefixed with an apostrophe, as OWASP advises. Every line break
    is a line feed, because Python's writer does not quote a cell for a carriage return.
    """
    if not isinstance(value, str):
        return value
    text = show_controls(value.replace("\r\n", "\n").replace("\r", "\n"))
    return f"'{text}" if text.lstrip(" \n").startswith(_FORMULA_SIGNS) else text


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is; a line break would begin a paragraph or a cell."""
    return show_controls(" ".join(text.split())).translate(_LATEX)


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line and inside a table too."""
    line = show_controls(" ".join(text.split()))
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


def render_page(template: str, name: str, **values: Any) -> str:
    """Return a page with its own style and script, which a content policy allows by their hashes.

    Args:
        template: The page's file in `templates/`; it takes `style`, `script` and their hashes.
        name: What the style's and the script's files are called, without `.css` and `.js`.
        values: What the template names besides.
    """
    style, script = render_template(f"{name}.css"), render_template(f"{name}.js")
    return render_template(
        template,
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        **values,
    )


def _source_hash(text: str) -> str:
    """Return the name by which a Content-Security-Policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def render_sentences(name: str, **values: Any) -> tuple[str, ...]:
    """Return the lines of a template of plain sentences, which whoever shows them escapes.

    Args:
        name: The file's name in `templates/`; it holds a sentence a line.
        values: What the template names; a line break in one of them becomes a space.
    """
    plain = _environment().overlay(autoescape=False, finalize=_on_one_line)
    return tuple(plain.get_template(name).render(**values).splitlines())


def render_paragraphs(name: str, **values: Any) -> list[str]:
    """Return the paragraphs of a template of plain sentences, which blank lines divide.

    Args:
        name: The file's name in `templates/`; it holds a sentence a line.
        values: What the template names.
    """
    lines = iter(render_sentences(name, **values))
    return [" ".join([first, *takewhile(bool, lines)]) for first in lines if first]


def _on_one_line(value: object) -> object:
    return " ".join(value.split()) if isinstance(value, str) else value


def render_macro(name: str, macro: str, *values: Any) -> str:
    """Return what one macro of a template makes of some values."""
    return str(getattr(_environment().get_template(name).module, macro)(*values))


@functools.cache
def _environment() -> Environment:
    def markdown_text(value: object) -> Markup:
        return Markup(escape_markdown(str(value)))  # noqa: S704 (escaped on this very line)

    def markdown_code(value: object) -> Markup:
        # Inside an indented block Markdown knows neither markup nor HTML.
        lines = show_controls(str(value)).splitlines()
        return Markup("\n".join(f"    {line}" for line in lines))  # noqa: S704

    def visible(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return show_controls(str(value)) if is_text else value

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
    environment.filters |= {
        "share": format_share,
        "plural": format_plural,
        "names": join_names,
        "rate": format_rate,
        "kappa": format_kappa,
    }
    environment.filters["zip"] = zip
    return environment
