"""How far the reruns of a tournament have come, read from their runs and the runs' tags."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast

import dagster as dg

from tournament_assets.assets.jobs import build_rerun_stages
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.assets.reruns import (
    FINISHED_TAG,
    PARTITIONS_TAG,
    REASON_TAG,
    RERUN_TAG,
    RERUN_TAGS,
    SCOPE_TAG,
    STAGE_TAG,
    Reason,
    RerunIdentity,
    Scope,
)
from tournament_assets.tournament.config import Mode

PARTITION_TAG = "dagster/partition"
"""Where Dagster itself notes a run's partition."""
_STOPPED = frozenset({dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


class RerunState(Enum):
    """How far a rerun has come."""

    RUNNING = "running"
    BETWEEN_STAGES = "between stages"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Rerun:
    """One rerun, as its runs tell it.

    Attributes:
        identity: What its runs have in common.
        state: How far it has come.
        stage_index: The stage that was begun last.
        stage_title: What that stage does.
        partitions: All partitions of that stage; None is the only one of a stage without any.
        newest_runs: By partition, the newest run of that stage.
        newest_run_created_at: When the newest of its runs was begun.
        updated_at: When the newest change to any of its runs was noted.
    """

    identity: RerunIdentity
    state: RerunState
    stage_index: int
    stage_title: str
    partitions: tuple[str | None, ...]
    newest_runs: Mapping[str | None, dg.DagsterRun]
    newest_run_created_at: datetime
    updated_at: datetime

    @property
    def is_unfinished(self) -> bool:
        """Whether something of it runs, or is going to without anybody's help."""
        return self.state in (RerunState.RUNNING, RerunState.BETWEEN_STAGES)

    @property
    def partitions_not_begun(self) -> tuple[str | None, ...]:
        """Partitions of the stage that there is no run for yet."""
        return tuple(name for name in self.partitions if name not in self.newest_runs)

    def tags_of(self, partition: str | None) -> dict[str, str]:
        """Return the tags by which the newest run of a partition belongs to the rerun."""
        tags = self.newest_runs[partition].tags
        return {name: tags[name] for name in RERUN_TAGS}

    def describe(self) -> str:
        """Return its name and state in words."""
        where = f"stage {self.stage_index}, {self.stage_title}"
        return f"rerun {self.identity.rerun_id} is {self.state.value} ({where})"


def find_reruns(
    instance: dg.DagsterInstance,
    plan: TournamentPlan,
    *,
    mode: Mode | None = None,
    updated_after: datetime | None = None,
) -> list[Rerun]:
    """Return a tournament's reruns, in the order they began.

    Args:
        instance: Where the runs are.
        plan: The tournament.
        mode: Only those of this mode.
        updated_after: Only those of which a run has changed since.
    """
    tags = {"tournament": plan.tournament_id, **({} if mode is None else {"mode": mode})}
    records = instance.get_run_records(dg.RunsFilter(tags=tags, updated_after=updated_after))
    by_id = _group_by_rerun(records)
    if updated_after is not None and by_id:
        by_id = _group_by_rerun(
            instance.get_run_records(dg.RunsFilter(tags={RERUN_TAG: sorted(by_id)}))
        )
    reruns = [_read_rerun(plan, records) for records in by_id.values()]
    return sorted(reruns, key=lambda rerun: (rerun.identity.began_at, rerun.identity.rerun_id))


def find_rerun_stopped_at(
    instance: dg.DagsterInstance, plan: TournamentPlan, *, mode: str, partition: str
) -> Rerun | None:
    """Return the newest rerun that judging a partition has stopped, or None."""
    judging = [
        index
        for index, stage in enumerate(build_rerun_stages(plan))
        if "judge_replies" in stage.assets
    ]
    stopped = [
        rerun
        for rerun in find_reruns(instance, plan, mode=cast("Mode", mode))
        if rerun.stage_index in judging
        and partition in rerun.newest_runs
        and rerun.newest_runs[partition].status in _STOPPED
    ]
    return stopped[-1] if stopped else None


def _group_by_rerun(records: Iterable[Any]) -> dict[str, list[Any]]:
    by_id: dict[str, list[Any]] = {}
    for record in sorted(records, key=lambda record: cast("int", record.storage_id)):
        rerun_id = record.dagster_run.tags.get(RERUN_TAG)
        if rerun_id is not None:
            by_id.setdefault(rerun_id, []).append(record)
    return by_id


def _read_rerun(plan: TournamentPlan, records: list[Any]) -> Rerun:
    """Put one rerun together from all of its runs, the oldest first."""
    stages = build_rerun_stages(plan)
    stage_index = max(int(record.dagster_run.tags[STAGE_TAG]) for record in records)
    # A run that was executed again has its parent's tags; the newest run of a partition counts.
    newest = {
        record.dagster_run.tags.get(PARTITION_TAG): record.dagster_run
        for record in records
        if record.dagster_run.tags[STAGE_TAG] == str(stage_index)
    }
    tags = records[0].dagster_run.tags
    partitions = tuple(json.loads(next(iter(newest.values())).tags[PARTITIONS_TAG]))
    return Rerun(
        identity=RerunIdentity(
            rerun_id=tags[RERUN_TAG],
            mode=cast("Mode", tags["mode"]),
            scope=cast("Scope", tags[SCOPE_TAG]),
            reason=cast("Reason", tags[REASON_TAG]),
            began_at=_aware(records[0].create_timestamp),
        ),
        state=_state_of(
            [run.status for run in newest.values()],
            all_begun=set(partitions) <= set(newest),
            none_follows=stage_index >= len(stages) - 1
            or any(FINISHED_TAG in run.tags for run in newest.values()),
        ),
        stage_index=stage_index,
        stage_title=stages[stage_index].title
        if stage_index < len(stages)
        else "of an older version",
        partitions=partitions,
        newest_runs=newest,
        newest_run_created_at=_aware(records[-1].create_timestamp),
        updated_at=max(_aware(record.update_timestamp) for record in records),
    )


def _state_of(
    statuses: list[dg.DagsterRunStatus], *, all_begun: bool, none_follows: bool
) -> RerunState:
    found = set(statuses)
    if found & _STOPPED:
        return RerunState.FAILED
    if found != {dg.DagsterRunStatus.SUCCESS}:
        return RerunState.RUNNING
    return RerunState.SUCCEEDED if all_begun and none_follows else RerunState.BETWEEN_STAGES


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
