"""The rows of the tables that this extra stores."""

from tournament_assets.tournament.asset_rows import BattleRow, MeasureRow, RatingRow

ROWS = {
    "human_battles": BattleRow,
    "people_ratings": RatingRow,
    "people_measures": MeasureRow,
}
