"""The assets that this extra adds: what people say, beside the judge."""

from collections.abc import Mapping
from typing import Any

from tournament_assets.extras.people import human_battles
from tournament_assets.graph import settings
from tournament_assets.graph.rows import MODE, MODE_BY_DIMENSION, AssetRow

_RATED: Mapping[str, Any] = {
    "stage": "ratings",
    "job": "judging",
    "axes": MODE_BY_DIMENSION,
    "after": ("human_labels",),
}

ROWS = (
    AssetRow(
        human_battles.human_labels,
        stage="ratings",
        job="inputs",
        axes=MODE_BY_DIMENSION,
        stored_as="file",
    ),
    AssetRow(
        human_battles.human_battles,
        stage="ratings",
        job="prompts",
        axes=MODE,
        when=human_battles.has_human_battles,
        note="where the config names a file",
    ),
    AssetRow(human_battles.people_ratings, settings=settings.people_rating_settings, **_RATED),
    AssetRow(
        human_battles.people_measures,
        settings=settings.trusting_settings,
        checks=human_battles.people_checks,
        **_RATED,
    ),
)
