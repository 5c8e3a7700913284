"""The models side by side, and the ratings at equal style, as rows of tables."""

from collections.abc import Mapping
from typing import Any

from tournament_assets.ratings.model_comparison import ModelComparison, compare_models
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.ratings.sandwich import (
    SamplingUnit,
    SandwichInterval,
    sandwich_bradley_terry,
)
from tournament_assets.ratings.style_control import control_style, judged_differences
from tournament_assets.tournament.rating_settings import RatingSettings

_NO_ERROR = "no spread between prompts, so the error cannot be measured"


def comparison_rows(
    preferences: Preferences, *, dimension: str | None, settings: RatingSettings
) -> list[dict[str, Any]]:
    """Return the rows of table "model_comparison" for one dimension.

    Args:
        preferences: Battles, in the order of the verdicts.
        dimension: The quality that was judged.
        settings: How they are rated.

    Returns:
        By model, and within one best first, those without a rating last.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    found = compare_models(
        preferences,
        k_factor=settings.k_factor,
        n_permutations=settings.n_permutations,
        seed=settings.shuffle_seed,
        initial_rating=settings.initial_rating,
    )
    sandwich = sandwich_bradley_terry(
        preferences,
        unit=SamplingUnit.PROMPT,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    errors = {each.entrant: each for each in sandwich.intervals}
    disputed = _disputed(found)
    rows = []
    for column in found.columns:
        each_entrant = zip(found.entrants, column.ratings, column.ranks, column.notes, strict=True)
        for entrant, rating, rank, note in sorted(
            each_entrant, key=lambda each: (each[2] is None, each[2])
        ):
            rows.append(
                {
                    "dimension": dimension,
                    "entrant_id": entrant,
                    "model": column.model,
                    "rating": rating,
                    "rank": rank,
                    "note": note,
                    **(_error_of(errors[entrant]) if column.model == "bradley_terry" else {}),
                    "tie_parameter": column.tie_parameter,
                    "disputed_below": disputed.get((entrant, column.model), []),
                }
            )
    return rows


def _error_of(interval: SandwichInterval) -> dict[str, Any]:
    return {
        "standard_error": interval.standard_error,
        "low": interval.low,
        "high": interval.high,
        "note": interval.note,
    }


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
    preferences: Preferences,
    responses: Mapping[tuple[str, str], str],
    *,
    dimension: str | None,
    penalty: float,
    settings: RatingSettings,
) -> list[dict[str, Any]]:
    """Return the rows of table "style_control" for one dimension.

    Args:
        preferences: Battles.
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
        preferences,
        judged_differences(preferences, responses),
        penalty=penalty,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    entrants: list[dict[str, Any]] = [
        {
            "kind": "entrant",
            "name": each.entrant,
            "points": each.rating,
            "standard_error": each.standard_error,
            "low": each.low,
            "high": each.high,
            "note": each.note,
        }
        for each in sorted(
            found.ratings, key=lambda each: (each.rating is None, -(each.rating or 0.0))
        )
    ]
    effects: list[dict[str, Any]] = [
        {
            "kind": "feature",
            "name": each.name,
            "points": each.effect,
            "standard_error": each.standard_error,
            "low": each.low,
            "high": each.high,
            "scale": each.scale,
            "note": _NO_ERROR if each.standard_error is None else None,
        }
        for each in found.effects
    ]
    refused: list[dict[str, Any]] = [
        {"kind": "feature", "name": each.name, "note": each.reason} for each in found.refused
    ]
    return [
        {"dimension": dimension, **row, "penalty": found.penalty}
        for row in (*entrants, *effects, *refused)
    ]
