"""Style control on a tournament's own responses: which features can be controlled, and the fit.

Judges and people like long answers with lists and headings, whoever wrote them. Counts from the
Markdown say how much of that a response has; `covariates` says what it was worth, and refuses a
feature whose effect the battles do not determine. The responses of a tournament cannot be changed,
so here such a feature is left out, with the reason, and the others stay. Code is left out of every
count: a `#` or a `-` means something else there. Syntax: https://spec.commonmark.org/0.31.2/.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, Problems, RatingError
from tournament_assets.foundation.estimates import Rating
from tournament_assets.ratings.covariates import ControlledFit, CovariateEffect, fit_controlled
from tournament_assets.ratings.matches import Matches
from tournament_assets.tournament.prompts import AnswerKey

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
        list_items: Lines that begin a list item, numbered or not, nested or not.
        bold_spans: Spans between double asterisks or double underscores.
        headings: Lines that begin with one to six number signs.
    """

    words: int
    list_items: int
    bold_spans: int
    headings: int


STYLE_CONTROL = ("words", "list_items", "bold_spans", "headings")
"""The features of style control: one measure of length, and the three kinds of markup."""


def count_style(text: str) -> StyleFeatures:
    """Count a response's length and markup, without fenced code blocks and code spans.

    Indented lines are not taken as code, because inside lists they are text.
    """
    prose = _RULE.sub("", _without_code(text))
    return StyleFeatures(
        words=len(_WORD.findall(prose)),
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

    Returns:
        Shape (n_battles, n_features).
    """
    columns = [field.name for field in fields(StyleFeatures)]
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a style feature; expected some of {columns}")
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
    prose: list[str] = []
    fence = None
    for line in text.splitlines():
        fence_mark = _FENCE.match(line)
        if fence is None and fence_mark is not None:
            fence = fence_mark[1]
        elif fence is None:
            prose.append(line)
        elif (
            fence_mark is not None
            and fence_mark[1][0] == fence[0]
            and len(fence_mark[1]) >= len(fence)
            and not line.strip().strip(fence[0])
        ):
            fence = None
    return _CODE_SPAN.sub(" ", "\n".join(prose))


NOBODY = "no entrant can be rated"
NOTHING_CONTROLLED = (
    "no feature of style can be controlled, so this would be the plain Bradley-Terry rating"
)


@dataclass(frozen=True, slots=True)
class RefusedFeature:
    """A feature whose effect the battles do not determine, and why it is left out."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class StyleControl:
    """Ratings at equal style, as far as the responses allow.

    There is a rating per entrant, in the order of the tables (none if no feature is controlled), an
    effect per controlled feature, and every refused feature with the reason.
    """

    ratings: tuple[Rating, ...]
    effects: tuple[CovariateEffect, ...]
    refused: tuple[RefusedFeature, ...]


def judged_differences(
    matches: Matches,
    responses: Mapping[tuple[str, AnswerKey], str],
) -> NDArray[np.float64]:
    """Return how the responses of every match differ in style, as `style_differences` defines it.

    Args:
        responses: Every response, by entrant and what it answers.
    """
    samples = matches.sample_numbers.tolist()
    first, second = (
        [
            (matches.entrants[entrant], (matches.prompts[prompt], sample))
            for entrant, prompt, sample in zip(side, matches.prompt_index, samples, strict=True)
        ]
        for side in (matches.first, matches.second)
    )
    problems = Problems()
    problems.extend(
        f"the response of {entrant!r} to prompt {prompt_id!r} was judged and is not among the "
        "responses; expected it there; materialise the responses and the verdicts again"
        for entrant, (prompt_id, _) in sorted({*first, *second} - responses.keys())
    )
    problems.raise_if_any()
    features = {key: count_style(responses[key]) for key in {*first, *second}}
    return style_differences([features[key] for key in first], [features[key] for key in second])


def control_style(
    matches: Matches,
    differences: NDArray[np.float64],
    *,
    confidence: float,
    initial_rating: float = 1400.0,
) -> StyleControl:
    """Rate at equal style, adding each feature that can be controlled besides the earlier ones.

    Features are tried in order, so of two that determine each other the first stays.

    Args:
        differences: What `judged_differences` returns, shape (n_battles, n_features): a column for
            each feature of `STYLE_CONTROL`.
        confidence: Coverage of the intervals, from the sandwich per prompt.
        initial_rating: Mean of the ratings, in Elo points.

    Raises:
        InputError: If a difference is missing, their shape does not fit, or an option is wrong.
        RatingError: If the likelihood could not be maximised without any feature.
    """
    expected = (matches.n_matches, len(STYLE_CONTROL))
    if differences.shape != expected or not np.isfinite(differences).all():
        raise InputError(
            f"the differences have shape {differences.shape!r}, or some are missing; expected "
            f"{expected!r}, a number for every battle and feature"
        )

    def fit_by(columns: Sequence[int]) -> ControlledFit:
        return fit_controlled(
            matches,
            differences[:, columns],
            names=[STYLE_CONTROL[column] for column in columns],
            confidence=confidence,
            initial_rating=initial_rating,
        )

    fit = fit_by([])
    if all(each.value is None for each in fit.ratings):
        refused = [RefusedFeature(name, NOBODY) for name in STYLE_CONTROL]
        return StyleControl(fit.ratings, (), tuple(refused))
    used: list[int] = []
    refused = []
    for column, name in enumerate(STYLE_CONTROL):
        try:
            fit = fit_by([*used, column])
        except (InputError, RatingError) as error:
            refused.append(RefusedFeature(name, str(error)))
        else:
            used.append(column)
    ratings = fit.ratings if used else tuple(map(_without_rating, fit.ratings))
    return StyleControl(ratings, fit.effects, tuple(refused))


def _without_rating(rating: Rating) -> Rating:
    note = rating.note if rating.value is None else NOTHING_CONTROLLED
    return Rating(note=note, entrant=rating.entrant)
