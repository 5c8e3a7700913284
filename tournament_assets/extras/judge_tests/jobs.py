"""The jobs that test the judge: one of a scheduled rerun, and one on request."""

from tournament_assets.graph.rows import JobRow

ROWS = (
    JobRow(
        "check_drift",
        "judgments repeated",
        part_of="rerun",
        is_wanted=lambda plan: plan.config.judging.tests.anchor_pairs > 0,
        description=(
            "judge the fixed anchor pairs again: does the judge repeat itself, and does it still "
            "say the same"
        ),
    ),
    JobRow(
        "test_judge",
        "tests of the judge",
        part_of="request",
        also=("judge_repeats",),
        description=(
            "planted controls, the anchor pairs once more, and agreement with the judge of another "
            "mode; costs money, and is stored apart from the tournament's verdicts"
        ),
    ),
)
