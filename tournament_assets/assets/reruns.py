"""Reruns: all stages of one mode in order, as ordinary runs that run tags tie together.

All that is known about a rerun stands in its runs and their tags, so a daemon that is restarted has
forgotten nothing, and the tag `tournament/rerun` shows a whole rerun among the runs of the UI.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import dagster as dg

from tournament_assets.assets.jobs import Stage, build_stages
from tournament_assets.assets.partitions import TournamentPlan
from tournament_assets.tournament.config import Mode

RERUN_TAG = "tournament/rerun"
STAGE_TAG = "tournament/stage"
SCOPE_TAG = "tournament/scope"
REASON_TAG = "tournament/reason"
PARTITIONS_TAG = "tournament/partitions"
"""All partitions of the stage, so that a stage of which only some runs were begun is known."""
FINISHED_TAG = "tournament/finished"
"""On the last runs of a rerun that had nothing to do in the stages after theirs."""
RERUN_TAGS = ("tournament", "mode", RERUN_TAG, STAGE_TAG, SCOPE_TAG, REASON_TAG, PARTITIONS_TAG)
"""What a run that stands for another one of a rerun takes over from it."""

Scope = Literal["all", "out_of_date"]
Reason = Literal["schedule", "edit"]
PartitionKey = dg.MultiPartitionKey | str | None
PartitionsToRun = Callable[
    [dg.DagsterInstance, TournamentPlan, Stage, Mode], Sequence[PartitionKey]
]
"""Which partitions of a stage a rerun has to run; none at all skips the stage."""


@dataclass(frozen=True, slots=True)
class RerunIdentity:
    """What every run of a rerun has in common.

    Attributes:
        rerun_id: The value of the tag `tournament/rerun`.
        mode: The mode that is rerun.
        scope: Everything, or what is out of date.
        reason: Why it was begun.
        began_at: When it was begun, which is when a budget for one run begins to count.
    """

    rerun_id: str
    mode: Mode
    scope: Scope
    reason: Reason
    began_at: datetime


def all_partitions(
    instance: dg.DagsterInstance,  # noqa: ARG001  # a choice by what is out of date needs it
    plan: TournamentPlan,
    stage: Stage,
    mode: Mode,
) -> Sequence[PartitionKey]:
    """Return every partition of a stage: what a scheduled rerun runs."""
    return stage.partition_keys(plan, mode)


def name_rerun(plan: TournamentPlan, mode: Mode, reason: Reason, began_at: datetime) -> str:
    """Return a rerun's id, such as `demo_headline_20261121T060000Z`.

    A rerun after an edit says so: one that begins in the second of a scheduled one is another.
    """
    suffix = "_edit" if reason == "edit" else ""
    return f"{plan.tournament_id}_{mode}_{began_at.astimezone(UTC):%Y%m%dT%H%M%SZ}{suffix}"


def begin_rerun(
    plan: TournamentPlan,
    mode: Mode,
    *,
    instance: dg.DagsterInstance,
    began_at: datetime,
    reason: Reason,
    scope: Scope = "all",
    partitions_to_run: PartitionsToRun = all_partitions,
) -> list[dg.RunRequest]:
    """Return the runs of a rerun's first stage; the sensor that continues reruns requests the rest.

    Args:
        plan: The tournament.
        mode: The mode to rerun.
        instance: Where the choice of partitions looks what is out of date.
        began_at: Names the rerun: asked twice for the same moment, it is the same rerun.
        reason: Why.
        scope: Everything, or what is out of date.
        partitions_to_run: The choice of partitions that belongs to the scope.

    Returns:
        A request for each partition of the first stage that has any; empty if nothing is to run.
    """
    identity = RerunIdentity(
        rerun_id=name_rerun(plan, mode, reason, began_at),
        mode=mode,
        scope=scope,
        reason=reason,
        began_at=began_at,
    )
    return request_stage_after(-1, identity, plan, instance, partitions_to_run)


def request_stage_after(
    stage_index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    instance: dg.DagsterInstance,
    partitions_to_run: PartitionsToRun,
) -> list[dg.RunRequest]:
    """Return the runs of the next stage that has any to run; none if no later stage has."""
    for index, stage in enumerate(build_stages(plan)):
        if index > stage_index:
            keys = partitions_to_run(instance, plan, stage, rerun.mode)
            if keys:
                return request_stage(index, rerun, plan, keys=keys, stage_keys=keys)
    return []


def request_stage(
    index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    *,
    keys: Sequence[PartitionKey],
    stage_keys: Sequence[PartitionKey],
) -> list[dg.RunRequest]:
    """Return the runs of a stage.

    Args:
        index: Which stage.
        rerun: The rerun that they belong to.
        plan: The tournament.
        keys: The partitions to request.
        stage_keys: All partitions that the rerun runs in this stage.
    """
    stage = build_stages(plan)[index]
    tags = {
        "tournament": plan.tournament_id,
        "mode": rerun.mode,
        RERUN_TAG: rerun.rerun_id,
        STAGE_TAG: str(index),
        SCOPE_TAG: rerun.scope,
        REASON_TAG: rerun.reason,
        PARTITIONS_TAG: json.dumps([None if key is None else str(key) for key in stage_keys]),
    }
    return [
        dg.RunRequest(
            # Dagster makes no second run for a key, however often it is asked.
            run_key=f"{rerun.rerun_id}/{index}/{'' if key is None else key}",
            job_name=stage.job_name,
            partition_key=key,
            run_config=rerun_config(plan, stage, rerun.began_at),
            tags=tags,
        )
        for key in keys
    ]


def rerun_config(plan: TournamentPlan, stage: Stage, began_at: datetime) -> dict[str, Any]:
    """Return the run config of a stage: what it has to know of the rerun around it."""
    moment = began_at_text(began_at)
    by_asset = {"judge_replies": {"run_began_at": moment}, "run_artifacts": {"started_at": moment}}
    return {
        "ops": {
            f"{plan.tournament_id}__{name}": {"config": by_asset[name]}
            for name in stage.assets
            if name in by_asset
        }
    }


def began_at_text(began_at: datetime) -> str:
    """Return the moment a rerun began as the run configs of its steps take it."""
    return began_at.astimezone(UTC).replace(microsecond=0).isoformat()
