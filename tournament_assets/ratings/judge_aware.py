"""Bradley-Terry ratings from judges who differ in discrimination and in position bias.

P(the first shown wins | judge j) = 1 / (1 + exp(-(g_j (s_a - s_b) + b_j))), ties as half wins, with
discriminations g_j that average to 1 and slot effects b_j. A judge whose verdicts depend less on
the entrants counts less; no human verdicts are needed. Errors that the judges share, as those of
one family do, go undetected. Source: "Judge-aware ranking framework for evaluating large language
models without ground truth", https://arxiv.org/abs/2601.21817; the slot term is added, and the
logarithms of the discriminations do not sum to 0, since a coin's discrimination has none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, RatingError
from tournament_assets.foundation.estimates import Estimate, Rating
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, find_standing, fit_bradley_terry
from tournament_assets.ratings.covariates import (
    log_likelihood,
    maximise,
    sandwich_covariance,
)
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import Matches, require_confidence
from tournament_assets.ratings.sandwich import no_spread_note

NO_VERDICT = "it gave no verdict on two different texts"
UNCONNECTED = "its verdicts alone do not connect the entrants, so its discrimination has no bound"
SLOT_DECIDES = "who won and the slot leave its slot effect without a bound"
NOT_FITTED = "the judges' verdicts have no most likely ratings: too few of them, or too one-sided"
ALL_ALIKE = "no judge's discrimination is known, so all judges count alike"


@dataclass(frozen=True, slots=True)
class JudgeTraits:
    """One judge's discrimination and slot effect.

    Attributes:
        n_verdicts: Presentations of two rated entrants with a verdict.
        discrimination: How strongly the verdicts depend on the entrants, where the judges' mean is
            1; about 0 for a coin. None where it has no estimate, with a note if others have one.
        slot_logits: The log odds by which the first slot is preferred between equals.
        note: Why something is missing; None if nothing is.
    """

    judge: str
    n_verdicts: int
    discrimination: Estimate | None
    slot_logits: Estimate | None
    note: str | None


@dataclass(frozen=True, slots=True, eq=False)
class JudgeAwareFit:
    """Ratings from several judges, or from one with its slot effect taken off.

    Attributes:
        ratings: One per entrant, in the order of the tables.
        judges: One per judge, in the order of the tables.
        log_likelihood: Of the verdicts that count; None where nobody is rated.
        covariance: Of the ratings, Elo points squared, shape (n_entrants, n_entrants); NaN where
            there is no error.
        n_prompts: Prompts with a verdict among the rated entrants.
    """

    ratings: tuple[Rating, ...]
    judges: tuple[JudgeTraits, ...]
    log_likelihood: float | None
    covariance: NDArray[np.float64]
    n_prompts: int


def fit_judge_aware(
    matches: Matches,
    slots: NDArray[np.float64],
    *,
    confidence: float,
    initial_rating: float = 1400.0,
) -> JudgeAwareFit:
    """Rate the entrants from presentations to one or several judges.

    The largest group of entrants is rated that the verdicts of all judges connect. A judge is set
    aside, with a note, if the likelihood of its own verdicts has no maximum: one that always
    prefers an entrant would count without bound. If nothing tells the others apart, they count
    alike.

    Args:
        matches: One for each presentation that has a verdict, with its judge.
        slots: 1 where the match's first entrant was shown first, -1 where its second was, 0 where
            nothing was shown because both texts are the same, shape (n_matches,).
        confidence: Coverage of the intervals, from the sandwich per prompt.
        initial_rating: Mean of the ratings, in Elo points.

    Raises:
        InputError: If no judges are named, or the slots have another shape or other values.
    """
    require_confidence(confidence)
    if not matches.judges:
        raise InputError("the matches name no judge; expected one for every presentation")
    if slots.shape != (matches.n_matches,) or not np.isin(slots, (-1.0, 0.0, 1.0)).all():
        raise InputError(
            f"the slots have shape {slots.shape!r}; expected a 1, -1 or 0 for each of the "
            f"{matches.n_matches} matches"
        )
    results = fit_bradley_terry(matches, initial_rating=initial_rating)
    rated = np.array([each.value is not None for each in results], dtype=np.bool_)
    data = replace(matches, covariates=slots[:, None]).among(rated)
    alone = [_fit_alone(data, judge) for judge in range(len(data.judges))]
    joint = _fit_together(data, alone) if data.n_matches else None
    return _describe(
        joint,
        alone,
        data,
        rated,
        notes=[(each.entrant, each.note) for each in results],
        confidence=confidence,
        initial_rating=initial_rating,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Judges that were fitted, by their indices.

    Strengths average to 0 and discriminations to 1; there are none where all count alike.
    The covariance is of strengths, slot effects and discriminations.
    """

    judges: NDArray[np.int64]
    strengths: NDArray[np.float64]
    slots: NDArray[np.float64]
    discriminations: NDArray[np.float64]
    covariance: NDArray[np.float64]
    log_likelihood: float
    n_prompts: int


