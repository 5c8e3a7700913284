"""The K sweep as a table and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.reports.formatting import format_rating, join_names
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.reports.separation import is_rated

Row = Mapping[str, Any]
"""A row of table "elo_ratings"."""


def sweep_sentence(rows: Sequence[Row]) -> str:
    """Say whether the order of the entrants depends on the K-factor."""
    orders = _orders_by_k(rows)
    primary = [row["k_factor"] for row in rows if row["is_primary"]]
    if not orders or not primary:
        return "The decisive matches determine no rating, whatever the K-factor."
    others = [k for k, order in orders.items() if order != orders[primary[0]]]
    if not others:
        return "The entrants come in the same order at every K-factor tried."
    return (
        f"The order of the entrants depends on K: at K = "
        f"{join_names([f'{k:g}' for k in others])} it is not the one at K = {primary[0]:g}."
    )


def sweep_table(rows: Sequence[Row], order: Sequence[str]) -> ReportTable:
    """Return the mean rating of every entrant at every K-factor."""
    k_factors = sorted({row["k_factor"] for row in rows})
    means = {
        (row["entrant_id"], row["k_factor"]): row["mean"] if is_rated(row) else None for row in rows
    }
    return ReportTable(
        headers=("entrant", *(f"K = {k_factor:g}" for k_factor in k_factors)),
        rows=tuple(
            (name, *(format_rating(means.get((name, k_factor))) for k_factor in k_factors))
            for name in order
        ),
    )


def _orders_by_k(rows: Sequence[Row]) -> dict[float, tuple[str, ...]]:
    orders: dict[float, list[str]] = {}
    for row in sorted(filter(is_rated, rows), key=lambda row: (row["k_factor"], row["rank"])):
        orders.setdefault(row["k_factor"], []).append(row["entrant_id"])
    return {k_factor: tuple(names) for k_factor, names in orders.items()}
