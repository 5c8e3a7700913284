"""Tells Dagster of the inputs as they are now."""

from collections.abc import Iterable, Iterator

import dagster as dg

from tournament_assets.graph.assets.observed_inputs import InputVersion, read_inputs
from tournament_assets.graph.partitions import asset_key
from tournament_assets.tournament.errors import Problems
from tournament_assets.workflows.plan import TournamentPlan

_DATA_VERSION = "dagster/data_version"


def observations(
    plan: TournamentPlan, inputs: Iterable[InputVersion]
) -> Iterator[dg.AssetObservation]:
    """Return what Dagster is to know of inputs; one that cannot be read is not observed."""
    for each in inputs:
        if each.version is not None:
            yield dg.AssetObservation(
                asset_key=asset_key(plan, each.asset),
                partition=each.partition,
                tags={_DATA_VERSION: each.version},
                metadata={"version": each.label} if each.label else None,
            )


def not_yet_observed(
    plan: TournamentPlan, inputs: Iterable[InputVersion], instance: dg.DagsterInstance
) -> list[InputVersion]:
    """Return the inputs whose newest observation, by whomever, is of another version.

    What cannot be read now is not among them.
    """
    return [
        each
        for each in inputs
        if each.version is not None and each.version != _observed_version(plan, each, instance)
    ]


def _observed_version(
    plan: TournamentPlan, each: InputVersion, instance: dg.DagsterInstance
) -> str | None:
    newest = instance.fetch_observations(
        dg.AssetRecordsFilter(
            asset_key=asset_key(plan, each.asset),
            asset_partitions=None if each.partition is None else [each.partition],
        ),
        limit=1,
    ).records
    observation = newest[0].asset_observation if newest else None
    return None if observation is None else (observation.tags or {}).get(_DATA_VERSION)


def build_observing_job(plan: TournamentPlan, name: str) -> dg.JobDefinition:
    """Build the job that observes every input of one tournament, and fails if one is unusable."""

    @dg.op(name=f"{plan.tournament_id}__observe_inputs")
    def observe_inputs(context: dg.OpExecutionContext) -> None:
        inputs = read_inputs(plan)
        for observation in observations(plan, inputs):
            context.log_event(observation)
        problems = Problems()
        for each in inputs:
            if each.problem:
                problems.add(each.problem)
        problems.raise_if_any()

    @dg.job(
        name=name,
        description=f"{plan.tournament_id}: look at every input as it is now",
        tags={"tournament": plan.tournament_id},
    )
    def observing_job() -> None:
        observe_inputs()

    return observing_job
