"""A tournament's partitions, the edges between them, and what is recorded of them.

Every materialisation carries its recipe as a tag: what it was made with besides its inputs and the
settings that Dagster compares, which is the program, the options of the run, and for what people
read also the whole config, the prices and the versions that it names. So a later run knows whether
it would make the same again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import dagster as dg

from tournament_assets.graph.assets.observed_inputs import prices_version
from tournament_assets.graph.rows import AssetRow, Axis, axis_loaded_over, axis_names
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.fingerprints import fingerprint, program_fingerprint
from tournament_assets.workflows.plan import TournamentPlan
from tournament_assets.workflows.provenance import Recorded, read_versions, version_values


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
        mapping: What Dagster is told; None where each leads to the one of its name.
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
        over: An axis of both that is not to stay the same: all of it is read.
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
    """Return what several upstream partitions hold, by their names along an axis, in config order.

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
    latest = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=asset_key(plan, asset),
            asset_partitions=None if partition is None else [partition],
        ),
        limit=1,
    ).records
    if not latest or latest[0].asset_materialization is None:
        return None
    return {name: value.value for name, value in latest[0].asset_materialization.metadata.items()}


RECIPE_TAG = "tournament/recipe"
# The moment, the patience, and another way to the same replies; the rubric is an observed input.
_OF_ONE_RUN = frozenset(
    {
        "run_began_at",
        "started_at",
        "wait_seconds",
        "rejudge",
        "pay_again",
        "rubric",
        "rubrics",
        "instructions",
    }
)
_REPORTING_JOB = "6_report"
_NAMES_VERSIONS = "report"
"""What is made of it follows; asking git is not for every step."""


def recipe(plan: TournamentPlan, row: AssetRow, options: Mapping[str, Any]) -> str:
    """Return a fingerprint of what an asset is made with, 40 hex characters.

    Args:
        plan: The tournament.
        row: The asset.
        options: The options of the run that differ from their defaults.
    """
    declared = fields(row.wanted["options"]) if "options" in row.wanted else ()
    chosen = {
        each.name: options.get(each.name, each.default)
        for each in declared
        if each.name not in _OF_ONE_RUN
    }
    named: list[Any] = []
    if row.job == _REPORTING_JOB:
        named += [plan.config.fingerprint, plan.config_path.as_posix(), prices_version(plan)]
    if row.name == _NAMES_VERSIONS:
        named.append(version_values(read_versions(plan.project.folder)))
    # A tag of Dagster holds 63 characters.
    return fingerprint([program_fingerprint(), chosen, named])[:40]
