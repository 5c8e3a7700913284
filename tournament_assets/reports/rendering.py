"""Templates, and the escaping of all outside text that goes into them.

This module alone knows what each target would not take literally. Sources:
Markdown: CommonMark 0.31, https://spec.commonmark.org/0.31.2/#backslash-escapes
CSV: https://owasp.org/www-community/attacks/CSV_Injection
Direction: https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters
"""

import base64
import functools
import hashlib
import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tournament_assets.foundation.extensions import added_folders
from tournament_assets.foundation.formatting import (
    format_confidence,
    format_gap,
    format_kappa,
    format_margin,
    format_plural,
    format_proportion,
    format_rate,
    format_share,
    format_usd,
    join_names,
    name_some,
)

if TYPE_CHECKING:
    from jinja2 import Environment

# Escape only what would begin markup, so that the source stays readable: underscores inside words,
# common in ids, mean nothing; lists and rules begin only at the start of a line.
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

_PACKAGE = Path(__file__).parents[1]


def show_controls(text: str) -> str:
    """Return a text with its control and direction characters made visible and harmless.

    A name with such a character may look like another name, reverse the numbers beside it or begin
    a terminal command. Line breaks and tabs stay.
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_terminal(text: str) -> str:
    """Return a text in which everything that a terminal would not print literally is visible."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


def escape_csv(value: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula; other text is unchanged.

    Names in a list are separated by spaces, or a JSON list where one of them holds a space.

    Text that begins like a formula gets an apostrophe in front, as OWASP advises. Every line break
    is a line feed, because Python's writer does not quote a cell for a carriage return.
    """
    if isinstance(value, tuple):
        names = " ".join(value)
        is_plain = tuple(names.split()) == value and not names.startswith("[")
        value = names if is_plain else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    text = show_controls(value.replace("\r\n", "\n").replace("\r", "\n"))
    return f"'{text}" if text.lstrip(" \n'").startswith(_FORMULA_SIGNS) else text


def unescape_csv(text: str) -> str:
    """Return a text without the apostrophe that `escape_csv` put in front."""
    return text[1:] if text == escape_csv(text[1:]) else text


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets literally, without line breaks, which could end a paragraph."""
    return show_controls(" ".join(text.split())).translate(_LATEX)


def break_latex(text: str) -> str:
    """Return text as `escape_latex` does, whose long names TeX may divide."""
    return re.sub(r"\\_|[./](?=\w)", r"\g<0>\\allowbreak{}", escape_latex(text))


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows literally on one line, also inside a table."""
    line = show_controls(" ".join(text.split()))
    escaped = _MARKDOWN_SIGNS.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", line)
    return html.escape(escaped, quote=False)


def keep_whole(text: str) -> Markup:
    """Return a text as HTML in which a name breaks only where a whole line has no room for it."""
    parts = re.split(r"(\S*\w[-_.…]+\w\S*)", show_controls(text))
    return Markup("").join(
        Markup('<span class="name">{}</span>').format(part) if place % 2 else part
        for place, part in enumerate(parts)
    )


def render_template(name: str, **values: Any) -> str:
    """Return a template of this package, filled in.

    Args:
        name: The file's name in `templates/`; of one that is added, the name of the extra or the
            extension and the path in its folder.
        values: Values for the template's names.
    """
    return _environment().get_template(name).render(**values)


def render_page(template: str, name: str, **values: Any) -> str:
    """Return a page with its own style and script, which a content policy allows by their hashes.

    Args:
        template: The page's file in `templates/`; it takes `style`, `script` and their hashes.
        name: Name of the style and script files, without `.css` and `.js`.
        values: Values for the template's other names.
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
    """Return the hash with which a Content-Security-Policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def render_sentences(name: str, **values: Any) -> tuple[str, ...]:
    """Return the lines of a template of plain sentences; the caller escapes them.

    Args:
        name: The file's name in `templates/`; it holds a sentence a line.
        values: Values for the template's names; their line breaks become spaces.
    """
    return tuple(_plain_environment().get_template(name).render(**values).splitlines())


def render_part(name: str, macro: str, *values: Any) -> list[str]:
    """Return the lines of one macro of a template of plain sentences; the caller escapes them.

    Args:
        name: The file's name in `templates/`; its macros hold a sentence a line.
        macro: The macro's name.
        values: Its values; their line breaks become spaces.
    """
    template = _plain_environment().get_template(name)
    return str(getattr(template.module, macro)(*values)).splitlines()


def _on_one_line(value: object) -> object:
    return " ".join(value.splitlines()) if isinstance(value, str) else value


def render_macro(name: str, macro: str, *values: Any) -> str:
    """Return the output of one macro of a template."""
    return str(getattr(_environment().get_template(name).module, macro)(*values))


@functools.cache
def _plain_environment() -> "Environment":
    return _environment().overlay(autoescape=False, finalize=_on_one_line)


@functools.cache
def _environment() -> "Environment":
    # Loaded here, because most commands fill no template.
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined

    def markdown_text(value: object) -> Markup:
        return Markup(escape_markdown(str(value)))  # noqa: S704 (escaped on this very line)

    def markdown_code(value: object) -> Markup:
        # Markdown interprets neither markup nor HTML in an indented block.
        lines = show_controls(str(value)).splitlines()
        return Markup("\n".join(f"    {line}" for line in lines))  # noqa: S704

    def visible(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, Markup)
        return show_controls(str(value)) if is_text else value

    folders = added_folders()
    added = PrefixLoader({name: FileSystemLoader(place) for name, place in folders.items()})
    environment = Environment(
        finalize=visible,
        loader=ChoiceLoader([FileSystemLoader(_PACKAGE / "reports" / "templates"), added]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "md": markdown_text,
        "code": markdown_code,
        "whole": keep_whole,
        "zip": zip,
        "number": "{:,.0f}".format,
        "share": format_share,
        "usd": format_usd,
        "plural": format_plural,
        "names": join_names,
        "some": name_some,
        "gap": format_gap,
        "proportion": format_proportion,
        "rate": format_rate,
        "confidence": format_confidence,
        "kappa": format_kappa,
        "margin": format_margin,
        "latex": escape_latex,
        "tex": break_latex,
        "num": "\\num{{{}}}".format,
        "per_cent": "\\SI{{{}}}{{\\percent}}".format,
    }
    return environment
