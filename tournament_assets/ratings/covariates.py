"""Bradley-Terry ratings by log odds: strengths, covariates of the pair, and judges who differ.

The log odds that the first is preferred are g_j (s_first - s_second) + covariates @ b. With one
judge g is 1; with several, each has its discrimination g_j, which `judge_aware` explains. The
parameters form one vector: log strengths that average to 0, effects of the covariates, and where
there are several judges their discriminations, which average to 1.

`fit_controlled` rates at equal style: it removes the effect of differences in length or layout.
Unlike LMArena's style control, a difference is divided by its root mean square and not centred:
exchanging a battle's sides does not change the fit. Sources: Li, Angelopoulos and Chiang, "Does
style matter?", https://lmsys.org/blog/2024-08-28-style-control/ (covariates); "Judge-aware ranking
framework for evaluating large language models without ground truth",
https://arxiv.org/abs/2601.21817 (discriminations).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, Problems, RatingError
from tournament_assets.foundation.estimates import CELLS_AT_ONCE, Estimate, Rating
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.matches import Matches, require_confidence
from tournament_assets.ratings.sandwich import contrast_inverse, laplacian, with_error

_MAX_STEPS = 200

_MAX_LOG_ODDS = 30.0
"""Odds of e^30 to 1 count as certainty; where a maximum exists, battles stay far below. From
e^37 on rounding makes a chance 1 and the slope 0, so that an endless climb would look like a
maximum."""


def n_discriminations(data: Matches) -> int:
    """Return the number of discrimination parameters: one per judge, none with a single judge."""
    return len(data.judges) if len(data.judges) > 1 else 0


def n_parameters(data: Matches) -> int:
    """Return the number of parameters."""
    return len(data.entrants) + int(data.covariates.shape[1]) + n_discriminations(data)


def log_odds(data: Matches, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log odds that the first is preferred, shape (n_matches,)."""
    n = len(data.entrants)
    effects = parameters[n : n + data.covariates.shape[1]]
    odds: NDArray[np.float64] = _slopes(data, parameters) * _gaps(data, parameters)
    return odds + data.covariates @ effects


def log_likelihood(data: Matches, parameters: NDArray[np.float64]) -> float:
    """Return the logarithm of the chance of the preferences; a tie is half of each win."""
    odds = log_odds(data, parameters)
    return float(data.weight @ (data.preference * odds - np.logaddexp(0, odds)))


