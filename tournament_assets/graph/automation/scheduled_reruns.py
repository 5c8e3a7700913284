"""The schedules that run a tournament's modes again.

The sensor that takes reruns from stage to stage.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from tournament_assets.graph.automation.jobs import build_rerun_stages
from tournament_assets.graph.automation.reruns import (
    CHOICES,
    FINISHED_TAG,
    REASON_TAG,
    RERUN_TAG,
    Choice,
    PartitionKey,
    Rerun,
    RerunState,
    Scope,
    asset_graph,
    begin_rerun,
    find_reruns,
    name_rerun,
    request_stage,
    request_stage_after,
    runs_page,
)
from tournament_assets.graph.partitions import asset_key
from tournament_assets.tournament.config import Mode, RerunSchedule, TournamentConfig
from tournament_assets.tournament.yaml_files import KeyPath
from tournament_assets.workflows.plan import TournamentPlan


def schedule_problems(config: TournamentConfig) -> list[tuple[KeyPath, str]]:
    """Say which configured schedules Dagster cannot fire, each with the place of its cron."""
    problems: list[tuple[KeyPath, str]] = []
    for mode, wanted in _schedules_of(config).items():
        try:
            dg.ScheduleDefinition(
                name="trial",
                job_name="trial",
                cron_schedule=wanted.cron,
                execution_timezone=wanted.time_zone,
            )
        except dg.DagsterInvalidDefinitionError:
            place = (
                ("automation", "headline_schedule", "cron")
                if mode == "headline"
                else ("modes", mode, "schedule", "cron")
            )
            problems.append(
                (
                    place,
                    f"{'.'.join(place)} is {wanted.cron!r}; expected minute, hour, day of the "
                    "month, month and day of the week, such as '0 6 * * 1' for Mondays at six",
                )
            )
    return problems


def _schedules_of(config: TournamentConfig) -> dict[Mode, RerunSchedule]:
    schedules = {mode: config.mode(mode).schedule for mode in config.mode_names}
    return {mode: schedule for mode, schedule in schedules.items() if schedule is not None}


def build_schedules(plan: TournamentPlan, jobs: Sequence[Any]) -> list[dg.ScheduleDefinition]:
    """Build the schedules of one tournament: one for each mode that its config gives one.

    Args:
        plan: The tournament.
        jobs: The jobs of its stages; a schedule begins the first, a sensor the others.
    """
    return [
        _build_schedule(plan, mode, wanted, jobs[0])
        for mode, wanted in _schedules_of(plan.config).items()
    ]


def _build_schedule(
    plan: TournamentPlan, mode: Mode, wanted: RerunSchedule, first_job: Any
) -> dg.ScheduleDefinition:
    tags = {"tournament": plan.tournament_id, REASON_TAG: "schedule"}

    @dg.schedule(
        name=f"{plan.tournament_id}_{mode}_schedule",
        job=first_job,
        cron_schedule=wanted.cron,
        execution_timezone=wanted.time_zone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            f"Runs the {mode} again, all stages in order, and leaves a new run directory. While "
            f"an earlier rerun of the {mode} is unfinished it begins none; of several ticks that "
            "were missed it makes up for one. Its reruns are listed at "
            f"{runs_page({**tags, 'mode': mode})}; a click on "
            f"the tag {RERUN_TAG} of a run there shows one rerun as a whole."
        ),
    )
    def schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> list[dg.RunRequest] | dg.SkipReason:
        began_at = context.scheduled_execution_time.astimezone(UTC)
        own_id = name_rerun(plan, mode, "schedule", began_at)
        for rerun in find_reruns(context.instance, plan, mode=mode):
            # A tick that was interrupted is evaluated again, and is no obstacle to itself.
            if rerun.is_unfinished and rerun.identity.rerun_id != own_id:
                return dg.SkipReason(f"{rerun.describe()}; one at a time")
        return begin_rerun(
            plan,
            mode,
            graph=asset_graph(context),
            instance=context.instance,
            began_at=began_at,
            reason="schedule",
        )

    return schedule


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
            skip_reason=None if requests else _reason_to_wait(reruns),
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
    if rerun.stage_index is None:
        return []
    left = rerun.partitions_not_begun
    if left:
        if now - rerun.newest_run_created_at < BEGINNING_TAKES:
            return []
        whole = {
            _key(plan, rerun, name): [asset_key(plan, asset) for asset in assets]
            for name, assets in rerun.partitions.items()
        }
        work = {key: whole[key] for key in (_key(plan, rerun, name) for name in left)}
        return request_stage(rerun.stage_index, rerun.identity, plan, work=work, whole=whole)
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
    stage = next(each for each in build_rerun_stages(plan) if each.job_name == rerun.stage)
    keys = stage.partition_keys(plan, rerun.identity.mode)
    return next((key for key in keys if key is not None and str(key) == name), name)


def _reason_to_wait(reruns: Sequence[Rerun]) -> str:
    # One whose failed run was executed again too late has changed, and does not go on.
    told = [
        rerun.describe()
        for rerun in reruns
        if rerun.is_unfinished or rerun.state is RerunState.BETWEEN_STAGES
    ]
    return "; ".join(told) or "no rerun is under way"
