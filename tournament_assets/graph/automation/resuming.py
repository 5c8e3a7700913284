"""Going on with judging that was begun: batches that nobody waits for, requests that failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from tournament_assets.graph.automation.jobs import stage_making
from tournament_assets.graph.automation.reruns import (
    Rerun,
    began_at_text,
    find_rerun_stopped_at,
)
from tournament_assets.graph.resources import JudgeResource, LedgerResource
from tournament_assets.judging.batch_service import BatchService
from tournament_assets.judging.settlement.records import JudgingScope, OpenBatch
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.errors import JudgeError
from tournament_assets.tournament.judges import ServiceAccess
from tournament_assets.workflows.judge_requests import UNBUDGETED_TAG
from tournament_assets.workflows.plan import TournamentPlan

_INTERVAL_SECONDS = 60


def build_resuming_sensor(
    plan: TournamentPlan, jobs: Sequence[Any], *, resource_prefix: str = ""
) -> dg.SensorDefinition:
    """Build the sensor of one tournament.

    Args:
        plan: The tournament.
        jobs: The jobs of its stages.
        resource_prefix: What the keys of its resources begin with.
    """
    tournament = plan.config
    ledger_key, judge_key = f"{resource_prefix}ledger", f"{resource_prefix}judge"

    @dg.sensor(
        name=f"{plan.tournament_id}_resume_judging",
        jobs=jobs,
        required_resource_keys={ledger_key, judge_key},
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Collects judge batches that have ended and that no run waits for: those of a step "
            "that gave up its place, and those of a run that was killed. It sends nothing that "
            "was not begun."
        ),
    )
    def resume_judging(
        context: dg.SensorEvaluationContext,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        ledger: LedgerResource = getattr(context.resources, ledger_key)
        judge: JudgeResource = getattr(context.resources, judge_key)
        with ledger.open() as opened:
            leased = opened.leased_scopes()
            left = {
                scope: batches
                for scope, batches in opened.open_scopes(plan.tournament_id).items()
                if scope not in leased
                and scope.is_of_verdicts
                and scope.mode in tournament.mode_names
                and scope.dimension in tournament.dimension_names
            }
        if not left:
            yield dg.SkipReason("no batch is without a run that waits for it")
            return
        ended: dict[JudgingScope, list[OpenBatch]] = {}
        for mode in dict.fromkeys(scope.mode for scope in left):
            here = tournament.in_mode(mode)
            of_mode = [scope for scope in left if scope.mode == mode]
            for asked in here.judge.accesses:
                own = [scope for scope in of_mode if _judge_of(scope, here) is asked]
                if own:
                    with judge.service(asked) as service:
                        ended |= {
                            scope: left[scope]
                            for scope in own
                            if _have_ended(left[scope], service, context)
                        }
        if not ended:
            count = sum(len(batches) for batches in left.values())
            yield dg.SkipReason(f"{count} batches have not ended yet")
        yield from _request_runs(plan, ended, context.instance)

    return resume_judging


def _judge_of(scope: JudgingScope, tournament: TournamentConfig) -> ServiceAccess:
    """Return who was asked: of a panel the judge that the scope names, if it is still in it."""
    panel = (each for each in tournament.judge.panel if each.model == scope.judge_model)
    return next(panel, tournament.judge.accesses[0])


def _have_ended(
    batches: Sequence[OpenBatch], service: BatchService, context: dg.SensorEvaluationContext
) -> bool:
    try:
        # One without a name has to be looked for, which is the run's business.
        return all(
            service.get_batch(batch.batch_id).has_ended
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
    """Yield a run for each dimension; one for a mode whose rerun stopped while all were asked."""
    begun: set[str] = set()
    for scope, batches in ended.items():
        rerun = _stopped(plan, scope, instance, "judge_requests", scope.mode)
        if rerun is None:
            key = dg.MultiPartitionKey({"mode": scope.mode, "dimension": scope.dimension})
            rerun = _stopped(plan, scope, instance, "judge_replies", key)
            if str(key) not in begun:  # the judges of a panel are collected together
                begun.add(str(key))
                yield _request_run(plan, scope, batches, rerun, "judge_replies", key)
        elif scope.mode not in begun:
            begun.add(scope.mode)
            yield _request_run(plan, scope, batches, rerun, "judge_requests", scope.mode)


def _stopped(
    plan: TournamentPlan,
    scope: JudgingScope,
    instance: dg.DagsterInstance,
    asset: str,
    partition: str,
) -> Rerun | None:
    return find_rerun_stopped_at(
        instance, plan, mode=scope.mode, asset=asset, partition=str(partition)
    )


def _request_run(
    plan: TournamentPlan,
    scope: JudgingScope,
    batches: Sequence[OpenBatch],
    rerun: Rerun | None,
    asset: str,
    partition: dg.MultiPartitionKey | str,
) -> dg.RunRequest:
    # A run that fails is tried again, and not every minute.
    hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
    # A panel is asked as a whole, and finds what each of its judges has answered.
    config = {} if scope.judge_model else {"judge_model": batches[0].judge_model}
    # What was begun was allowed when it was begun.
    allowed = {UNBUDGETED_TAG: "yes"}
    tags = {"tournament": plan.tournament_id, "mode": scope.mode}
    if rerun is not None:
        # With the tags of the run that gave up its place, it stands for it, and the rerun goes on.
        tags = rerun.tags_of(str(partition))
        config["run_began_at"] = began_at_text(rerun.identity.began_at)
    return dg.RunRequest(
        run_key=f"{batches[0].nonce} {hour}",
        job_name=stage_making(plan, asset).job_name,
        partition_key=partition,
        run_config={"ops": {f"{plan.tournament_id}__{asset}": {"config": config}}},
        tags={**tags, **allowed},
    )
