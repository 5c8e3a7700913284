"""Automation: a tournament's schedules, and the sensor that finishes what was begun.

Schedules begin reruns of modes. One sensor takes them from stage to stage, collects batches that no
run waits for, and reports what an edit made out of date.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from tournament_assets.foundation.errors import InputError, JudgeError, TournamentError
from tournament_assets.graph.assets.judging import judge_replies, judge_requests
from tournament_assets.graph.assets.observed_inputs import ledger_files
from tournament_assets.graph.automation.edits import Look, look_at_inputs, state_of
from tournament_assets.graph.automation.jobs import op_configs, stage_making
from tournament_assets.graph.automation.reruns import (
    begin_rerun,
    find_rerun_stopped_at,
    find_reruns,
    name_rerun,
)
from tournament_assets.graph.resources import JudgeResource, LedgerResource
from tournament_assets.graph.rows import COLLECTS_TAG
from tournament_assets.judging.batch_service import AsksDirectly, takes_batches
from tournament_assets.judging.settlement.records import JudgingScope, OpenBatch
from tournament_assets.preparing.preflight import Finding, Health
from tournament_assets.project.config_files import with_lines
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode, RerunSchedule, TournamentConfig
from tournament_assets.tournament.judges import Judge

_DAEMON_SECONDS = 300


def refuse_bad_schedules(plan: TournamentPlan) -> None:
    """Refuse schedules that Dagster cannot fire, each with the line of its cron."""
    problems: list[str] = []
    for mode, schedule in _schedules_of(plan.config).items():
        try:
            dg.ScheduleDefinition(
                name="trial",
                job_name="trial",
                cron_schedule=schedule.cron,
                execution_timezone=schedule.time_zone,
            )
        except dg.DagsterInvalidDefinitionError:
            problems.append(
                f"modes.{mode}.schedule.cron is {schedule.cron!r}; expected minute, hour, day of "
                "the month, month and day of the week, such as '0 6 * * 1' for Mondays at six"
            )
    if problems:
        raise InputError(with_lines(plan.shown_path, problems))


def _schedules_of(config: TournamentConfig) -> dict[Mode, RerunSchedule]:
    schedules = {name: mode.schedule for name, mode in config.modes.items()}
    return {mode: schedule for mode, schedule in schedules.items() if schedule is not None}


def build_schedules(plan: TournamentPlan, run_job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Build the schedules of one tournament: one for each mode that has one in its config.

    Args:
        run_job: The job that runs everything again.
    """
    return [
        _build_schedule(plan, mode, schedule, run_job)
        for mode, schedule in _schedules_of(plan.config).items()
    ]


def _build_schedule(
    plan: TournamentPlan, mode: Mode, rerun_schedule: RerunSchedule, run_job: dg.JobDefinition
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{plan.tournament_id}_{mode}_schedule",
        job=run_job,
        cron_schedule=rerun_schedule.cron,
        execution_timezone=rerun_schedule.time_zone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            f"Runs the {mode} again, all stages in order, and leaves a new run directory. While "
            f"an earlier rerun of the {mode} is unfinished it begins none; of several ticks that "
            f"were missed it makes up for one. Its reruns are runs of {run_job.name}."
        ),
    )
    def schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> list[dg.RunRequest] | dg.SkipReason:
        began_at = context.scheduled_execution_time.astimezone(UTC)
        own_id = name_rerun(plan, mode, "schedule", began_at)
        for rerun in find_reruns(context.instance, plan, mode=mode):
            # A tick that was interrupted is evaluated again, and must not block itself.
            if rerun.is_unfinished and rerun.identity.rerun_id != own_id:
                return dg.SkipReason(f"{rerun.describe()}; one at a time")
        return begin_rerun(plan, mode, began_at=began_at, reason="schedule")

    return schedule


_INTERVAL_SECONDS = 15


