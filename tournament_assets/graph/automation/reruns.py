"""Reruns: a mode run again as one run, by schedule, after an edit or by hand.

A rerun's whole state is in its run and the run's tags, so a restarted daemon forgets nothing. One
that is executed again keeps its tags, and what it had made is not made again.

The recipes (`graph/recipe_book.py`) determine what is out of date.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, cast, get_args

import dagster as dg

from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.recipe_book import RecipeBook
from tournament_assets.graph.recipes import Place
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
REASON_TAG = "tournament/reason"
EDITED_TAG = "tournament/edited"
"""The state of inputs and settings when a rerun began because of an edit."""
RERUN_TAGS = ("tournament", "mode", RERUN_TAG, REASON_TAG, EDITED_TAG)
"""The tags that a run takes over from the rerun's run that it replaces."""

Scope = Literal["all", "out_of_date"]
Reason = Literal["schedule", "edit", "hand"]
PartitionKey = dg.MultiPartitionKey | str
WorkOfStage = Mapping[PartitionKey, Sequence[dg.AssetKey]]
"""The assets of a stage that have to run, by partition; empty means all."""


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
    """Return the run that is a rerun.

    Args:
        mode: The mode to rerun.
        began_at: Identifies the rerun: two requests for the same moment are the same rerun.
        reason: Why: a schedule reruns everything, an edit what it made out of date.
        edited: What the inputs and settings are, where an edit is the reason.
    """
    scope: Scope = "all" if reason == "schedule" else "out_of_date"
    tags = rerun_tags(plan, mode, reason, began_at)
    if edited:
        tags[EDITED_TAG] = edited
    # Dagster makes no second run for a key, however often it is asked.
    return [
        dg.RunRequest(
            run_key=tags[RERUN_TAG], job_name=job_of(plan, scope), partition_key=mode, tags=tags
        )
    ]


def rerun_tags(
    plan: TournamentPlan, mode: Mode, reason: Reason, began_at: datetime
) -> dict[str, str]:
    """Return the tags that make a run a rerun."""
    return {
        "tournament": plan.tournament_id,
        "mode": mode,
        RERUN_TAG: name_rerun(plan, mode, reason, began_at),
        REASON_TAG: reason,
    }


def job_of(plan: TournamentPlan, scope: str) -> str:
    """Return the name of the job that reruns everything, or what is out of date."""
    return plan.job("run" if scope == "all" else "rerun")


PARTITION_TAG = "dagster/partition"
"""Dagster's own tag for a run's partition."""
_PARENT_TAG = "dagster/parent_run_id"
"""Dagster's own tag for the run that was executed again."""
_STOPPED = frozenset({dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


class RerunState(Enum):
    """How far a rerun has come."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Rerun:
    """One rerun, reconstructed from its runs.

    Attributes:
        identity: What its runs have in common.
        newest_run: The run that was executed last; of the others it takes the place.
        superseded_by: The newest rerun of the mode, if it began later. Only one rerun of a mode is
            active: an older one that is executed again does nothing.
    """

    identity: RerunIdentity
    newest_run: dg.DagsterRun
    superseded_by: str | None = None

    @property
    def state(self) -> RerunState:
        """How far it has come."""
        if self.newest_run.status in _STOPPED:
            return RerunState.FAILED
        is_done = self.newest_run.status is dg.DagsterRunStatus.SUCCESS
        return RerunState.SUCCEEDED if is_done else RerunState.RUNNING

    @property
    def is_unfinished(self) -> bool:
        """Whether its run is running or will."""
        return self.state is RerunState.RUNNING

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which a run belongs to it."""
        tags = self.newest_run.tags
        return {name: tags[name] for name in RERUN_TAGS if name in tags}

    def describe(self) -> str:
        """Return its name and state in words."""
        return f"rerun {self.identity.rerun_id} is {self.state.value}"


def find_reruns(
    instance: dg.DagsterInstance, plan: TournamentPlan, *, mode: Mode | None = None
) -> list[Rerun]:
    """Return a tournament's reruns, in the order they began.

    Args:
        instance: Where the runs are.
        mode: Only those of this mode.
    """
    tags = {"tournament": plan.tournament_id, **({} if mode is None else {"mode": mode})}
    by_id: dict[str, list[Any]] = {}
    filters = [dg.RunsFilter(tags=tags, job_name=job_of(plan, scope)) for scope in get_args(Scope)]
    records = [record for each in filters for record in instance.get_run_records(each)]
    for record in sorted(records, key=lambda record: record.storage_id):
        rerun_id = record.dagster_run.tags.get(RERUN_TAG)
        if rerun_id is not None:
            by_id.setdefault(rerun_id, []).append(record)
    identities = sorted(
        (_identity_of(records[0]) for records in by_id.values()),
        key=lambda identity: (identity.began_at, identity.rerun_id),
    )
    newest = {identity.mode: identity.rerun_id for identity in identities}
    return [
        Rerun(
            identity,
            by_id[identity.rerun_id][-1].dagster_run,
            None if newest[identity.mode] == identity.rerun_id else newest[identity.mode],
        )
        for identity in identities
    ]


def find_identity(instance: dg.DagsterInstance, run_id: str) -> RerunIdentity:
    """Return which rerun a run is; its tags may be younger than a step's view of it."""
    run = instance.get_run_by_id(run_id)
    tags = {RERUN_TAG: run.tags[RERUN_TAG] if run else ""}
    first, *_ = instance.get_run_records(dg.RunsFilter(tags=tags), ascending=True)
    return _identity_of(first)


def _identity_of(record: Any) -> RerunIdentity:
    run, began_at = record.dagster_run, record.create_timestamp
    tags = run.tags
    return RerunIdentity(
        rerun_id=tags[RERUN_TAG],
        mode=tags["mode"],
        scope="all" if run.job_name == f"{tags['tournament']}_run" else "out_of_date",
        reason=cast("Reason", tags[REASON_TAG]),
        began_at=began_at if began_at.tzinfo is not None else began_at.replace(tzinfo=UTC),
        edited=tags.get(EDITED_TAG, ""),
    )


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
    instance: dg.DagsterInstance, plan: TournamentPlan, steps: AbstractSet[str], *, mode: str
) -> Rerun | None:
    """Return the newest rerun of a mode if it stopped at one of some steps, or None."""
    rerun = next(reversed(find_reruns(instance, plan, mode=mode)), None)
    if rerun is None or rerun.state is not RerunState.FAILED:
        return None
    failed = {
        step.step_key
        for step in instance.get_run_step_stats(rerun.newest_run.run_id)
        if step.status is not None and step.status.value == "FAILURE"
    }
    return rerun if failed & steps else None
