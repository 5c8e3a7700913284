"""Where a tournament's entrants stand among those of an arena, with and without its battles.

The same entrants are rated by the judge's battles alone, by the human ones alone, and by both
joined. Only differences of Bradley-Terry ratings mean something, so the three are moved to one
scale, the arena's, by an entrant that all of them rate.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from tournament_assets.battles.columns import battles_per_model
from tournament_assets.battles.human import join_battles
from tournament_assets.battles.rating import BattleRatings, rate_battles
from tournament_assets.ratings.rating_tables import anchor_shift
from tournament_assets.tournament.asset_rows import ArenaRatingRow
from tournament_assets.tournament.battles import RatingSettings

Basis = Literal["judge", "human", "both"]
BASES: tuple[Basis, ...] = ("judge", "human", "both")

_NO_BATTLE: Mapping[Basis, str] = {
    "judge": "no judged pair",
    "human": "no human battle among those kept",
    "both": "neither a judged pair nor a human battle",
}


@dataclass(frozen=True, slots=True)
class ArenaPlaces:
    """The ratings by every basis.

    Attributes:
        rows: Rows of table "arena_ratings", by basis and then best first.
        anchors: The entrant by which a basis was moved to the arena's scale; None where no
            entrant is rated both by it and by people, so that it has a scale of its own.
        n_battles: The battles of each basis.
        notes: What a reader of the human battles' ratings has to know.
    """

    rows: tuple[ArenaRatingRow, ...]
    anchors: Mapping[Basis, str | None]
    n_battles: Mapping[Basis, int]
    notes: tuple[str, ...]


def place_in_arena(
    judged: pa.Table, human: pa.Table, *, dimension: str, settings: RatingSettings
) -> ArenaPlaces:
    """Rate everyone by the judge's battles, by the human ones and by both.

    Args:
        judged: The judge's battles on the dimension.
        human: The human battles that count on it.
        dimension: The judged quality.
        settings: How they are rated; its entrants are those under test, everyone else is known
            from human battles.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    evaluated = settings.entrants
    arena = battles_per_model(human)
    everyone = (*evaluated, *(name for name in arena if name not in evaluated))
    tables: dict[Basis, tuple[pa.Table, tuple[str, ...]]] = {
        "judge": (judged, evaluated),
        "human": (join_battles(judged.slice(0, 0), human, dimension=dimension), everyone),
        "both": (join_battles(judged, human, dimension=dimension), everyone),
    }
    rated = {
        basis: rate_battles(
            table,
            settings=replace(settings, entrants=entrants, dimensions=(dimension,)),
            dimensions=(dimension,),
            methods=("bradley-terry",),
        )[0]
        for basis, (table, entrants) in tables.items()
    }
    ratings = {basis: _ratings_of(found) for basis, found in rated.items()}
    anchors = _find_anchors(ratings, n_human=arena)
    rows: list[ArenaRatingRow] = []
    for basis in BASES:
        n_battles = battles_per_model(tables[basis][0])
        shift, anchor = 0.0, anchors[basis]
        if anchor is not None:
            shift = anchor_shift(
                list(ratings[basis]),
                list(ratings[basis].values()),
                model=anchor,
                rating=ratings["human"][anchor],
            )
        rows.extend(
            ArenaRatingRow(
                dimension=dimension,
                basis=basis,
                entrant_id=row.entrant_id,
                source="evaluated" if row.entrant_id in evaluated else "human",
                rating=_moved(row.rating, shift),
                sampling_low=_moved(row.sampling_low, shift),
                sampling_high=_moved(row.sampling_high, shift),
                n_battles=n_battles.get(row.entrant_id, 0),
                scale="own" if basis != "human" and anchor is None else "arena",
                anchor=anchor,
                note=row.note if row.entrant_id in n_battles else _NO_BATTLE[basis],
            )
            for row in rated[basis].bradley_terry
        )
    return ArenaPlaces(
        rows=tuple(rows),
        anchors=anchors,
        n_battles={basis: table.num_rows for basis, (table, _) in tables.items()},
        notes=rated["human"].notes,
    )


def _find_anchors(
    ratings: Mapping[Basis, Mapping[str, float]], *, n_human: Mapping[str, int]
) -> dict[Basis, str | None]:
    """Choose the entrants by which the other bases are moved to the scale of the human battles.

    One that every basis rates is best, because it stands at the same place in all of them. Where
    there is none, a basis is anchored by whoever it shares with the human one. Among several it
    is the one with the most human battles, which people know best; then the first by name.
    """

    def best_known(entrants: Collection[str]) -> str | None:
        return min(entrants, key=lambda name: (-n_human.get(name, 0), name), default=None)

    shared = {basis: ratings["human"].keys() & ratings[basis].keys() for basis in BASES}
    by_all = best_known(shared["judge"] & shared["both"])
    return {
        "judge": by_all or best_known(shared["judge"]),
        "human": None,
        "both": by_all or best_known(shared["both"]),
    }


def _ratings_of(found: BattleRatings) -> dict[str, float]:
    return {row.entrant_id: row.rating for row in found.bradley_terry if row.rating is not None}


def _moved(value: float | None, shift: float) -> float | None:
    return None if value is None else value + shift