def build_sensor(
    plans: Sequence[TournamentPlan], jobs: Sequence[Any], *, resource_prefix: str = ""
) -> dg.SensorDefinition:
    """Build the sensor of a project's tournaments.

    Args:
        jobs: The jobs of their stages.
        resource_prefix: What the keys of its resources begin with, and its own name.
    """
    ledger_key, judge_key = f"{resource_prefix}ledger", f"{resource_prefix}judge"

    def tournaments(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        ledger: LedgerResource = getattr(context.resources, ledger_key)
        judge: JudgeResource = getattr(context.resources, judge_key)
        before = json.loads(context.cursor) if context.cursor else {}
        looks = {
            plan.tournament_id: _look(
                plan, context, before.get(plan.tournament_id, {}), ledger, judge
            )
            for plan in plans
        }
        requests = [request for look in looks.values() for request in look.requests]
        lines = [f"{name}: {look.sentence}" for name, look in looks.items()]
        return dg.SensorResult(
            run_requests=requests,
            asset_events=[event for look in looks.values() for event in look.events],
            skip_reason=None if requests else "\n".join(lines),
            cursor=json.dumps({name: look.seen for name, look in looks.items()}, sort_keys=True),
        )

    return _Sensor(
        name=f"{resource_prefix}{SENSOR}",
        evaluation_fn=tournaments,
        jobs=jobs,
        required_resource_keys={ledger_key, judge_key},
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Reports what an edit made out of date in every tournament, and runs it again in a "
            "mode with rerun_after_edits. Collects judge batches that have ended and that no run "
            "waits for; a rerun that gave up its place to them goes on."
        ),
    )


SENSOR = "tournaments"


