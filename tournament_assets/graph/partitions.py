"""A tournament's partitions, the edges between them, and what is recorded of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import dagster as dg

from tournament_assets.graph.recipes import Place
from tournament_assets.graph.rows import Axis, axis_loaded_over, axis_names
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.provenance.origins import Recorded
from tournament_assets.tournament.config import TournamentConfig


def asset_key(plan: TournamentPlan, name: str) -> dg.AssetKey:
    """Return the asset key of one of a tournament's assets."""
    return dg.AssetKey([plan.tournament_id, name])


def partitions_over(
    config: TournamentConfig, axes: Sequence[Axis]
) -> dg.PartitionsDefinition[Any] | None:
    """Return the partitions of an asset that has one for everything along some axes."""
    if not axes:
        return None
    along: dict[str, dg.PartitionsDefinition[str]] = {
        axis: dg.StaticPartitionsDefinition(list(axis_names(config, axis))) for axis in axes
    }
    return along[axes[0]] if len(axes) == 1 else dg.MultiPartitionsDefinition(along)


@dataclass(frozen=True, slots=True)
class Edge:
    """How an asset's partitions lead to those of another.

    Attributes:
        mapping: Dagster's partition mapping; None if each leads to the one of the same name.
        over: The axis along which a partition downstream loads several; None if it loads one.
    """

    mapping: dg.PartitionMapping | None = None
    over: Axis | None = None


def edge_between(
    upstream: Sequence[Axis], downstream: Sequence[Axis], *, over: Axis | None = None
) -> Edge:
    """Return the edge between two assets: the axes they share stay the same.

    Args:
        upstream: The axes of the asset that is read.
        downstream: The axes of the asset that reads it.
        over: A shared axis that does not stay the same: all its partitions are read.
    """
    shared = [axis for axis in upstream if axis in downstream and axis != over]
    loaded_over = axis_loaded_over(upstream, downstream, over=over)
    if not upstream or (len(shared) == len(upstream) == len(downstream)):
        return Edge()
    if not shared:
        return Edge(dg.AllPartitionMapping(), loaded_over)
    if len(upstream) == len(downstream):
        same = dg.DimensionPartitionMapping(shared[0], dg.IdentityPartitionMapping())
        return Edge(dg.MultiPartitionMapping({shared[0]: same}), loaded_over)
    return Edge(dg.MultiToSingleDimensionPartitionMapping(shared[0]), loaded_over)


def loaded_over(
    loaded: Any,
    axis: Axis,
    *,
    axes: Sequence[Axis],
    names: Sequence[str],
) -> dict[str, Any]:
    """Return the values of several upstream partitions, by name along an axis, in config order.

    Dagster hands over a mapping from `dimension|mode`, the axes in alphabetical order, in no
    particular order, and for a single partition the bare object, whatever the annotation says.
    """
    if not isinstance(loaded, Mapping):
        return {names[0]: loaded}
    place = sorted(axes).index(axis)
    by_name = {key.split("|")[place]: value for key, value in loaded.items()}
    return {name: by_name[name] for name in names if name in by_name}


def partition_values(
    partition_key: str, definition: dg.PartitionsDefinition[Any] | None
) -> Mapping[str, str]:
    """Return a run's partition by dimension name, such as `mode` and `dimension`.

    A run that was launched with only the `dagster/partition` tag carries a plain text, so the
    key is always read back through its definition.
    """
    if not isinstance(definition, dg.MultiPartitionsDefinition):
        return {"mode": partition_key}
    key = cast("Any", definition.get_partition_key_from_str(str(partition_key)))
    return dict(key.keys_by_dimension)


def recorded_of(
    plan: TournamentPlan, instance: dg.DagsterInstance, asset: str, partition: str | None
) -> Recorded | None:
    """Return the metadata of the newest materialisation; None if there is none."""
    record = newest_record(instance.fetch_materializations, plan, Place(asset, partition or ""))
    made = record and record.asset_materialization
    return {name: value.value for name, value in made.metadata.items()} if made else None


def newest_record(
    fetch: Callable[..., Any], plan: TournamentPlan, place: Place
) -> dg.EventLogRecord | None:
    """Return the newest event that is recorded of a partition; None if there is none.

    Args:
        fetch: The instance's method that fetches materialisations, or observations.
    """
    filtered = dg.AssetRecordsFilter(
        asset_key=asset_key(plan, place.asset),
        asset_partitions=[place.partition] if place.partition else None,
    )
    return next(iter(fetch(filtered, limit=1).records), None)
