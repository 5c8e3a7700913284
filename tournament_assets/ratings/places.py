"""Places and significance groups of entrants, as columns of tables of ratings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase

from tournament_assets.ratings.significance import SeparatedEntrants
from tournament_assets.tournament.asset_rows import RatingRow


@dataclass(frozen=True, slots=True)
class RatedPlace:
    """One entrant's place and group; the names are those of the columns."""

    rank_best: int | None = None
    rank_worst: int | None = None
    shown_above: tuple[str, ...] = ()
    group: str | None = None


def places_of(separated: SeparatedEntrants) -> dict[str, RatedPlace]:
    """Return places, entrants below and group letters, by entrant; only entrants with a place."""
    places = {}
    for place in separated.ranks:
        below = separated.is_above[separated.entrants.index(place.entrant)]
        places[place.entrant] = RatedPlace(
            rank_best=place.best,
            rank_worst=place.worst,
            shown_above=tuple(
                other for other, is_below in zip(separated.entrants, below, strict=True) if is_below
            ),
            group=" ".join(
                _group_name(index)
                for index, group in enumerate(separated.groups)
                if place.entrant in group
            ),
        )
    return places


def placed(rows: Sequence[RatingRow], separated: SeparatedEntrants) -> list[RatingRow]:
    """Return the rows with each entrant's place and group."""
    places = places_of(separated)
    return [
        replace(
            row,
            rank_best=place.rank_best,
            rank_worst=place.rank_worst,
            shown_above=place.shown_above,
            group=place.group,
        )
        for row in rows
        for place in (places.get(row.entrant_id, RatedPlace()),)
    ]


def _group_name(index: int) -> str:
    return ascii_lowercase[index] if index < len(ascii_lowercase) else str(index + 1)
