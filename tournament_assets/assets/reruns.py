"""Reruns: the stages of one mode in order, as ordinary runs that run tags tie together.

All that is known about a rerun stands in its runs and their tags, so a daemon that is restarted has
forgotten nothing, and the tag `tournament/rerun` shows a whole rerun among the runs of the UI.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import dagster as dg

from tournament_assets.assets.jobs import DRIFT_ASSET, Stage, build_rerun_stages
from tournament_assets.assets.out_of_date import find_out_of_date
from tournament_assets.assets.plan import TournamentPlan
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
WorkOfStage = Mapping[PartitionKey, Sequence[dg.AssetKey]]
"""By partition what a rerun has to run of a stage; no assets are all of them."""
Choice = Callable[[Any, dg.DagsterInstance, TournamentPlan, Stage, Mode], WorkOfStage]
"""Says, from the asset graph and the instance, what there is to run; nothing skips the stage."""


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


def choose_everything(
    graph: Any,  # noqa: ARG001  # a choice by what is out of date needs it
    instance: dg.DagsterInstance,  # noqa: ARG001
    plan: TournamentPlan,
    stage: Stage,
    mode: Mode,
) -> WorkOfStage:
    """Return every partition of a stage: what a scheduled rerun runs."""
    if DRIFT_ASSET in stage.assets and plan.config.judge.anchor_pairs == 0:
        return {}
    return dict.fromkeys(stage.partition_keys(plan, mode), ())


def choose_out_of_date(
    graph: Any, instance: dg.DagsterInstance, plan: TournamentPlan, stage: Stage, mode: Mode
) -> WorkOfStage:
    """Return what an edit made out of date; it is no occasion to ask whether the judge drifts."""
    if DRIFT_ASSET in stage.assets:
        return {}
    return find_out_of_date(graph, instance, plan, stage, mode)


CHOICES: Mapping[Scope, Choice] = {"all": choose_everything, "out_of_date": choose_out_of_date}
"""The choice that belongs to each scope."""


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
    graph: Any,
    instance: dg.DagsterInstance,
    began_at: datetime,
    reason: Reason,
    choices: Mapping[Scope, Choice] = CHOICES,
) -> list[dg.RunRequest]:
    """Return the runs of a rerun's first stage; the sensor that continues reruns requests the rest.

    Args:
        plan: The tournament.
        mode: The mode to rerun.
        graph: The asset graph, which Dagster has no public type for.
        instance: Where the choice of partitions looks what is out of date.
        began_at: Names the rerun: asked twice for the same moment, it is the same rerun.
        reason: Why: a schedule reruns everything, an edit what it made out of date.
        choices: The choice that belongs to each scope.

    Returns:
        A request for each partition of the first stage that has any; empty if nothing is to run.
    """
    identity = RerunIdentity(
        rerun_id=name_rerun(plan, mode, reason, began_at),
        mode=mode,
        scope="all" if reason == "schedule" else "out_of_date",
        reason=reason,
        began_at=began_at,
    )
    return request_stage_after(
        -1, identity, plan, graph=graph, instance=instance, choice=choices[identity.scope]
    )


def request_stage_after(
    stage_index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    *,
    graph: Any,
    instance: dg.DagsterInstance,
    choice: Choice,
) -> list[dg.RunRequest]:
    """Return the runs of the next stage that has any to run; none if no later stage has."""
    for index, stage in enumerate(build_rerun_stages(plan)):
        if index > stage_index:
            work = choice(graph, instance, plan, stage, rerun.mode)
            if work:
                return request_stage(index, rerun, plan, work=work, stage_keys=list(work))
    return []


def request_stage(
    index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    *,
    work: WorkOfStage,
    stage_keys: Sequence[PartitionKey],
) -> list[dg.RunRequest]:
    """Return the runs of a stage.

    Args:
        index: Which stage.
        rerun: The rerun that they belong to.
        plan: The tournament.
        work: What to request.
        stage_keys: All partitions that the rerun runs in this stage.
    """
    stage = build_rerun_stages(plan)[index]
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
            asset_selection=list(assets) or None,
            run_config=_rerun_config(plan, stage, assets, rerun),
            tags=tags,
        )
        for key, assets in work.items()
    ]


def _rerun_config(
    plan: TournamentPlan, stage: Stage, assets: Sequence[dg.AssetKey], rerun: RerunIdentity
) -> dict[str, Any]:
    """Return the run config of a run: what its steps have to know of the rerun around them."""
    moment = began_at_text(rerun.began_at)
    by_asset = {
        "entrant_responses": {"run_began_at": moment},
        "judge_replies": {"run_began_at": moment},
        "run_artifacts": {"started_at": moment},
        DRIFT_ASSET: {"occasion": rerun.rerun_id},
    }
    names = [key.path[-1] for key in assets] or stage.assets
    return {
        "ops": {
            f"{plan.tournament_id}__{name}": {"config": by_asset[name]}
            for name in names
            if name in by_asset
        }
    }


def began_at_text(began_at: datetime) -> str:
    """Return the moment a rerun began as the run configs of its steps take it."""
    return began_at.astimezone(UTC).replace(microsecond=0).isoformat()
