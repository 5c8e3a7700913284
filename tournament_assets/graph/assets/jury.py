"""The judges of a dimension: what each is like, and how far they agree."""

from typing import Any

from tournament_assets.graph.outputs import Made, report_table
from tournament_assets.graph.rows import Step
from tournament_assets.storage.tables import StoredTable, rows_of
from tournament_assets.tournament.asset_rows import JudgeReplyRow, JuryRow
from tournament_assets.workflows.plan import TournamentPlan
from tournament_assets.workflows.table_rows import settled_rows


def has_jury(plan: TournamentPlan) -> bool:
    """Say whether a tournament has several judges, or shows pairs once, which fits the slot."""
    return bool(plan.config.judge.panel) or plan.config.judge.presentations == "one"


def jury(step: Step, replies: StoredTable) -> Made[list[JuryRow]]:
    """What each judge's verdicts are about, how far the judges agree, and what they rate.

    Discrimination is how much a judge's verdicts are about the entrants, relative to the others;
    slot odds are those by which it prefers what is shown first between equals. Both come from the
    judges' verdicts alone: agreement among judges is not agreement with people.
    """
    from tournament_assets.reports.jury_tables import agreement_table, judges_table
    from tournament_assets.workflows.juries import jury_rows

    config = step.plan.config
    by_judge = settled_rows(rows_of(JudgeReplyRow, replies), judge=config.judge)
    rows = jury_rows(by_judge, config=config, mode=step.mode, dimension=step.name)
    found: dict[str, Any] = {"judges": report_table(judges_table(rows))}
    if config.judge.panel:
        found["agreement"] = report_table(agreement_table(rows))
    return Made(rows, metadata={**found, "aggregate": config.judge.aggregation})
