"""Reruns: the stages of one mode in order, as ordinary runs that run tags tie together.

A rerun's whole state is in its runs and their tags, so a restarted daemon forgets nothing, and the
tag `tournament/rerun` finds all its runs in the UI.

The recipes (`graph/recipe_book.py`) determine which parts of a stage are out of date.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, cast
from urllib.parse import quote

import dagster as dg

from tournament_assets.foundation.errors import Problems, WorkError
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.automation.jobs import (
    Stage,
    build_rerun_stages,
    observations,
    op_configs,
)
from tournament_assets.graph.partitions import asset_key, partitions_over
from tournament_assets.graph.recipe_book import RecipeBook
from tournament_assets.graph.recipes import Place
from tournament_assets.graph.rows import MODE
from tournament_assets.preparing.preflight import refuse_silent_judges
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode


def find_out_of_date(
    book: RecipeBook,
    stage: Stage,
    mode: Mode,
    *,
    distrusts: Callable[[str, dg.EventLogRecord], bool] = lambda _name, _record: False,
) -> "WorkOfStage":
    """Return the assets of a stage that must run, by partition, to bring a mode up to date.

    Args:
        book: The recipes.
        distrusts: Whether an asset must be made again whatever its recipe.

    Returns:
        For each partition that has to run, its assets that have to, in the stage's order; empty
        means all.
    """
    names = [name for name in stage.assets if not book.rows[name].on_request]
    by_partition = {
        partition: book.out_of_date(
            [Place(name, str(partition)) for name in names], distrusts=distrusts
        )
        for partition in stage.partition_keys(book.plan, mode)
    }
    return {
        partition: [asset_key(book.plan, place.asset) for place in places]
        for partition, places in by_partition.items()
        if places
    }


RERUN_TAG = "tournament/rerun"
STAGE_TAG = "stage"
"""A number would mean another stage to a version that has one more."""
SCOPE_TAG = "tournament/scope"
REASON_TAG = "tournament/reason"
EDITED_TAG = "tournament/edited"
"""The state of inputs and settings when a rerun began because of an edit."""
PARTITIONS_TAG = "tournament/partitions"
"""All partitions of the stage, each with the assets that run there (empty means all), so that a
stage of which only some runs were begun is recognised and completed."""
FINISHED_TAG = "tournament/finished"
"""On the last runs of a rerun that had nothing to do in the later stages."""
RERUN_TAGS = (
    *("tournament", "mode", RERUN_TAG, STAGE_TAG),
    *(SCOPE_TAG, REASON_TAG, EDITED_TAG, PARTITIONS_TAG),
)
"""The tags that a run takes over from the rerun's run that it replaces."""

Scope = Literal["all", "out_of_date"]
Reason = Literal["schedule", "edit", "hand"]
PartitionKey = dg.MultiPartitionKey | str
WorkOfStage = Mapping[PartitionKey, Sequence[dg.AssetKey]]
"""The assets of a stage that a rerun has to run, by partition; empty means all."""


@dataclass(frozen=True, slots=True)
class RerunIdentity:
    """What every run of a rerun has in common.

    Attributes:
        rerun_id: The value of the tag `tournament/rerun`.
        mode: The mode that is rerun.
        scope: Everything, or what is out of date.
        reason: Why it was begun.
        began_at: When it was begun, which is when a budget for one run begins to count.
        edited: What the inputs and settings were, where an edit was the reason.
    """

    rerun_id: str
    mode: Mode
    scope: Scope
    reason: Reason
    began_at: datetime
    edited: str = ""


def name_rerun(plan: TournamentPlan, mode: Mode, reason: Reason, began_at: datetime) -> str:
    """Return a rerun's id, such as `demo_headline_20261121T060000Z`.

    The id names any reason but a schedule, so that it differs from a scheduled rerun of the same
    second.
    """
    suffix = "" if reason == "schedule" else f"_{reason}"
    return f"{plan.tournament_id}_{mode}_{began_at.astimezone(UTC):%Y%m%dT%H%M%SZ}{suffix}"


def begin_rerun(
    plan: TournamentPlan,
    mode: Mode,
    *,
    began_at: datetime,
    reason: Reason,
    edited: str = "",
) -> list[dg.RunRequest]:
    """Return the run that begins a rerun; the sensor that continues reruns requests the rest.

    Args:
        mode: The mode to rerun.
        began_at: Identifies the rerun: two requests for the same moment are the same rerun.
        reason: Why: a schedule reruns everything, an edit what it made out of date.
        edited: What the inputs and settings are, where an edit is the reason.
    """
    rerun = RerunIdentity(
        rerun_id=name_rerun(plan, mode, reason, began_at),
        mode=mode,
        scope="all" if reason == "schedule" else "out_of_date",
        reason=reason,
        began_at=began_at,
        edited=edited,
    )
    return request_stage(0, rerun, plan, work={mode: ()}, whole={mode: ()})


