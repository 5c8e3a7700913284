"""Ratings of battles, moved so that one model stands at a given rating."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from tournament_assets.adapters.battle_files.rating import BattleRatings
from tournament_assets.ratings.anchoring import anchor_shift
from tournament_assets.tournament.errors import InputError

_ELO_POINTS = ("mean", "order_low", "order_high", "sampling_low", "sampling_high")
_BRADLEY_TERRY_POINTS = ("rating", "sampling_low", "sampling_high")

Row = Mapping[str, Any]


def anchor_ratings(ratings: BattleRatings, *, model: str, rating: float) -> BattleRatings:
    """Put a model at a given rating, by Elo at every K-factor and by Bradley-Terry.

    Each table is moved as a whole: differences, widths of intervals and ranks stay as they are.

    Args:
        ratings: The ratings of one dimension.
        model: Who is to have the rating.
        rating: In Elo points.

    Raises:
        InputError: If the model is not there or has no rating, or the rating is not a number.
    """
    where = "" if ratings.dimension is None else f"on {ratings.dimension}, "
    try:
        elo = [
            row
            for _, rows in groupby(ratings.elo, key=lambda row: row["k_factor"])
            for row in _moved(list(rows), _ELO_POINTS, model=model, rating=rating)
        ]
        bradley_terry = _moved(
            ratings.bradley_terry, _BRADLEY_TERRY_POINTS, model=model, rating=rating
        )
        tie_models = [
            row
            for _, rows in groupby(ratings.tie_models, key=lambda row: row["model"])
            for row in _moved(list(rows), ("rating",), model=model, rating=rating)
        ]
    except InputError as error:
        raise InputError(f"{where}{problem}" for problem in error.problems) from error
    note = f"all ratings are moved so that {model} has {rating:g}"
    return replace(
        ratings,
        elo=tuple(elo),
        bradley_terry=tuple(bradley_terry),
        tie_models=tuple(tie_models),
        notes=(*ratings.notes, note),
    )


def _moved(
    rows: Iterable[Row], columns: tuple[str, ...], *, model: str, rating: float
) -> list[dict[str, Any]]:
    """Add the same to some columns of all rows; the first is the rating."""
    listed = list(rows)
    if not listed:
        return []
    shift = anchor_shift(
        [row["entrant_id"] for row in listed],
        [row[columns[0]] for row in listed],
        model=model,
        rating=rating,
    )
    return [
        {
            **row,
            **{name: row[name] + shift for name in columns if row[name] is not None},
        }
        for row in listed
    ]
