"""The asset of what judging decided, round by round."""

from tournament_assets.extras.stopping.adaptive_judging import decide_mode, verdicts_in_table
from tournament_assets.extras.stopping.decisions import DecisionRow, last_rounds
from tournament_assets.extras.stopping.mode_keys import adaptive_of
from tournament_assets.graph.outputs import Made, markdown_table
from tournament_assets.graph.rows import MODE_BY_DIMENSION, AssetRow, Step, Where
from tournament_assets.graph.settings import deciding_settings, reading_settings
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.storage.tables import StoredTable
from tournament_assets.verdicts.table_rows import pairs_of


def judging_decisions(
    step: Step, match_list: StoredTable, judge_replies: StoredTable
) -> Made[list[DecisionRow]]:
    """How far every two entrants were judged, and why judging stopped; one row per round.

    The decisions follow from the replies, the settings and a hash of the prompts' ids alone.
    """
    config = step.plan.config
    course = decide_mode(
        step.plan,
        step.mode,
        pairs_of(match_list),
        verdicts_in_table(judge_replies, config.judging),
        dimension=step.name,
        judges=config.judges_of(step.mode),
    )
    rows = list(course.rows)
    last = last_rounds(rows)
    columns = ("entrant_a", "entrant_b", "round", "looked_at", "prompts", "evidence", "side")
    return Made(
        rows,
        metadata={
            "pairs_stopped": sum(bool(row.not_needed) for row in last),
            "pairs_not_needed": sum(row.not_needed for row in last),
            "decisions": markdown_table(last, columns, limit=20),
        },
    )


def is_adaptive(plan: TournamentPlan) -> bool:
    """Return whether pairs of a tournament may stop before they are judged on every prompt."""
    return any(adaptive_of(mode) is not None for mode in plan.config.modes.values())


ROWS = (
    AssetRow(
        judging_decisions,
        stage="judging",
        job="judging",
        axes=MODE_BY_DIMENSION,
        settings=lambda plan: [reading_settings(plan), deciding_settings(plan)],
        where=Where(is_adaptive, "with `adaptive` in a mode"),
    ),
)
