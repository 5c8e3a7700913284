"""The sensor that takes reruns from stage to stage."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from tournament_assets.assets.jobs import build_rerun_stages
from tournament_assets.assets.out_of_date import asset_graph
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.assets.rerun_states import Rerun, RerunState, find_reruns
from tournament_assets.assets.reruns import (
    CHOICES,
    FINISHED_TAG,
    Choice,
    PartitionKey,
    Scope,
    request_stage,
    request_stage_after,
)

_INTERVAL_SECONDS = 10
CLOCKS_DIFFER = timedelta(minutes=5)
"""The machines that note a run's changes need not have the same time."""
BEGINNING_TAKES = timedelta(minutes=10)
"""Whoever was interrupted while it began the runs of a stage goes on with that by itself."""


def build_continuing_sensor(
    plan: TournamentPlan,
    jobs: Sequence[Any],
    *,
    choices: Mapping[Scope, Choice] = CHOICES,
) -> dg.SensorDefinition:
    """Build the sensor of one tournament.

    Args:
        plan: The tournament.
        jobs: The jobs of its stages.
        choices: What a rerun of each scope runs in a stage; a rerun of another scope stays where
            it is.
    """

    @dg.sensor(
        name=f"{plan.tournament_id}_continue_reruns",
        jobs=jobs,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Begins the next stage of a rerun when every run of its last one has succeeded. It "
            "begins no rerun by itself; after a failure nothing follows until the failed run was "
            "executed again."
        ),
    )
    def continue_reruns(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = datetime.now(UTC)
        since = datetime.fromisoformat(context.cursor) if context.cursor else None
        reruns = find_reruns(context.instance, plan, updated_after=since)
        requests: list[dg.RunRequest] = []
        unfinished = [rerun for rerun in reruns if rerun.is_unfinished]
        for rerun in unfinished:
            if rerun.state is RerunState.BETWEEN_STAGES:
                choice = choices.get(rerun.identity.scope)
                if choice is None:
                    context.log.warning(f"nothing is known of the scope of {rerun.describe()}")
                    continue
                requests.extend(_go_on(rerun, plan, context, choice, now))
        # Whatever has ended before the cursor stays as it is until one of its runs changes.
        cursor = min([now, *(rerun.updated_at for rerun in unfinished)]) - CLOCKS_DIFFER
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _reason_to_wait(unfinished),
            cursor=cursor.isoformat(),
        )

    return continue_reruns


def _go_on(
    rerun: Rerun,
    plan: TournamentPlan,
    context: dg.SensorEvaluationContext,
    choice: Choice,
    now: datetime,
) -> list[dg.RunRequest]:
    left = rerun.partitions_not_begun
    if left:
        if now - rerun.newest_run_created_at < BEGINNING_TAKES:
            return []
        return request_stage(
            rerun.stage_index,
            rerun.identity,
            plan,
            work={_key(plan, rerun, name): () for name in left},
            stage_keys=rerun.partitions,
        )
    requests = request_stage_after(
        rerun.stage_index,
        rerun.identity,
        plan,
        graph=asset_graph(context),
        instance=context.instance,
        choice=choice,
    )
    if not requests:
        # What is out of date is looked up once: a later edit is the business of another rerun.
        for run in rerun.newest_runs.values():
            context.instance.add_run_tags(
                run.run_id, {FINISHED_TAG: "nothing more was out of date"}
            )
    return requests


def _key(plan: TournamentPlan, rerun: Rerun, name: str | None) -> PartitionKey:
    keys = build_rerun_stages(plan)[rerun.stage_index].partition_keys(plan, rerun.identity.mode)
    return next((key for key in keys if key is not None and str(key) == name), name)


def _reason_to_wait(unfinished: Sequence[Rerun]) -> str:
    if not unfinished:
        return "no rerun is under way"
    return "; ".join(rerun.describe() for rerun in unfinished)
