"""What of a stage is out of date: which partitions, and from which asset of the stage on.

A partition is out of date when an input of it has another data version than it was made from, when
its settings have another version, or when it does not exist. Dagster knows this; its resolver is
not part of the public interface, so it is named here and nowhere else (dagster 1.13).
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContext

from tournament_assets.assets.jobs import Stage
from tournament_assets.assets.partitions import asset_key
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import WorkError


class _Loading(LoadingContext):
    """Gives the resolver's lookups a place to keep what they have found."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._loaders: dict[type, Any] = {}

    @property
    def instance(self) -> dg.DagsterInstance:
        return self._instance

    @property
    def loaders(self) -> dict[type, Any]:
        return self._loaders


def asset_graph(context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext) -> Any:
    """Return the graph of all assets that were loaded; Dagster has no public type for it."""
    repository = context.repository_def
    if repository is None:
        raise WorkError("this tick knows no definitions; expected one of a loaded code location")
    return repository.asset_graph


def find_out_of_date(
    graph: Any,
    instance: dg.DagsterInstance,
    plan: TournamentPlan,
    stage: Stage,
    mode: Mode,
) -> Mapping[dg.MultiPartitionKey | str | None, list[dg.AssetKey]]:
    """Return what of a stage has to run, by partition, for a mode to rest on its present inputs.

    An asset after one that is out of date runs with it: whether it changes shows only then.

    Args:
        graph: The asset graph, which Dagster has no public type for.
        instance: Where materialisations and observations are recorded.
        plan: The tournament.
        stage: The stage; one that only observes has nothing out of date.
        mode: The mode.

    Returns:
        For each partition that has to run, the assets that have to, in the stage's order.
    """
    resolver = CachingStaleStatusResolver(instance, graph, _Loading(instance))
    keys = [asset_key(plan, name) for name in stage.assets]
    found: dict[dg.MultiPartitionKey | str | None, list[dg.AssetKey]] = {}
    for partition in stage.partition_keys(plan, mode):
        to_run: list[dg.AssetKey] = []
        for key in keys:
            node = graph.get(key)
            if node.is_external:
                continue
            follows = any(parent in to_run for parent in node.parent_keys)
            name = None if partition is None else str(partition)
            if follows or resolver.get_status(key, name) is not StaleStatus.FRESH:
                to_run.append(key)
        if to_run:
            found[partition] = to_run
    return found