def build_beginning_jobs(plan: TournamentPlan) -> list[dg.JobDefinition]:
    """Build the jobs that begin a rerun: of everything, and of what is out of date.

    They observe every input, and fail if one cannot be used. Without a schedule or an edit as the
    reason, somebody pressed the button.
    """
    return [
        _build_beginning_job(plan, "all", "run all stages of a mode, to a new run directory"),
        _build_beginning_job(
            plan, "out_of_date", "run again what is out of date in a mode, and nothing else"
        ),
    ]


def _build_beginning_job(plan: TournamentPlan, scope: Scope, does: str) -> dg.JobDefinition:
    @dg.op(name=f"{plan.tournament_id}__begin_{scope}")
    def begin(context: dg.OpExecutionContext) -> None:
        refuse_superseded(context.instance, plan, context.run)
        if RERUN_TAG not in context.run.tags:
            _begin_by_hand(context, plan, scope)
        inputs = read_inputs(plan)
        for observation in observations(plan, inputs):
            context.log_event(observation)
        problems = Problems()
        problems.extend(each.problem for each in inputs if each.problem)
        problems.raise_if_any()
        refuse_silent_judges(plan, context.partition_key, warn=context.log.warning)

    @dg.job(
        name=beginning_job(plan, scope),
        description=(
            f"{plan.tournament_id}: {does}. This run only looks at the inputs; the sensor begins "
            "the runs of the stages, and the tag tournament/rerun shows them all."
        ),
        partitions_def=partitions_over(plan.config, MODE),
        tags={"tournament": plan.tournament_id, STAGE_TAG: build_rerun_stages(plan)[0].name},
    )
    def beginning() -> None:
        begin()

    return beginning


def beginning_job(plan: TournamentPlan, scope: Scope) -> str:
    """Return the name of the job that begins a rerun."""
    return plan.job("run" if scope == "all" else "rerun")


def _begin_by_hand(context: dg.OpExecutionContext, plan: TournamentPlan, scope: Scope) -> None:
    """Turn a run that somebody launched by hand into a rerun's beginning, if none is unfinished."""
    mode = context.partition_key
    for rerun in find_reruns(context.instance, plan, mode=mode):
        if rerun.is_unfinished:
            raise WorkError(f"{rerun.describe()}; one at a time: wait for it, or cancel its runs")
    now = datetime.now(UTC)
    rerun_id = name_rerun(plan, mode, "hand", now)
    identity = RerunIdentity(rerun_id, mode, scope, "hand", now)
    context.instance.add_run_tags(context.run_id, _tags(0, identity, plan, whole={mode: ()}))


def request_stage_after(
    stage_index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    *,
    instance: dg.DagsterInstance,
) -> list[dg.RunRequest]:
    """Return the runs of the next stage with work to do; empty if no later stage has any."""
    for index, stage in enumerate(build_rerun_stages(plan)):
        # A rerun begun by an edit asks no more than what the edit needs.
        is_passed_over = stage.part_of == "rerun" and not (
            stage.is_wanted(plan) and rerun.reason == "schedule"
        )
        if index > stage_index and not is_passed_over:
            work: WorkOfStage = (
                dict.fromkeys(stage.partition_keys(plan, rerun.mode), ())
                if rerun.scope == "all"
                else find_out_of_date(RecipeBook(plan, instance), stage, rerun.mode)
            )
            if work:
                return request_stage(index, rerun, plan, work=work, whole=work)
    return []


def request_stage(
    index: int,
    rerun: RerunIdentity,
    plan: TournamentPlan,
    *,
    work: WorkOfStage,
    whole: WorkOfStage,
) -> list[dg.RunRequest]:
    """Return the runs of a stage.

    Args:
        index: Which stage.
        rerun: The rerun that they belong to.
        work: What to request.
        whole: All that the rerun runs in this stage.
    """
    stage = build_rerun_stages(plan)[index]
    tags = _tags(index, rerun, plan, whole=whole)
    told = {
        "run_began_at": began_at_text(rerun.began_at),
        "rerun": rerun.rerun_id,
        "occasion": rerun.rerun_id,
    }
    return [
        dg.RunRequest(
            # Dagster makes no second run for a key, however often it is asked.
            run_key=f"{rerun.rerun_id}/{stage.name}/{key}",
            job_name=stage.job_name if index else beginning_job(plan, rerun.scope),
            partition_key=key,
            asset_selection=list(assets) or None,
            run_config=op_configs(plan, [each.path[-1] for each in assets] or stage.assets, told),
            tags=tags,
        )
        for key, assets in work.items()
    ]


