"""A tournament's partitions, the edges between them, and what is recorded of them.

Every materialisation carries two tags: the recipe that it was made from (`graph/recipes.py`), and
what it was made with, which is the program, the options of the run, and for what people read also
the whole config, the prices and the versions that it names. What is out of date is known by the
first; a person who asks for a run asks for it with this program and these options.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, cast

import dagster as dg

from tournament_assets.graph.assets.observed_inputs import InputVersion, prices_version, read_inputs
from tournament_assets.graph.recipes import Place, places_read, recipe_of
from tournament_assets.graph.rows import AssetRow, Axis, axis_loaded_over, axis_names
from tournament_assets.graph.table import rows_of
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.runs.provenance import Recorded, read_versions, version_values
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.fingerprints import fingerprint, program_fingerprint


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
    record = newest_materialization(plan, instance, Place(asset, partition or ""))
    made = record and record.asset_materialization
    return {name: value.value for name, value in made.metadata.items()} if made else None


def newest_materialization(
    plan: TournamentPlan, instance: dg.DagsterInstance, place: Place
) -> dg.EventLogRecord | None:
    """Return the newest materialisation that is recorded of a partition; None if there is none."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=asset_key(plan, place.asset),
            asset_partitions=[place.partition] if place.partition else None,
        ),
        limit=1,
    ).records
    return records[0] if records else None


RECIPE_TAG = "tournament/recipe"
MADE_WITH_TAG = "tournament/made_with"
DATA_VERSION_TAG = "dagster/data_version"


def version_lookup(
    plan: TournamentPlan,
    instance: dg.DagsterInstance,
    *,
    inputs: Sequence[InputVersion] | None = None,
) -> Callable[[Place], str | None]:
    """Return what tells the versions of inputs as they are now, and of what is stored last.

    Args:
        instance: Where materialisations are recorded.
        inputs: The inputs as they are now; read when they are asked for unless given.
    """
    rows = rows_of(plan)

    @cache
    def versions_of(asset: str) -> Mapping[str, str]:
        if asset not in rows:
            found = _foreign_version(dg.AssetKey.from_user_string(asset), instance)
            return {} if found is None else {"": found}
        if rows[asset].stored_as == "file":
            known = read_inputs(plan, asset) if inputs is None else inputs
            return {
                each.partition or "": each.version
                for each in known
                if each.asset == asset and each.version is not None
            }
        by_partition = instance.event_log_storage.get_latest_tags_by_partition(
            asset_key(plan, asset),
            dg.DagsterEventType.ASSET_MATERIALIZATION,
            [DATA_VERSION_TAG],
        )
        return {name: tags[DATA_VERSION_TAG] for name, tags in by_partition.items()}

    return lambda place: versions_of(place.asset).get(place.partition)


def _foreign_version(key: dg.AssetKey, instance: dg.DagsterInstance) -> str | None:
    """Return the version of an asset of the project around; the event itself if it names none."""
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        for record in fetch(key, limit=1).records:
            event = record.asset_materialization or record.asset_observation
            return ((event and event.tags) or {}).get(DATA_VERSION_TAG) or str(record.storage_id)
    return None


def current_recipe(
    plan: TournamentPlan, place: Place, version_of: Callable[[Place], str | None]
) -> str:
    """Return the recipe of an asset's partition as it is now.

    Args:
        version_of: Tells the version of what it reads.
    """
    rows = rows_of(plan)
    row = rows[place.asset]
    settings = None if row.settings is None else row.settings(plan)
    return recipe_of(settings, {each: version_of(each) for each in places_read(plan, rows, place)})


# The moment, the patience, and another way to the same replies; the rubric is an observed input.
_OF_ONE_RUN = frozenset(
    {
        "run_began_at",
        "started_at",
        "wait_seconds",
        "rejudge",
        "pay_again",
        "rubrics",
        "instructions",
    }
)
_REPORTING_JOB = "6_report"
_NAMES_VERSIONS = "report"
"""What is made of it follows; asking git is not for every step."""


def made_with(plan: TournamentPlan, row: AssetRow, options: Mapping[str, Any]) -> str:
    """Return a fingerprint of what an asset is made with, not from, 40 hex characters.

    Args:
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
