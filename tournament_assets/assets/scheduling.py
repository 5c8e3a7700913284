"""The schedule that runs a tournament's headline again."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import dagster as dg

from tournament_assets.assets.out_of_date import asset_graph
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.assets.rerun_states import find_reruns
from tournament_assets.assets.reruns import begin_rerun, name_rerun
from tournament_assets.tournament.automation import AutomationConfig


def schedule_problem(automation: AutomationConfig) -> str | None:
    """Say why Dagster cannot fire the configured schedule, or None."""
    wanted = automation.headline_schedule
    if wanted is None:
        return None
    try:
        dg.ScheduleDefinition(
            name="trial",
            job_name="trial",
            cron_schedule=wanted.cron,
            execution_timezone=wanted.time_zone,
        )
    except dg.DagsterInvalidDefinitionError:
        return (
            f"automation.headline_schedule.cron is {wanted.cron!r}; expected minute, hour, day of "
            "the month, month and day of the week, such as '0 6 * * 1' for Mondays at six"
        )
    return None


def build_headline_schedules(
    plan: TournamentPlan, jobs: Sequence[Any]
) -> list[dg.ScheduleDefinition]:
    """Build the schedule of one tournament, if its config asks for one.

    Args:
        plan: The tournament.
        jobs: The jobs of its stages; the schedule begins the first, a sensor the others.
    """
    wanted = plan.config.automation.headline_schedule
    if wanted is None:
        return []

    @dg.schedule(
        name=f"{plan.tournament_id}_headline_schedule",
        job=jobs[0],
        cron_schedule=wanted.cron,
        execution_timezone=wanted.time_zone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            "Runs the headline again, all stages in order, and leaves a new run directory. While "
            "an earlier rerun of the headline is unfinished it begins none; of several ticks that "
            "were missed it makes up for one."
        ),
    )
    def headline_schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> list[dg.RunRequest] | dg.SkipReason:
        began_at = context.scheduled_execution_time.astimezone(UTC)
        own_id = name_rerun(plan, "headline", "schedule", began_at)
        for rerun in find_reruns(context.instance, plan, mode="headline"):
            # A tick that was interrupted is evaluated again, and is no obstacle to itself.
            if rerun.is_unfinished and rerun.identity.rerun_id != own_id:
                return dg.SkipReason(f"{rerun.describe()}; one at a time")
        return begin_rerun(
            plan,
            "headline",
            graph=asset_graph(context),
            instance=context.instance,
            began_at=began_at,
            reason="schedule",
        )

    return [headline_schedule]