def _tags(
    index: int, rerun: RerunIdentity, plan: TournamentPlan, *, whole: WorkOfStage
) -> dict[str, str]:
    """Return what every run of a stage has in common."""
    return {
        "tournament": plan.tournament_id,
        "mode": rerun.mode,
        RERUN_TAG: rerun.rerun_id,
        STAGE_TAG: build_rerun_stages(plan)[index].name,
        SCOPE_TAG: rerun.scope,
        REASON_TAG: rerun.reason,
        **({EDITED_TAG: rerun.edited} if rerun.edited else {}),
        PARTITIONS_TAG: json.dumps(
            [[str(key), [each.path[-1] for each in assets]] for key, assets in whole.items()]
        ),
    }


def began_at_text(began_at: datetime) -> str:
    """Return the moment a rerun began as the run configs of its steps take it."""
    return began_at.astimezone(UTC).replace(microsecond=0).isoformat()


PARTITION_TAG = "dagster/partition"
"""Dagster's own tag for a run's partition."""
_PARENT_TAG = "dagster/parent_run_id"
"""Dagster's own tag for the run that was executed again."""
_STOPPED = frozenset({dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


class RerunState(Enum):
    """How far a rerun has come."""

    RUNNING = "running"
    BETWEEN_STAGES = "between stages"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OF_ANOTHER_VERSION = "of another version of this program or its config and does not go on"


@dataclass(frozen=True, slots=True)
class Rerun:
    """One rerun, reconstructed from its runs.

    Attributes:
        identity: What its runs have in common.
        state: How far it has come.
        stage: The name of the stage that was begun last.
        stage_index: Which stage that is; None if this version has none of that name.
        stage_title: What that stage does.
        partitions: All partitions of that stage, with the names of the assets that run there; empty
            means all.
        newest_runs: By partition, the newest run of that stage.
        newest_run_created_at: When the newest of its runs was begun.
        updated_at: When any of its runs last changed.
        superseded_by: The newest rerun of the mode, if it began later. Only one rerun of a mode is
            active: an older one that is executed again does not continue.
    """

    identity: RerunIdentity
    state: RerunState
    stage: str
    stage_index: int | None
    stage_title: str
    partitions: Mapping[str, tuple[str, ...]]
    newest_runs: Mapping[str, dg.DagsterRun]
    newest_run_created_at: datetime
    updated_at: datetime
    superseded_by: str | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether any of its runs is running, or will start by itself."""
        return self.state is RerunState.RUNNING or (
            self.state is RerunState.BETWEEN_STAGES and self.superseded_by is None
        )

    @property
    def partitions_not_begun(self) -> tuple[str, ...]:
        """Partitions of the stage that there is no run for yet."""
        return tuple(name for name in self.partitions if name not in self.newest_runs)

    def tags_of(self, partition: str) -> dict[str, str]:
        """Return the tags by which the newest run of a partition belongs to the rerun."""
        tags = self.newest_runs[partition].tags
        return {name: tags[name] for name in RERUN_TAGS if name in tags}

    def describe(self) -> str:
        """Return its name and state in words."""
        text = f"rerun {self.identity.rerun_id} is {self.state.value} ({self.stage}: "
        text += f"{self.stage_title})"
        if self.superseded_by is None:
            return text
        return f"{text} and does not go on: rerun {self.superseded_by} has taken its place"


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
        mode: Only those of this mode.
        updated_after: Only those of which a run has changed since.
    """
    tags = {"tournament": plan.tournament_id, **({} if mode is None else {"mode": mode})}
    records = instance.get_run_records(dg.RunsFilter(tags=tags, updated_after=updated_after))
    by_id = _group_by_rerun(records)
    rerun_ids = set(by_id)
    if updated_after is not None and by_id:
        by_id = _read_groups(instance, rerun_ids)
        began = min(_aware(records[0].create_timestamp) for records in by_id.values())
        # A later rerun may have ended long ago and still have replaced these.
        later = instance.get_run_records(dg.RunsFilter(tags=tags, created_after=began))
        by_id |= _read_groups(instance, set(_group_by_rerun(later)) - rerun_ids)
    reruns = [_read_rerun(plan, records) for records in by_id.values()]
    reruns.sort(key=lambda rerun: (rerun.identity.began_at, rerun.identity.rerun_id))
    newest = {rerun.identity.mode: rerun.identity.rerun_id for rerun in reruns}
    return [
        rerun
        if newest[rerun.identity.mode] == rerun.identity.rerun_id
        else replace(rerun, superseded_by=newest[rerun.identity.mode])
        for rerun in reruns
        if rerun.identity.rerun_id in rerun_ids
    ]


def refuse_superseded(
    instance: dg.DagsterInstance, plan: TournamentPlan, run: dg.DagsterRun
) -> None:
    """Refuse a run that was executed again for a rerun that a later one has superseded."""
    if RERUN_TAG not in run.tags or _PARENT_TAG not in run.tags:
        return
    for rerun in find_reruns(instance, plan, mode=run.tags["mode"]):
        if rerun.identity.rerun_id == run.tags[RERUN_TAG] and rerun.superseded_by is not None:
            raise WorkError(
                f"this run is of rerun {rerun.identity.rerun_id}, and rerun {rerun.superseded_by} "
                "has taken its place; expected one rerun of a mode at a time; execute a failed run "
                "of the newer one again, or wait for the next"
            )


def find_rerun_stopped_at(
    instance: dg.DagsterInstance, plan: TournamentPlan, asset: str, partition: str, *, mode: str
) -> Rerun | None:
    """Return the newest rerun that stopped at an asset's partition, or None."""
    stages = enumerate(build_rerun_stages(plan))
    making = [index for index, stage in stages if asset in stage.assets]
    stopped = [
        rerun
        for rerun in find_reruns(instance, plan, mode=mode)
        if rerun.stage_index in making
        and rerun.superseded_by is None
        and partition in rerun.newest_runs
        and rerun.newest_runs[partition].status in _STOPPED
    ]
    return stopped[-1] if stopped else None


def runs_page(tags: Mapping[str, str]) -> str:
    """Return the path of the UI's page of the runs that have all of some tags."""
    return "/runs?" + "&".join(
        f"q[{index}]={quote(f'tag:{name}={value}', safe='')}"
        for index, (name, value) in enumerate(tags.items())
    )


def _read_groups(instance: dg.DagsterInstance, rerun_ids: Collection[str]) -> dict[str, list[Any]]:
    if not rerun_ids:
        return {}
    of_them = dg.RunsFilter(tags={RERUN_TAG: sorted(rerun_ids)})
    return _group_by_rerun(instance.get_run_records(of_them))


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
    names = [stage.name for stage in stages]
    begun = [record.dagster_run.tags[STAGE_TAG] for record in records]
    is_known = (
        set(begun) <= set(names) and records[0].dagster_run.tags["mode"] in plan.config.mode_names
    )
    stage = max(begun, key=names.index) if is_known else begun[-1]
    # A run that was executed again has its parent's tags; the newest run of a partition counts.
    newest = {
        record.dagster_run.tags[PARTITION_TAG]: record.dagster_run
        for record in records
        if record.dagster_run.tags[STAGE_TAG] == stage
    }
    tags = records[0].dagster_run.tags
    listed = json.loads(next(iter(newest.values())).tags[PARTITIONS_TAG]) if is_known else []
    partitions = {name: tuple(assets) for name, assets in listed}
    index = names.index(stage) if is_known else None
    state = _state_of(
        [run.status for run in newest.values()],
        all_begun=set(partitions) <= set(newest),
        none_follows=stage == names[-1] or any(FINISHED_TAG in run.tags for run in newest.values()),
    )
    return Rerun(
        identity=RerunIdentity(
            rerun_id=tags[RERUN_TAG],
            mode=tags["mode"],
            scope=cast("Scope", tags[SCOPE_TAG]),
            reason=cast("Reason", tags[REASON_TAG]),
            began_at=_aware(records[0].create_timestamp),
            edited=tags.get(EDITED_TAG, ""),
        ),
        state=RerunState.OF_ANOTHER_VERSION
        if state is RerunState.BETWEEN_STAGES and not is_known
        else state,
        stage=stage,
        stage_index=index,
        stage_title="no stage of this version" if index is None else stages[index].title,
        partitions=partitions,
        newest_runs=newest,
        newest_run_created_at=_aware(records[-1].create_timestamp),
        updated_at=max(_aware(record.update_timestamp) for record in records),
    )


def _state_of(
    statuses: list[dg.DagsterRunStatus], *, all_begun: bool, none_follows: bool
) -> RerunState:
    states = set(statuses)
    if states & _STOPPED:
        return RerunState.FAILED
    if states != {dg.DagsterRunStatus.SUCCESS}:
        return RerunState.RUNNING
    return RerunState.SUCCEEDED if all_begun and none_follows else RerunState.BETWEEN_STAGES


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
