"""The assets that this extra adds: what people say, beside the judge."""

from functools import partial

from tournament_assets.extras.people import human_battles
from tournament_assets.graph import settings
from tournament_assets.graph.rows import MODE, MODE_BY_DIMENSION, AssetRow

_row = partial(AssetRow, stage="ratings")
_rating = partial(_row, job="judging", axes=MODE_BY_DIMENSION, after=("human_labels",))

ROWS = (
    _row(human_battles.human_labels, job="inputs", axes=MODE_BY_DIMENSION, stored_as="file"),
    _row(
        human_battles.human_battles,
        job="prompts",
        axes=MODE,
        when=human_battles.has_human_battles,
        note="where the config names a file",
    ),
    _rating(human_battles.people_ratings, settings=settings.people_rating_settings),
    _rating(
        human_battles.people_measures,
        settings=settings.trusting_settings,
        checks=human_battles.people_checks,
    ),
)
