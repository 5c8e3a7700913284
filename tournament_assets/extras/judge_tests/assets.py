"""The assets of tests, which no button makes."""

from functools import partial

from tournament_assets.extras.judge_tests import judge_repeats, judge_tests
from tournament_assets.graph.assets.judging import judge_kinds
from tournament_assets.graph.rows import MODE_BY_DIMENSION, AssetRow
from tournament_assets.graph.settings import rating_settings

_judge_test = partial(
    AssetRow,
    stage="tests",
    axes=MODE_BY_DIMENSION,
    on_request=True,
)

ROWS = (
    _judge_test(
        judge_repeats.judge_repeats,
        job="check_drift",
        after=("rubrics",),
        checks={
            judge_repeats.DRIFT_CHECK: (
                "The judge settles the anchor pairs as it did for the tournament."
            )
        },
        kinds=judge_kinds,
    ),
    _judge_test(
        judge_tests.judge_controls,
        job="test_judge",
        after=("rubrics",),
        kinds=judge_kinds,
    ),
    _judge_test(
        judge_tests.judge_agreement,
        job="test_judge",
        settings=rating_settings,
    ),
)