class _Sensor(dg.SensorDefinition):
    """A sensor that Dagster can copy without warning of a parameter that it calls beta."""

    def with_attributes(self, **changes: Any) -> dg.SensorDefinition:
        """Return a copy."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            copy = super().with_attributes(**changes)
        copy.__class__ = _Sensor
        return copy


def _look(
    plan: TournamentPlan,
    context: dg.SensorEvaluationContext,
    seen: Mapping[str, str],
    ledger: LedgerResource,
    judge: JudgeResource,
) -> Look:
    """Look at one tournament; nothing is read while nothing of it changes and nothing waits."""
    state = state_of(plan, context.instance)
    is_same = state is not None and seen.get("state") == state
    # A ledger outside the project's files does not show that it has changed.
    if is_same and not seen["batches"] and ledger_files(plan):
        return Look(seen["said"], seen=seen)
    try:
        looks = [resume_judging(plan, context, ledger, judge)]
        if not is_same:
            reruns = find_reruns(context.instance, plan)
            unfinished = [rerun.describe() for rerun in reruns if rerun.is_unfinished]
            # What a rerun has yet to make is not news.
            looks.append(
                Look("; ".join(unfinished), waits=True)
                if unfinished
                else look_at_inputs(plan, context.instance, seen)
            )
    except TournamentError as error:
        context.log.warning(f"{plan.tournament_id}: {error}")
        return Look(str(error), seen={**seen, "state": ""})
    requests = [request for look in looks for request in look.requests]
    sentence = "; ".join(look.sentence for look in looks if look.sentence) or "nothing has changed"
    news = {name: value for look in looks for name, value in look.seen.items()}
    is_quiet = not requests and not any(look.waits for look in looks)
    return Look(
        sentence,
        events=[event for look in looks for event in look.events],
        requests=requests,
        seen={**seen, **news, "state": (state or "") if is_quiet else "", "said": sentence},
    )


def resume_judging(
    plan: TournamentPlan,
    context: dg.SensorEvaluationContext,
    ledger: LedgerResource,
    judge: JudgeResource,
) -> Look:
    """Collect judge batches that have ended and that no run waits for.

    They were left by steps that gave up their place, and by runs that were killed.
    """
    tournament = plan.config
    with ledger.open() as opened:
        leased = opened.leased_scopes()
        open_batches = opened.open_scopes(plan.tournament_id)
        abandoned = {
            scope: batches
            for scope, batches in open_batches.items()
            if scope not in leased
            and scope.is_of_verdicts
            and scope.mode in tournament.mode_names
            and scope.dimension in tournament.dimension_names
        }
    ended: dict[JudgingScope, list[OpenBatch]] = {}
    for mode in dict.fromkeys(scope.mode for scope in abandoned):
        of_mode = [scope for scope in abandoned if scope.mode == mode]
        for mode_judge in tournament.judges_of(mode):
            of_judge = [scope for scope in of_mode if _judge_of(scope, tournament) == mode_judge]
            if of_judge:
                with judge.service(mode_judge) as service:
                    ended |= {
                        scope: abandoned[scope]
                        for scope in of_judge
                        if _have_ended(abandoned[scope], service, context)
                    }
    count = sum(len(batches) for batches in abandoned.values())
    return Look(
        f"{count} batches have not ended yet" if abandoned and not ended else "",
        requests=list(_request_runs(plan, ended, context.instance)),
        seen={"batches": "open" if open_batches else ""},
    )


def _judge_of(scope: JudgingScope, tournament: TournamentConfig) -> Judge:
    """Return who was asked: of several judges the one the scope names, if it still judges."""
    judges = tournament.judges_of(scope.mode)
    return next((each for each in judges if each.model == scope.judge_model), judges[0])


def _have_ended(
    batches: Sequence[OpenBatch], service: AsksDirectly, context: dg.SensorEvaluationContext
) -> bool:
    try:
        # The run itself looks for a batch without a name.
        return all(
            takes_batches(service) and service.get_batch(batch.batch_id).has_ended
            for batch in batches
            if batch.batch_id is not None
        )
    except JudgeError as error:
        context.log.warning(str(error))
        return False


def _request_runs(
    plan: TournamentPlan,
    ended: Mapping[JudgingScope, Sequence[OpenBatch]],
    instance: dg.DagsterInstance,
) -> Iterator[dg.RunRequest]:
    """Yield a run for each dimension; one for a mode whose rerun stopped while it asked."""
    # A run that fails is tried again, and not every minute.
    hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
    replies = stage_making(plan, judge_replies.__name__)
    asking = stage_making(plan, judge_requests.__name__).step()
    begun: set[str] = set()
    for scope, (first, *_) in ended.items():
        rerun = find_rerun_stopped_at(
            instance, plan, {asking, replies.step(scope.dimension)}, mode=scope.mode
        )
        key = dg.MultiPartitionKey({"mode": scope.mode, "dimension": scope.dimension})
        place = scope.mode if rerun else str(key)
        if place in begun:  # the judges of a mode are collected together
            continue
        begun.add(place)
        collects = {COLLECTS_TAG: first.nonce}
        if rerun is not None:
            # With its tags it stands for the run that gave up its place, and the rerun goes on.
            yield dg.RunRequest(
                run_key=f"{first.nonce} {hour}",
                job_name=rerun.newest_run.job_name,
                partition_key=scope.mode,
                tags={**rerun.tags, **collects},
            )
            continue
        # A jury is resumed as a whole: what each of its judges has answered is found then.
        config = {} if scope.judge_model else {"judge_model": first.judge_model}
        yield dg.RunRequest(
            run_key=f"{first.nonce} {hour}",
            job_name=replies.job_name,
            partition_key=key,
            run_config=op_configs(plan, [judge_replies.__name__], config),
            tags={"tournament": plan.tournament_id, "mode": scope.mode, **collects},
        )


def diagnose_automation(
    plans: Iterable[TournamentPlan], instance: dg.DagsterInstance
) -> Iterator[Finding]:
    """Check that the automation in the configs is on and that its failures would be noticed.

    Args:
        instance: Where Dagster keeps what is on.
    """
    for plan in plans:
        yield from _diagnose_automation(plan, instance)
    if not _has_daemon(instance):
        yield Finding(
            "daemon",
            Health.WARNING,
            "none has reported in the last five minutes, so no schedule or sensor fires",
            "start `tournament ui`, or `tournament ui --daemon` without pages",
        )


def _diagnose_automation(plan: TournamentPlan, instance: dg.DagsterInstance) -> Iterator[Finding]:
    running = {
        state.name for state in instance.all_instigator_state() if state.status.value == "RUNNING"
    }
    needed = [f"{plan.tournament_id}_{mode}_schedule" for mode in _schedules_of(plan.config)]
    if any(mode.rerun_after_edits for mode in plan.config.modes.values()):
        needed.append(SENSOR)
    for name in needed:
        if name in running:
            yield Finding(name, Health.OK, "on")
        else:
            yield Finding(
                name,
                Health.WARNING,
                "the config names it and it is off",
                "start `tournament ui` and switch it on under Automation",
            )


def _has_daemon(instance: dg.DagsterInstance) -> bool:
    beats = instance.get_daemon_heartbeats().values()
    newest = max((beat.timestamp for beat in beats), default=0.0)
    return datetime.now(UTC).timestamp() - newest < _DAEMON_SECONDS