@dataclass(frozen=True, slots=True)
class _Alone:
    """One judge's verdicts by themselves: a fit, or why there is none."""

    n_verdicts: int
    fit: _Fit | None
    note: str | None


def _fit_alone(data: Matches, judge: int) -> _Alone:
    of_judge = data.of_judges(np.arange(len(data.judges)) == judge)
    n_verdicts = int(np.count_nonzero(of_judge.covariates))
    if n_verdicts == 0:
        return _Alone(n_verdicts, None, NO_VERDICT)
    if not find_standing(of_judge.wins).rated.all():
        return _Alone(n_verdicts, None, UNCONNECTED)
    try:
        return _Alone(n_verdicts, _fit_alike(data, np.array([judge])), None)
    except RatingError:
        return _Alone(n_verdicts, None, SLOT_DECIDES)


def _fit_together(data: Matches, alone: Sequence[_Alone]) -> _Fit | None:
    """Fit the judges together; as if all were alike where nothing tells them apart."""
    able = np.array([index for index, each in enumerate(alone) if each.fit is not None], dtype=int)
    if able.size == 1:
        return alone[int(able[0])].fit
    if able.size:
        try:
            return _fit_discriminating(data, able)
        except (RatingError, np.linalg.LinAlgError):
            # Entrants of equal strength do not show how well a judge discriminates.
            pass
    try:
        return _fit_alike(data, able if able.size else np.arange(len(data.judges)))
    except RatingError:
        return None


def _fit_alike(data: Matches, judges: NDArray[np.int64]) -> _Fit:
    """Fit judges as if all discriminated alike, each with its slot effect."""
    group = _before(data, judges)
    parameters = maximise(_alike(_in_cells(group)))
    plain = _alike(group)
    return _fit_at(plain, parameters, judges, log_likelihood(plain, parameters))


def _fit_discriminating(data: Matches, judges: NDArray[np.int64]) -> _Fit:
    """Fit several judges, each with its discrimination and its slot effect."""
    group = _before(data, judges)
    cells = _in_cells(group)
    start = np.concatenate([maximise(_alike(cells)), np.ones(judges.size)])
    parameters = maximise(cells, start=start)
    return _fit_at(group, parameters, judges, log_likelihood(cells, parameters))


def _fit_at(
    data: Matches, parameters: NDArray[np.float64], judges: NDArray[np.int64], likelihood: float
) -> _Fit:
    """Return the fit with these parameters: strengths, a slot effect a judge, discriminations."""
    covariance, n_prompts = sandwich_covariance(data, parameters)
    n = len(data.entrants)
    return _Fit(
        judges=judges,
        strengths=parameters[:n],
        slots=parameters[n : n + judges.size],
        discriminations=parameters[n + judges.size :],
        covariance=covariance,
        log_likelihood=likelihood,
        n_prompts=n_prompts,
    )


def _before(data: Matches, judges: NDArray[np.int64]) -> Matches:
    """Keep the matches before some judges, with a column of slots for each."""
    subset = data.of_judges(np.isin(np.arange(len(data.judges)), judges))
    return replace(subset, covariates=subset.covariates * np.eye(judges.size)[subset.judge_index])


