"""Places and significance groups of entrants, as columns of tables of ratings."""

from collections.abc import Sequence
from dataclasses import replace

from tournament_assets.ratings.significance import SeparatedEntrants
from tournament_assets.tournament.asset_rows import RatingRow


def placed(rows: Sequence[RatingRow], separated: SeparatedEntrants) -> list[RatingRow]:
    """Return the rows with the place and the groups of each entrant that has a place."""
    places = {each.entrant: each for each in separated.ranks}
    return [
        row
        if (place := places.get(row.entrant_id)) is None
        else replace(
            row,
            rank_best=place.best,
            rank_worst=place.worst,
            shown_above=place.shown_above,
            group=place.letters,
        )
        for row in rows
    ]
