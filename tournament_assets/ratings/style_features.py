"""How long a response is and how it is laid out, counted from its Markdown.

Judges and people like long answers with lists and headings, whoever wrote them. These counts say
how much of that a response has; `covariates` says what it was worth. Code is left out of every
count: a `#` or a `-` means something else there. Syntax: https://spec.commonmark.org/0.31.2/.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tournament_assets.tournament.errors import InputError

# A fence that is never closed encloses the rest of the text.
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:[ \t]|$)", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
_RULE = re.compile(r"^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$", re.MULTILINE)
_BOLD = re.compile(
    r"\*\*(?=\S)(?:(?!\n[ \t]*\n).)+?(?<=\S)\*\*|(?<!\w)__(?=\S).+?(?<=\S)__(?!\w)", re.S
)
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")


@dataclass(frozen=True, slots=True)
class StyleFeatures:
    """Counts in one response, code left out.

    Attributes:
        words: Runs of letters and digits; apostrophes and hyphens join them.
        characters: Characters other than white space.
        list_items: Lines that begin a list item, numbered or not, nested ones too.
        bold_spans: Spans between double asterisks or double underscores.
        headings: Lines that begin with one to six number signs.
    """

    words: int
    characters: int
    list_items: int
    bold_spans: int
    headings: int


STYLE_CONTROL = ("words", "list_items", "bold_spans", "headings")
"""The features of style control: length once, and the three marks."""


def count_style(text: str) -> StyleFeatures:
    """Count a response's length and marks outside code.

    Fenced blocks and spans between backticks are code. Indented lines are not taken as code,
    because inside lists they are text.

    Args:
        text: Markdown, or plain text.
    """
    prose = _RULE.sub("", _without_code(text))
    return StyleFeatures(
        words=len(_WORD.findall(prose)),
        characters=len("".join(prose.split())),
        list_items=len(_LIST_ITEM.findall(prose)),
        bold_spans=len(_BOLD.findall(prose)),
        headings=len(_HEADING.findall(prose)),
    )


def style_differences(
    first: Sequence[StyleFeatures],
    second: Sequence[StyleFeatures],
    *,
    names: Sequence[str] = STYLE_CONTROL,
) -> NDArray[np.float64]:
    """Return how much more of each feature the first response of every battle has.

    A feature that one response has a times and the other b times differs by
    (a - b) / (a + b + 1): from -1 to 1, the same for 10 words against 20 as for 100 against 200
    but for the 1, which gives 0 against 0 a meaning. Source: Li, Angelopoulos and Chiang, "Does
    style matter?", https://lmsys.org/blog/2024-08-28-style-control/.

    Args:
        first: Features of the first entrant's responses.
        second: Features of the second entrant's responses.
        names: Which features.

    Returns:
        Shape (n_battles, n_features).

    Raises:
        InputError: If the two lists differ in length or a name is not a feature.
    """
    columns = [field.name for field in fields(StyleFeatures)]
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise InputError(f"{unknown[0]!r} is no style feature; expected some of {columns}")
    if len(first) != len(second):
        raise InputError(
            f"there are {len(first)} first and {len(second)} second responses; expected as many"
        )
    chosen = [columns.index(name) for name in names]
    a, b = (
        np.array([astuple(each) for each in side], dtype=np.float64).reshape(-1, len(columns))
        for side in (first, second)
    )
    difference: NDArray[np.float64] = ((a - b) / (a + b + 1))[:, chosen]
    return difference


def _without_code(text: str) -> str:
    kept: list[str] = []
    fence = None
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence is None and found is not None:
            fence = found[1]
        elif fence is None:
            kept.append(line)
        elif (
            found is not None
            and found[1][0] == fence[0]
            and len(found[1]) >= len(fence)
            and not line.strip().strip(fence[0])
        ):
            fence = None
    return _CODE_SPAN.sub(" ", "\n".join(kept))