def _alike(data: Matches) -> Matches:
    return replace(data, judges=(), judge_index=data.judge_index[:0])


def _in_cells(data: Matches) -> Matches:
    """Add up matches of the same judge, entrants and slot, all that the likelihood depends on."""
    slots = data.covariates.sum(axis=1)
    n = len(data.entrants)
    codes = (data.judge_index * n + data.first) * n + data.second
    _, rows, cell = np.unique(
        codes * 3 + slots.astype(np.int64) + 1, return_index=True, return_inverse=True
    )
    weight = np.bincount(cell, data.weight).astype(np.float64)
    return replace(
        data,
        first=data.first[rows],
        second=data.second[rows],
        prompt_index=data.prompt_index[rows],
        preference=np.clip(np.bincount(cell, data.weight * data.preference) / weight, 0, 1),
        weight=weight,
        covariates=data.covariates[rows],
        judge_index=data.judge_index[rows],
    )


def _describe(
    fit: _Fit | None,
    alone: Sequence[_Alone],
    data: Matches,
    rated: NDArray[np.bool_],
    *,
    notes: Sequence[tuple[str, str | None]],
    confidence: float,
    initial_rating: float,
) -> JudgeAwareFit:
    n, n_prompts = len(data.entrants), 0 if fit is None else fit.n_prompts
    covariance = np.full((rated.size, rated.size), np.nan)
    if fit is not None:
        covariance[np.ix_(rated, rated)] = fit.covariance[:n, :n] * ELO_PER_NAT**2
    place = np.cumsum(rated) - 1
    ratings = []
    for index, (entrant, note) in enumerate(notes):
        if fit is None or note is not None:
            ratings.append(Rating(note=note or NOT_FITTED, entrant=entrant))
            continue
        rating = initial_rating + ELO_PER_NAT * float(fit.strengths[place[index]])
        ends = _estimate(rating, covariance[index, index], n_prompts, confidence)
        error = None if ends.low is None else float(np.sqrt(covariance[index, index]))
        note = no_spread_note(n_prompts) if error is None else None
        ratings.append(
            Rating(rating, ends.low, ends.high, note=note, entrant=entrant, standard_error=error)
        )
    return JudgeAwareFit(
        ratings=tuple(ratings),
        judges=tuple(
            _describe_judge(name, index, alone[index], fit, confidence=confidence)
            for index, name in enumerate(data.judges)
        ),
        log_likelihood=None if fit is None else fit.log_likelihood,
        covariance=covariance,
        n_prompts=n_prompts,
    )


def _describe_judge(
    judge: str, index: int, alone: _Alone, fit: _Fit | None, *, confidence: float
) -> JudgeTraits:
    source = fit if fit is not None and index in fit.judges else alone.fit
    slot, discrimination = None, None
    note = alone.note
    if source is not None:
        at = int(np.searchsorted(source.judges, index))
        n, variances = source.strengths.size, np.diagonal(source.covariance)
        slot = _estimate(float(source.slots[at]), variances[n + at], source.n_prompts, confidence)
        if source.discriminations.size:
            discrimination = _estimate(
                float(source.discriminations[at]),
                variances[n + source.judges.size + at],
                source.n_prompts,
                confidence,
            )
        elif source.judges.size > 1:
            note = note or ALL_ALIKE
    return JudgeTraits(judge, alone.n_verdicts, discrimination, slot, note)


def _estimate(value: float, variance: float, n_prompts: int, confidence: float) -> Estimate:
    # Rounding leaves up to 1e-11 where prompts agree to the last verdict, which says nothing of an
    # error; a variance as small as this takes a million prompts.
    if n_prompts < 2 or not variance > 1e-9:
        return Estimate(value, None, None)
    reach = math.sqrt(variance) * two_sided_quantile(confidence, degrees_of_freedom=n_prompts - 1)
    return Estimate(value, value - reach, value + reach)
