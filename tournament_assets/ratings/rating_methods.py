"""Elo, Bradley-Terry and Davidson side by side, and where they rank entrants otherwise.

The three answer somewhat different questions. Elo leaves ties out and forgets what came early in an
ordering; Bradley-Terry counts a tie as half a win; Davidson gives ties a rate of their own. A pair
that they rank differently is a pair about which the battles say little, or something that depends
on what a tie means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import compute_elo_permutation, elo_standing
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.sandwich import (
    SamplingUnit,
    sandwich_bradley_terry,
)
from tournament_assets.ratings.style_control import control_style, judged_differences
from tournament_assets.tournament.asset_rows import RatingMethodRow, StyleRow
from tournament_assets.tournament.battles import RatingSettings

_LEVEL = 1e-6
"""Elo points. Fits stop within a small part of this, so a smaller difference is none."""

_ORDER_NOISE = 0.95
"""Mean Elo ratings differ where this interval of their difference, over orderings, excludes 0."""


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """One model's ratings of everyone, in the order of the entrants.

    A rating, in Elo points, or its rank, 1 for the highest and shared by equals, is None where the
    model has none, and a note says why; so is Davidson's v for a model without one.
    """

    model: str
    ratings: tuple[float | None, ...]
    ranks: tuple[int | None, ...]
    notes: tuple[str | None, ...]
    tie_parameter: float | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two entrants that the models rank differently: who puts which of them above.

    For Elo, level is within its order noise.
    """

    entrant_a: str
    entrant_b: str
    a_above: tuple[str, ...]
    b_above: tuple[str, ...]
    level: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Every model on the same matches, and the pairs that one ranks one way and another the other.

    A pair that some model does not rate is judged by the others.
    """

    entrants: tuple[str, ...]
    columns: tuple[ModelColumn, ...]
    disagreements: tuple[Disagreement, ...]


def compare_models(
    matches: Matches,
    *,
    k_factor: float,
    n_permutations: int,
    seed: int,
    initial_rating: float = 1400.0,
) -> ModelComparison:
    """Rate the same battles by every model that can.

    Elo is absent where battles are weighted, and Davidson where a preference is neither a win, a
    loss nor a tie; notes say so.

    Args:
        matches: Who met whom.
        k_factor: Elo's K, in Elo points.
        n_permutations: Orderings that Elo is averaged over.
        seed: Seeds the orderings.
        initial_rating: What the ratings average to, in Elo points.

    Raises:
        InputError: If `n_permutations` is less than 1 or `k_factor` is not positive.
        RatingError: If a likelihood could not be maximised.
    """
    columns = []
    orders = []
    if (matches.weight == 1).all():
        traces = compute_elo_permutation(
            matches,
            k_factor=k_factor,
            n_permutations=n_permutations,
            seed=seed,
            initial_rating=initial_rating,
        )
        notes = elo_standing(matches).notes
        compares = np.array([note is None for note in notes], dtype=np.bool_)
        means = np.where(compares, traces.ratings.mean(axis=0), np.nan)
        columns.append(_column("elo", means, notes))
        orders.append(_order_beyond_noise(traces.ratings, compares))
    else:
        columns.append(_absent(matches, "elo", "the battles are weighted, and Elo has no weights"))
        orders.append(_order(columns[-1]))
    fits = fit_bradley_terry(matches, initial_rating=initial_rating)
    columns.append(
        _column(
            "bradley_terry",
            np.array([np.nan if fit.value is None else fit.value for fit in fits]),
            [fit.note for fit in fits],
        )
    )
    orders.append(_order(columns[-1]))
    columns.append(
        _davidson_column(matches, initial_rating=initial_rating)
        if matches.is_hard
        else _absent(matches, "davidson", "knows only wins, losses and ties")
    )
    orders.append(_order(columns[-1]))
    return ModelComparison(
        entrants=matches.entrants,
        columns=tuple(columns),
        disagreements=_disagreements(
            matches.entrants, [column.model for column in columns], orders
        ),
    )


def _column(
    model: str,
    ratings: NDArray[np.float64],
    notes: Sequence[str | None],
    tie_parameter: float | None = None,
) -> ModelColumn:
    ranks = [
        None if np.isnan(rating) else 1 + int((ratings > rating + _LEVEL).sum())
        for rating in ratings
    ]
    return ModelColumn(
        model=model,
        ratings=tuple(None if np.isnan(rating) else float(rating) for rating in ratings),
        ranks=tuple(ranks),
        notes=tuple(notes),
        tie_parameter=tie_parameter,
    )


def _davidson_column(matches: Matches, *, initial_rating: float) -> ModelColumn:
    fit = fit_davidson(matches, initial_rating=initial_rating)
    ratings = np.array([np.nan if each.value is None else each.value for each in fit.ratings])
    return _column("davidson", ratings, [each.note for each in fit.ratings], fit.tie_parameter)


def _absent(matches: Matches, model: str, reason: str) -> ModelColumn:
    n = len(matches.entrants)
    return _column(model, np.full(n, np.nan), [reason] * n)


def _order(column: ModelColumn) -> NDArray[np.float64]:
    # 1 where the row's entrant is above the column's, -1 below, 0 level, NaN unknown.
    ratings = np.array([np.nan if rating is None else rating for rating in column.ratings])
    difference = ratings[:, None] - ratings[None, :]
    difference[np.abs(difference) < _LEVEL] = 0.0
    signs: NDArray[np.float64] = np.sign(difference)
    return signs


def _order_beyond_noise(
    ratings: NDArray[np.float64], compares: NDArray[np.bool_]
) -> NDArray[np.float64]:
    n_permutations = ratings.shape[0]
    mean = ratings.mean(axis=0)
    signs: NDArray[np.float64] = np.sign(mean[:, None] - mean[None, :])
    if n_permutations > 1:
        covariance = np.atleast_2d(np.cov(ratings, rowvar=False))
        variance = np.diagonal(covariance)
        spread = variance[:, None] + variance[None, :] - 2 * covariance
        error = np.sqrt(np.maximum(spread, 0.0) / n_permutations)
        reach = error * two_sided_quantile(_ORDER_NOISE, degrees_of_freedom=n_permutations - 1)
        signs[np.abs(mean[:, None] - mean[None, :]) <= reach + _LEVEL] = 0.0
    signs[~compares, :] = signs[:, ~compares] = np.nan
    return signs


def _disagreements(
    entrants: tuple[str, ...], models: Sequence[str], orders: Sequence[NDArray[np.float64]]
) -> tuple[Disagreement, ...]:
    found = []
    for a, b in combinations(range(len(entrants)), 2):
        signs = [order[a, b] for order in orders]
        if 1 in signs and -1 in signs:
            above, below, level = (
                tuple(model for model, sign in zip(models, signs, strict=True) if sign == wanted)
                for wanted in (1, -1, 0)
            )
            found.append(Disagreement(entrants[a], entrants[b], above, below, level))
    return tuple(found)


_NO_ERROR = "no spread between prompts, so the error cannot be measured"


def comparison_rows(
    matches: Matches, *, dimension: str, settings: RatingSettings
) -> list[RatingMethodRow]:
    """Return the rows of table "model_comparison" for one dimension.

    Args:
        matches: Who met whom, in the order of the verdicts.
        dimension: The quality that was judged.
        settings: How they are rated.

    Returns:
        By model, and within one best first, those without a rating last.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    found = compare_models(
        matches,
        k_factor=settings.k_factor,
        n_permutations=settings.n_permutations,
        seed=settings.shuffle_seed,
        initial_rating=settings.initial_rating,
    )
    sandwich = sandwich_bradley_terry(
        matches,
        unit=SamplingUnit.PROMPT,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    errors = {each.entrant: each for each in sandwich.ratings}
    disputed = _disputed(found)
    rows = []
    for column in found.columns:
        each_entrant = zip(found.entrants, column.ratings, column.ranks, column.notes, strict=True)
        for entrant, rating, rank, note in sorted(
            each_entrant, key=lambda each: (each[2] is None, each[2])
        ):
            error = errors[entrant] if column.model == "bradley_terry" else None
            rows.append(
                RatingMethodRow(
                    dimension=dimension,
                    entrant_id=entrant,
                    model=column.model,
                    rating=rating,
                    rank=rank,
                    note=error.note if error else note,
                    standard_error=error.standard_error if error else None,
                    low=error.low if error else None,
                    high=error.high if error else None,
                    tie_parameter=column.tie_parameter,
                    disputed_below=tuple(disputed.get((entrant, column.model), ())),
                )
            )
    return rows


def _disputed(found: ModelComparison) -> dict[tuple[str, str], list[str]]:
    below: dict[tuple[str, str], list[str]] = {}
    for each in found.disagreements:
        for above, other, models in (
            (each.entrant_a, each.entrant_b, each.a_above),
            (each.entrant_b, each.entrant_a, each.b_above),
        ):
            for model in models:
                below.setdefault((above, model), []).append(other)
    return below


def style_control_rows(
    matches: Matches,
    responses: Mapping[tuple[str, str], str],
    *,
    dimension: str,
    penalty: float,
    settings: RatingSettings,
) -> list[StyleRow]:
    """Return the rows of table "style_control" for one dimension.

    Args:
        matches: Who met whom, every sample of a prompt for itself.
        responses: Every response, by entrant and prompt.
        dimension: The quality that was judged.
        penalty: Ridge penalty on the effects; 0 for none.
        settings: How they are rated.

    Returns:
        The entrants, best first, those without a rating last; then the features, those without an
        effect last.

    Raises:
        InputError: With every response that was judged and is not there; or if the penalty is
            negative.
    """
    found = control_style(
        matches.weighed_by_sample(),
        judged_differences(matches, responses),
        penalty=penalty,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    row = partial(StyleRow, dimension=dimension, penalty=found.penalty)
    entrants = [
        row(
            kind="entrant",
            name=each.entrant,
            points=each.value,
            standard_error=each.standard_error,
            low=each.low,
            high=each.high,
            note=each.note,
        )
        for each in sorted(
            found.ratings, key=lambda each: (each.value is None, -(each.value or 0.0))
        )
    ]
    effects = [
        row(
            kind="feature",
            name=each.name,
            points=each.value,
            standard_error=each.standard_error,
            low=each.low,
            high=each.high,
            scale=each.scale,
            note=_NO_ERROR if each.standard_error is None else None,
        )
        for each in found.effects
    ]
    refused = [row(kind="feature", name=each.name, note=each.reason) for each in found.refused]
    return [*entrants, *effects, *refused]
