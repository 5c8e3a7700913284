"""Style control on a tournament's own responses: which features can be controlled, and the fit.

`covariates` refuses a feature whose effect the battles do not determine. A tournament's responses
are what they are, so here such a feature is left out with the reason, and the others stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.covariates import (
    ControlledFit,
    CovariateEffect,
    fit_controlled,
)
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.ratings.sandwich import SandwichInterval
from tournament_assets.ratings.style_features import (
    STYLE_CONTROL,
    count_style,
    style_differences,
)
from tournament_assets.tournament.errors import InputError, Problems, RatingError

NOBODY = "nobody can be rated"
NOTHING_CONTROLLED = (
    "no feature of style can be controlled, so this would be the plain Bradley-Terry rating"
)


@dataclass(frozen=True, slots=True)
class RefusedFeature:
    """A feature whose effect the battles do not determine.

    Attributes:
        name: The feature.
        reason: Why it is left out.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class StyleControl:
    """Ratings at equal style, as far as the responses allow.

    Attributes:
        ratings: One per entrant, in the order of the tables; none where no feature is controlled.
        effects: One per feature that is controlled.
        refused: The other features.
        penalty: The ridge penalty on the effects, as in `ControlledFit`.
    """

    ratings: tuple[SandwichInterval, ...]
    effects: tuple[CovariateEffect, ...]
    refused: tuple[RefusedFeature, ...]
    penalty: float


def judged_differences(
    preferences: Preferences,
    responses: Mapping[tuple[str, str], str],
    *,
    names: Sequence[str] = STYLE_CONTROL,
) -> NDArray[np.float64]:
    """Return how the two responses of every battle differ in style.

    Args:
        preferences: Battles.
        responses: Every response, by entrant and prompt.
        names: The features.

    Returns:
        Shape (n_battles, n_features), as `style_differences` defines it.

    Raises:
        InputError: With every response that was judged and is not there.
    """
    first, second = (
        [
            (preferences.entrants[entrant], preferences.prompts[prompt])
            for entrant, prompt in zip(side, preferences.prompt_index, strict=True)
        ]
        for side in (preferences.first, preferences.second)
    )
    problems = Problems()
    problems.extend(
        f"the response of {entrant!r} to prompt {prompt_id!r} was judged and is not among the "
        "responses; expected it there; materialise the responses and the verdicts again"
        for entrant, prompt_id in sorted({*first, *second} - responses.keys())
    )
    problems.raise_if_any()
    features = {key: count_style(responses[key]) for key in {*first, *second}}
    return style_differences(
        [features[key] for key in first], [features[key] for key in second], names=names
    )


def control_style(
    preferences: Preferences,
    differences: NDArray[np.float64],
    *,
    names: Sequence[str] = STYLE_CONTROL,
    penalty: float,
    confidence: float,
    initial_rating: float = 1400.0,
) -> StyleControl:
    """Rate at equal style by every feature that can be controlled beside those before it.

    Features are tried in their order, so of two that settle each other the first stays.

    Args:
        preferences: Battles.
        differences: What `judged_differences` returns, shape (n_battles, n_features).
        names: The features.
        penalty: Ridge penalty on the effects; 0 for none.
        confidence: Coverage of the intervals, from the sandwich per prompt.
        initial_rating: What the ratings average to, in Elo points.

    Raises:
        InputError: If a difference is missing, their shape does not fit, or an option is wrong.
        RatingError: If the likelihood could not be maximised without any feature.
    """
    expected = (preferences.n_battles, len(names))
    if differences.shape != expected or not np.isfinite(differences).all():
        raise InputError(
            f"the differences have shape {differences.shape!r}, or some are missing; expected "
            f"{expected!r}, a number for every battle and feature"
        )

    def fit_by(columns: Sequence[int]) -> ControlledFit:
        return fit_controlled(
            preferences,
            differences[:, columns],
            names=[names[column] for column in columns],
            penalty=penalty,
            confidence=confidence,
            initial_rating=initial_rating,
        )

    fit = fit_by([])
    if all(each.rating is None for each in fit.ratings):
        refused = [RefusedFeature(name, NOBODY) for name in names]
        return StyleControl(fit.ratings, (), tuple(refused), penalty)
    kept: list[int] = []
    refused = []
    for column, name in enumerate(names):
        try:
            fit = fit_by([*kept, column])
        except (InputError, RatingError) as error:
            refused.append(RefusedFeature(name, str(error)))
        else:
            kept.append(column)
    ratings = fit.ratings if kept else tuple(map(_without_rating, fit.ratings))
    return StyleControl(ratings, fit.effects, tuple(refused), penalty)


def _without_rating(interval: SandwichInterval) -> SandwichInterval:
    note = interval.note if interval.rating is None else NOTHING_CONTROLLED
    return replace(interval, rating=None, standard_error=None, low=None, high=None, note=note)
