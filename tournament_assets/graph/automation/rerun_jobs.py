"""The jobs that run a mode again: everything, or what is out of date."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import dagster as dg
import upath

from tournament_assets.foundation.errors import Problems, WorkError
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.automation.jobs import Stage, build_rerun_stages, observations
from tournament_assets.graph.automation.reruns import (
    RERUN_TAG,
    Scope,
    find_identity,
    find_reruns,
    job_of,
    refuse_superseded,
    rerun_tags,
)
from tournament_assets.graph.automation.stage_runs import (
    StageRunner,
    Steps,
    build_steps,
    call_in_order,
)
from tournament_assets.graph.partitions import partitions_over, recorded_of
from tournament_assets.graph.plain_runs import open_engine
from tournament_assets.graph.rows import MODE
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.preparing.preflight import refuse_silent_judges
from tournament_assets.project.plan import TournamentPlan

_NEVER = datetime.fromtimestamp(0, UTC)


def build_rerun_jobs(plan: TournamentPlan) -> list[dg.JobDefinition]:
    """Build the jobs that are reruns: of everything, and of what is out of date.

    They observe every input, and fail if one cannot be used. Without a schedule or an edit as the
    reason, somebody pressed the button.
    """
    steps = build_steps(plan, build_rerun_stages(plan), partial(_run_step, plan))
    does: Mapping[Scope, str] = {
        "all": "run all stages of a mode, to a new run directory",
        "out_of_date": "run again what is out of date in a mode, and nothing else",
    }
    return [_build_rerun_job(plan, scope, text, steps) for scope, text in does.items()]


def _build_rerun_job(
    plan: TournamentPlan, scope: Scope, does: str, steps: Sequence[Steps]
) -> dg.JobDefinition:
    @dg.op(name=f"{plan.tournament_id}__begin_{scope}", out=dg.Out(dg.Nothing))
    def begin(context: dg.OpExecutionContext) -> None:
        refuse_superseded(context.instance, plan, context.run)
        if RERUN_TAG not in context.run.tags:
            _begin_by_hand(context, plan)
        inputs = read_inputs(plan)
        for observation in observations(plan, inputs):
            context.log_event(observation)
        problems = Problems()
        problems.extend(each.problem for each in inputs if each.problem)
        problems.raise_if_any()
        refuse_silent_judges(plan, context.partition_key, warn=context.log.warning)

    @dg.job(
        name=job_of(plan, scope),
        description=f"{plan.tournament_id}: {does}. One rerun of a mode at a time.",
        partitions_def=partitions_over(plan.config, MODE),
        tags={"tournament": plan.tournament_id},
    )
    def rerun() -> None:
        call_in_order([{"inputs": begin}, *steps])

    return rerun


def _begin_by_hand(context: dg.OpExecutionContext, plan: TournamentPlan) -> None:
    """Turn a run that somebody launched by hand into a rerun, if none is unfinished."""
    mode = context.partition_key
    for rerun in find_reruns(context.instance, plan, mode=mode):
        if rerun.is_unfinished:
            raise WorkError(f"{rerun.describe()}; one at a time: wait for it, or cancel its run")
    tags = rerun_tags(plan, mode, "hand", datetime.now(UTC))
    context.instance.add_run_tags(context.run_id, tags)


def _run_step(
    plan: TournamentPlan, stage: Stage, number: int, context: dg.OpExecutionContext
) -> None:
    """Run a step of a rerun, wherever it is executed."""
    instance, mode = context.instance, context.partition_key
    refuse_superseded(instance, plan, context.run)
    rerun = find_identity(instance, context.run_id)
    # A rerun begun by an edit asks no more than what the edit needs.
    if stage.part_of == "rerun" and not (rerun.reason == "schedule" and stage.is_wanted(plan)):
        return
    began_at = rerun.began_at.replace(microsecond=0).isoformat()
    with open_engine(
        plan,
        RunOptions(mode),
        folder=upath.UPath(plan.project.storage),
        records=partial(recorded_of, plan, instance),
        told={"run_began_at": began_at, "rerun": rerun.rerun_id, "occasion": rerun.rerun_id},
        upstream=lambda key: context.repository_def.load_asset_value(
            dg.AssetKey.from_user_string(key), instance=instance
        ),
    ) as engine:
        since = rerun.began_at if rerun.scope == "all" else _NEVER
        StageRunner(plan, RunOptions(mode), engine, instance, since=since).run_step(
            stage, number, context
        )