def _gaps(data: Matches, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    strengths = parameters[: len(data.entrants)]
    gaps: NDArray[np.float64] = strengths[data.first] - strengths[data.second]
    return gaps


def _slopes(data: Matches, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    if not n_discriminations(data):
        return np.ones(data.n_matches)
    slopes: NDArray[np.float64] = parameters[-len(data.judges) :][data.judge_index]
    return slopes


def _gather(
    data: Matches, parameters: NDArray[np.float64], pull: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum the matches' slopes of the log odds, weighed by `pull`, shape (n_parameters,)."""
    by_slope = pull * _slopes(data, parameters)
    gained = np.bincount(data.first, by_slope, minlength=len(data.entrants))
    lost = np.bincount(data.second, by_slope, minlength=len(data.entrants))
    parts = [gained - lost, pull @ data.covariates]
    if size := n_discriminations(data):
        by_gap = pull * _gaps(data, parameters)
        parts.append(np.bincount(data.judge_index, by_gap, minlength=size))
    return np.concatenate(parts)


def information(
    data: Matches,
    parameters: NDArray[np.float64],
    curvature: NDArray[np.float64],
    *,
    pull: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Sum `curvature` times the outer squares of the slopes of the matches' log odds.

    Args:
        curvature: Of each match, shape (n_matches,).
        pull: What each match asks of its log odds, shape (n_matches,). With it the result is what
            was observed, the negative second derivative; without it what the model expects.

    Returns:
        Shape (n_parameters, n_parameters).
    """
    n, n_fixed = len(data.entrants), len(data.entrants) + data.covariates.shape[1]
    slopes = _slopes(data, parameters)
    table = np.zeros((parameters.size, parameters.size))
    table[:n, :n] = laplacian(data.first, data.second, curvature * slopes**2, n)
    columns = {n + index: values for index, values in enumerate(data.covariates.T)}
    if size := n_discriminations(data):
        gaps = _gaps(data, parameters)
        columns |= {n_fixed + judge: gaps * (data.judge_index == judge) for judge in range(size)}
    for column, values in columns.items():
        table[:, column] = _gather(data, parameters, curvature * values)
        table[column, :] = table[:, column]
    if pull is not None:
        for judge in range(n_discriminations(data)):
            judge_pull = pull * (data.judge_index == judge)
            balance = np.bincount(data.first, judge_pull, minlength=n)
            balance = balance - np.bincount(data.second, judge_pull, minlength=n)
            table[:n, n_fixed + judge] -= balance
            table[n_fixed + judge, :n] -= balance
    return table


def maximise(data: Matches, *, start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Maximise the log-likelihood.

    Args:
        data: The matches, among entrants that wins connect.
        start: Where to begin; with several judges it must hold strengths that differ.

    Raises:
        RatingError: If the likelihood rises without end.
    """
    n, n_fixed = len(data.entrants), len(data.entrants) + data.covariates.shape[1]
    parameters = np.zeros(n_parameters(data)) if start is None else start.copy()
    height = log_likelihood(data, parameters)
    for _ in range(_MAX_STEPS):
        odds = log_odds(data, parameters)
        if np.abs(odds).max() > _MAX_LOG_ODDS:
            break
        expected = 1 / (1 + np.exp(-odds))
        pull = data.weight * (data.preference - expected)
        gradient = _gather(data, parameters, pull)
        hessian = information(data, parameters, data.weight * expected * (1 - expected))
        _fill_flat(hessian, n, n_fixed)
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            # Every battle is all but certain, so the likelihood is flat.
            break
        share = 1.0
        while True:
            moved = parameters + share * step
            moved_height = log_likelihood(data, moved)
            # At the top only rounding changes the height, so the step need not be halved.
            if moved_height >= height - 1e-12 * abs(height) or share < 1e-9:
                break
            share /= 2
        parameters, height = moved, moved_height
        if np.abs(step).max() < 1e-9:
            parameters[:n] -= parameters[:n].mean()
            return parameters
    raise RatingError(
        "the likelihood of the ratings rises without end, as when a covariate alone tells who "
        "wins; expected battles that some responses win against it"
    )


def _fill_flat(hessian: NDArray[np.float64], n: int, n_fixed: int) -> None:
    """Give the directions that the likelihood does not know an eigenvalue, in place.

    Only differences of strengths matter, and only products of strengths and discriminations. The
    constants give the matrix an inverse, and keep both from drifting: steps in them sum to zero.
    """
    hessian[:n, :n] += np.trace(hessian[:n, :n]) / n**2
    if n_judges := hessian.shape[0] - n_fixed:
        hessian[n_fixed:, n_fixed:] += np.trace(hessian[n_fixed:, n_fixed:]) / n_judges**2


def sandwich_covariance(
    data: Matches, parameters: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """Return the covariance from sampling prompts, NaN with a single one, and their number."""
    n, n_fixed = len(data.entrants), len(data.entrants) + data.covariates.shape[1]
    total = parameters.size
    expected = 1 / (1 + np.exp(-log_odds(data, parameters)))
    pull = data.weight * (data.preference - expected)
    table = information(data, parameters, data.weight * expected * (1 - expected), pull=pull)
    # Strengths average to 0 and discriminations to 1, so the inverse must map onto such alone.
    table[:n, :n] += 1.0
    table[n_fixed:, n_fixed:] += 1.0
    bread = np.linalg.inv(table)
    bread[:n, :] -= bread[:n, :].mean(axis=0)
    slopes, gaps = _slopes(data, parameters), _gaps(data, parameters)
    _, prompt = np.unique(data.prompt_index, return_inverse=True)
    order = np.argsort(prompt, kind="stable")
    prompt = prompt[order]
    n_prompts = int(prompt[-1]) + 1
    at_once = max(1, CELLS_AT_ONCE // total)
    meat = np.zeros((total, total))
    for start in range(0, n_prompts, at_once):
        stop = min(n_prompts, start + at_once)
        span = slice(*np.searchsorted(prompt, [start, stop]))
        rows, here = order[span], prompt[span] - start
        summed = np.empty((stop - start, total))
        summed[:, :n] = _sum_by(here, data.first[rows], pull[rows] * slopes[rows], stop - start, n)
        summed[:, :n] -= _sum_by(
            here, data.second[rows], pull[rows] * slopes[rows], stop - start, n
        )
        for column in range(data.covariates.shape[1]):
            summed[:, n + column] = np.bincount(
                here, pull[rows] * data.covariates[rows, column], minlength=stop - start
            )
        if size := n_discriminations(data):
            judges = data.judge_index[rows]
            summed[:, n_fixed:] = _sum_by(here, judges, pull[rows] * gaps[rows], stop - start, size)
        meat += summed.T @ summed
    factor = n_prompts / (n_prompts - 1) if n_prompts > 1 else np.nan
    return bread @ meat @ bread.T * factor, n_prompts


def _sum_by(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    n_rows: int,
    n_columns: int,
) -> NDArray[np.float64]:
    flat = np.bincount(rows * n_columns + columns, values, minlength=n_rows * n_columns)
    return flat.astype(np.float64).reshape(n_rows, n_columns)


def _refuse_confounded(data: Matches, *, names: Sequence[str]) -> None:
    """Refuse covariates whose effects cannot be separated from the strengths or from each other."""
    n = len(data.entrants)
    table = information(data, np.zeros(n + data.covariates.shape[1]), data.weight)
    # The part of the covariates that the entrants do not explain.
    across = table[:n, n:]
    residual = table[n:, n:] - across.T @ contrast_inverse(table[:n, :n]) @ across
    problems = Problems()
    for index, name in enumerate(names):
        whole = table[n + index, n + index]
        if whole == 0:
            problems.add(f"covariate {name!r} never differs between two responses; leave it out")
        elif residual[index, index] < 1e-9 * whole:
            problems.add(
                f"covariate {name!r} is settled by who answered, so its effect and the strengths "
                "cannot be told apart; leave it out"
            )
    problems.raise_if_any()
    scale = np.sqrt(np.diagonal(residual))
    if names and np.linalg.eigvalsh(residual / np.outer(scale, scale))[0] < 1e-9:
        raise InputError(
            f"some of the covariates {list(names)!r} are settled by the others and by who "
            "answered; leave one out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CovariateEffect(Estimate):
    """The effect of a difference between two responses.

    The value is the Elo points that a response gains from one more unit, all else equal.

    Attributes:
        scale: The covariate's root mean square over the battles, which is one unit of the effect.
        standard_error: Elo points, from the sandwich; None without spread, as are the interval's
            ends.
    """

    name: str
    scale: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class ControlledFit:
    """Ratings at equal style.

    Attributes:
        ratings: One per entrant, in the order of the tables.
        effects: One per covariate, in their order; empty where nobody can be rated.
    """

    ratings: tuple[Rating, ...]
    effects: tuple[CovariateEffect, ...]


def fit_controlled(
    matches: Matches,
    differences: NDArray[np.float64],
    *,
    names: Sequence[str],
    confidence: float,
    initial_rating: float = 1400.0,
) -> ControlledFit:
    """Rate the entrants that Bradley-Terry rates, as if their responses did not differ in style.

    Args:
        differences: First response's minus second response's value of every covariate, shape
            (n_battles, n_covariates).
        initial_rating: Mean of the ratings, in Elo points.

    Raises:
        InputError: With everything wrong with the covariates: a shape that does not fit, a missing
            value, one that never differs, or some that the entrants or other covariates determine.
        RatingError: If the likelihood could not be maximised, as when one covariate predicts every
            winner.
    """
    require_confidence(confidence)
    _refuse_unusable(matches, differences, names=names)
    results = fit_bradley_terry(matches, initial_rating=initial_rating)
    rated = np.array([each.value is not None for each in results], dtype=np.bool_)
    rows = np.flatnonzero(rated[matches.first] & rated[matches.second])
    if rows.size == 0:
        return ControlledFit(results, ())
    n_entrants = int(rated.sum())
    place = np.cumsum(rated) - 1
    scale = np.sqrt((differences[rows] ** 2).mean(axis=0))
    data = replace(
        matches.among(rated), covariates=differences[rows] / np.where(scale > 0, scale, 1.0)
    )
    _refuse_confounded(data, names=names)
    parameters = maximise(data)
    covariance, n_prompts = sandwich_covariance(data, parameters)
    elo = parameters * ELO_PER_NAT
    variance = np.diagonal(covariance) * ELO_PER_NAT**2

    def estimate(value: float, index: int, name: str) -> Rating:
        rating = Rating(value, entrant=name)
        return with_error(rating, variance[index], n_prompts=n_prompts, confidence=confidence)

    ratings = [
        estimate(initial_rating + float(elo[place[index]]), place[index], result.entrant)
        if rated[index]
        else result
        for index, result in enumerate(results)
    ]
    effects = []
    for index, name in enumerate(names, start=n_entrants):
        effect = estimate(float(elo[index]), index, name)
        effects.append(
            CovariateEffect(
                *(effect.value, effect.low, effect.high),
                name=name,
                scale=float(scale[index - n_entrants]),
                standard_error=effect.standard_error,
            )
        )
    return ControlledFit(tuple(ratings), tuple(effects))


def _refuse_unusable(
    matches: Matches, differences: NDArray[np.float64], *, names: Sequence[str]
) -> None:
    expected = (matches.n_matches, len(names))
    if differences.shape != expected:
        raise InputError(
            f"the differences have shape {differences.shape!r}; expected {expected!r}, a row per "
            "battle and a column per covariate"
        )
    problems = Problems()
    for name, column in zip(names, differences.T, strict=True):
        missing = ~np.isfinite(column)
        if missing.any():
            problems.add(
                f"covariate {name!r} is missing in battle {int(np.argmax(missing))}, one of "
                f"{int(missing.sum())}; expected a number for every battle"
            )
    problems.raise_if_any()
