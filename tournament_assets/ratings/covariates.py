"""Bradley-Terry ratings at equal style: what a difference in length or layout was worth, taken off.

The chance that the first entrant is preferred has the log odds s_first - s_second + sum of b x,
where x are differences between the two responses. Unlike LMArena's style control, x is divided by
its root mean square and not centred: so the same battle with its sides exchanged says the same.
Source of the model: Li, Angelopoulos and Chiang, "Does style matter?",
https://lmsys.org/blog/2024-08-28-style-control/.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.covariate_likelihood import (
    BattleDesign,
    maximise,
    refuse_confounded,
    sandwich_covariance,
)
from tournament_assets.ratings.options import require_confidence
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.ratings.sandwich import (
    SamplingUnit,
    SandwichInterval,
    no_spread_note,
)
from tournament_assets.ratings.student_t import two_sided_quantile
from tournament_assets.tournament.errors import InputError, Problems


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """What a difference between two responses was worth.

    Attributes:
        name: The covariate.
        scale: Its root mean square over the battles; one unit of the effect is this much of it.
        effect: Elo points that a response gains by one unit more of it, all else equal.
        standard_error: Elo points, from the sandwich; None where the units show no spread.
        low: Lower end of the interval; None in the same case.
        high: Upper end.
    """

    name: str
    scale: float
    effect: float
    standard_error: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ControlledFit:
    """Ratings at equal style.

    Attributes:
        ratings: One per entrant, in the order of the tables.
        effects: One per covariate, in their order; empty where nobody can be rated.
        penalty: The ridge penalty on the effects: half of it times the sum of their squares, in
            log odds per unit, was taken off the log-likelihood summed over battles. Strengths
            are not penalised. Above 0 it pulls the effects, and their intervals, towards 0.
        unit: What was drawn at random.
        n_units: How many of them have a battle among the rated entrants.
    """

    ratings: tuple[SandwichInterval, ...]
    effects: tuple[CovariateEffect, ...]
    penalty: float
    unit: SamplingUnit
    n_units: int


def fit_controlled(
    preferences: Preferences,
    differences: NDArray[np.float64],
    *,
    names: Sequence[str],
    penalty: float,
    confidence: float,
    unit: SamplingUnit = SamplingUnit.PROMPT,
    initial_rating: float = 1400.0,
) -> ControlledFit:
    """Rate the entrants that Bradley-Terry rates, as if their responses did not differ in style.

    Args:
        preferences: Battles.
        differences: First response's minus second response's value of every covariate, shape
            (n_battles, n_covariates).
        names: The covariates.
        penalty: Ridge penalty on the effects; 0 for none. arena-rank's `reg`, which is per battle,
            times the number of battles is the same thing.
        confidence: Coverage of the intervals.
        unit: What was drawn at random.
        initial_rating: What the ratings average to, in Elo points.

    Raises:
        InputError: With everything wrong with the covariates: a shape that does not fit, a missing
            value, one that never differs, some that are settled by who answered or by one another.
        RatingError: If the likelihood could not be maximised, as when a covariate alone tells
            who wins every battle and there is no penalty.
    """
    require_confidence(confidence)
    _refuse_unusable(preferences, differences, names=names, penalty=penalty)
    results = fit_bradley_terry(preferences, initial_rating=initial_rating)
    rated = np.array([each.rating is not None for each in results], dtype=np.bool_)
    rows = np.flatnonzero(rated[preferences.first] & rated[preferences.second])
    if rows.size == 0:
        unrated = tuple(
            SandwichInterval(each.entrant, None, None, None, None, each.note) for each in results
        )
        return ControlledFit(unrated, (), penalty, unit, 0)
    n_entrants = int(rated.sum())
    place = np.cumsum(rated) - 1
    scale = np.sqrt((differences[rows] ** 2).mean(axis=0))
    data = BattleDesign(
        first=place[preferences.first[rows]],
        second=place[preferences.second[rows]],
        preference=preferences.preference[rows],
        weight=preferences.weight[rows],
        x=differences[rows] / np.where(scale > 0, scale, 1.0),
        n_entrants=n_entrants,
    )
    refuse_confounded(data, names=names)
    parameters = maximise(data, penalty=penalty)
    units = np.arange(rows.size) if unit is SamplingUnit.BATTLE else preferences.prompt_index[rows]
    covariance, n_units = sandwich_covariance(data, parameters, units, penalty=penalty)
    elo = parameters * ELO_PER_NAT
    variance = np.diagonal(covariance) * ELO_PER_NAT**2
    errors: list[float | None] = [
        float(np.sqrt(each)) if each > 1e-18 * ELO_PER_NAT**2 else None for each in variance
    ]
    quantile = (
        two_sided_quantile(confidence, degrees_of_freedom=n_units - 1) if n_units > 1 else None
    )
    no_spread = no_spread_note(unit, n_units)
    intervals = []
    for index, result in enumerate(results):
        if not rated[index]:
            intervals.append(SandwichInterval(result.entrant, None, None, None, None, result.note))
            continue
        rating = initial_rating + float(elo[place[index]])
        error = errors[place[index]]
        low, high = _ends(rating, error, quantile)
        note = no_spread if error is None else None
        intervals.append(SandwichInterval(result.entrant, rating, error, low, high, note))
    effects = []
    for index, name in enumerate(names):
        effect, error = float(elo[n_entrants + index]), errors[n_entrants + index]
        low, high = _ends(effect, error, quantile)
        effects.append(CovariateEffect(name, float(scale[index]), effect, error, low, high))
    return ControlledFit(tuple(intervals), tuple(effects), penalty, unit, n_units)


def _ends(
    value: float, error: float | None, quantile: float | None
) -> tuple[float | None, float | None]:
    if error is None or quantile is None:
        return None, None
    return value - error * quantile, value + error * quantile


def _refuse_unusable(
    preferences: Preferences,
    differences: NDArray[np.float64],
    *,
    names: Sequence[str],
    penalty: float,
) -> None:
    expected = (preferences.n_battles, len(names))
    if differences.shape != expected:
        raise InputError(
            f"the differences have shape {differences.shape!r}; expected {expected!r}, a row per "
            "battle and a column per covariate"
        )
    problems = Problems()
    if not (np.isfinite(penalty) and penalty >= 0):
        problems.add(f"penalty is {penalty!r}; expected 0 or a positive number")
    for name, column in zip(names, differences.T, strict=True):
        missing = ~np.isfinite(column)
        if missing.any():
            problems.add(
                f"covariate {name!r} is missing in battle {int(np.argmax(missing))}, one of "
                f"{int(missing.sum())}; expected a number for every battle"
            )
    problems.raise_if_any()
