"""The jobs of a tournament, its stages in the order they run, and the inputs as they are now.

This also passes a run's options to the assets of its stages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import dagster as dg

from tournament_assets.graph.adapter import RefuseRun, build_reporting_ops
from tournament_assets.graph.assets.judging import judge_replies
from tournament_assets.graph.assets.observed_inputs import InputVersion
from tournament_assets.graph.partitions import asset_key, newest_record, partitions_over
from tournament_assets.graph.recipe_book import DATA_VERSION_TAG, RecipeBook
from tournament_assets.graph.recipes import Place
from tournament_assets.graph.rows import Axis, JobRow, axis_names
from tournament_assets.graph.table import JOBS, jobs_of, rows_of
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode


@dataclass(frozen=True, kw_only=True)
class Stage(JobRow):
    """A row of the table's jobs in one tournament: a step from prompts to leaderboard.

    Its runs have its name as the tag `stage`.

    Attributes:
        job_name: The job that materialises it; the UI hides it, and shows its runs by their assets.
        assets: What it materialises or observes.
        partition_axis: The axis of its partitions besides the mode.
    """

    job_name: str
    assets: tuple[str, ...]
    partition_axis: Axis

    def partition_keys(self, plan: TournamentPlan, mode: Mode) -> list[dg.MultiPartitionKey | str]:
        """Return the partitions of this stage that belong to a mode, in config order."""
        axis = self.partition_axis
        if axis == "mode":
            return [mode]
        return [dg.MultiPartitionKey({"mode": mode, axis: name}) for name in self.names(plan)]

    def names(self, plan: TournamentPlan) -> tuple[str, ...]:
        """Return the entrants or dimensions that it has a partition for; one empty without."""
        axis = self.partition_axis
        return ("",) if axis == "mode" else axis_names(plan.config, axis)

    def step(self, name: str = "") -> str:
        """Return the name of the step that makes an entrant's or a dimension's partition."""
        text = f"{self.name}__{name}" if name else self.name
        return re.sub(r"\W", "_", text, flags=re.ASCII)


def build_stages(plan: TournamentPlan) -> list[Stage]:
    """Return a tournament's stages, in the order they run."""
    return [_stage(plan, job) for job in jobs_of(plan) if job.part_of == "run"]


def build_rerun_stages(plan: TournamentPlan) -> list[Stage]:
    """Return the stages of a rerun: those of a tournament, and those it adds."""
    return [_stage(plan, job) for job in jobs_of(plan) if job.part_of in ("run", "rerun")]


def stage_making(plan: TournamentPlan, asset: str) -> Stage:
    """Return the stage that makes an asset."""
    name = rows_of(plan)[asset].job
    (stage,) = (_stage(plan, job) for job in JOBS if job.name == name)
    return stage


def op_configs(
    plan: TournamentPlan, names: Iterable[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the run config that passes a run's options to some assets.

    Args:
        names: The assets that run.
        options: The run's options, by name.
    """
    rows = rows_of(plan)
    configs = {name: rows[name].told(options) for name in names}
    return {
        "ops": {
            f"{plan.tournament_id}__{name}": {"config": each}
            for name, each in configs.items()
            if each
        }
    }


def _stage(plan: TournamentPlan, job: JobRow) -> Stage:
    rows = [row for row in rows_of(plan).values() if row.job == job.name]
    is_hidden = job.part_of != "request"
    return Stage(
        **{each.name: getattr(job, each.name) for each in fields(JobRow)},
        job_name=f"{_HIDDEN if is_hidden else ''}{plan.job(job.name)}",
        assets=tuple(row.name for row in rows),
        # Inputs are always observed as a whole.
        partition_axis="mode" if job.part_of == "begin" else rows[0].axes[-1],
    )


_HIDDEN = "__ASSET_JOB_"
"""The UI's lists leave out jobs whose names begin like this, as those that it makes itself."""


def _describe(plan: TournamentPlan, stage: Stage) -> str:
    return f"{plan.tournament_id}: {stage.description or stage.title}"


def _selection(plan: TournamentPlan, names: Sequence[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*(asset_key(plan, name) for name in names))


def build_jobs(
    plan: TournamentPlan, *, refuse_run: RefuseRun, resource_prefix: str = ""
) -> list[Any]:
    """Build a job for each stage that makes something, those on request too.

    Dagster has no public name for the type of an unresolved job.

    Args:
        refuse_run: Raises where a run must not begin a step.
        resource_prefix: What the keys of its resources begin with.
    """
    steps = build_reporting_ops(plan, refuse_run=refuse_run, resource_prefix=resource_prefix)
    jobs: list[Any] = []
    for stage in (_stage(plan, job) for job in jobs_of(plan)):
        if stage.part_of == "run":
            run_job = dg.define_asset_job(
                stage.job_name,
                selection=_selection(plan, stage.assets),
                description=_describe(plan, stage),
                tags={"tournament": plan.tournament_id, "stage": stage.name},
            )
            jobs.append(run_job)
        elif stage.part_of != "begin":
            names = [name for name in steps if name in (*stage.assets, *stage.also)]
            jobs.append(_build_reporting_job(plan, stage, [steps[name] for name in names]))
    return jobs


def _build_reporting_job(
    plan: TournamentPlan, stage: Stage, steps: Sequence[dg.OpDefinition]
) -> dg.JobDefinition:
    """Build a job of steps that are not assets of the graph."""

    @dg.job(
        name=stage.job_name,
        description=_describe(plan, stage),
        partitions_def=partitions_over(plan.config, rows_of(plan)[stage.assets[0]].axes),
        tags={"tournament": plan.tournament_id, "stage": stage.name},
    )
    def reporting_job() -> None:
        for step in steps:
            step()

    return reporting_job


def build_rejudge_job(plan: TournamentPlan) -> Any:
    """Build the job that resends failed requests; Dagster has no public name for its type."""
    stage = stage_making(plan, judge_replies.__name__)
    return dg.define_asset_job(
        plan.job("rejudge"),
        selection=_selection(plan, stage.assets),
        config=op_configs(plan, stage.assets, {"rejudge": True}),
        description=(
            f"{plan.tournament_id}: ask the judge again what it failed to answer, one by one, at "
            "twice the price of a batch, and rate again"
        ),
    )


def observations(
    plan: TournamentPlan, inputs: Iterable[InputVersion]
) -> Iterator[dg.AssetObservation]:
    """Return the observations of inputs for Dagster; an unreadable input is not observed."""
    for entry in inputs:
        if entry.version is not None:
            yield dg.AssetObservation(
                asset_key=asset_key(plan, entry.asset),
                partition=entry.partition,
                tags={DATA_VERSION_TAG: entry.version},
                metadata={"version": entry.label} if entry.label else None,
            )


def not_yet_observed(book: RecipeBook) -> list[InputVersion]:
    """Return the inputs whose newest observation is of another version.

    Inputs that cannot be read now are left out.
    """
    return [
        each
        for each in book.inputs
        if each.version is not None and each.version != _observed_version(book, each)
    ]


def _observed_version(book: RecipeBook, entry: InputVersion) -> str | None:
    place = Place(entry.asset, entry.partition or "")
    record = newest_record(book.instance.fetch_observations, book.plan, place)
    observation = record and record.asset_observation
    return None if observation is None else (observation.tags or {}).get(DATA_VERSION_TAG)
