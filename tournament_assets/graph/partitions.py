"""A tournament's partitions, the edges between them, and how partitions are loaded."""

from collections.abc import Mapping
from typing import Any, cast

import dagster as dg

from tournament_assets.tournament.config import MODES
from tournament_assets.workflows.plan import TournamentPlan


def by_mode() -> dg.StaticPartitionsDefinition:
    """One partition a mode."""
    return dg.StaticPartitionsDefinition(list(MODES))


def by_dimension(plan: TournamentPlan) -> dg.StaticPartitionsDefinition:
    """One partition a dimension."""
    return dg.StaticPartitionsDefinition(list(plan.config.dimension_names))


def by_mode_and_entrant(plan: TournamentPlan) -> dg.MultiPartitionsDefinition:
    """One partition for every mode and entrant."""
    entrants = dg.StaticPartitionsDefinition(list(plan.config.entrant_ids))
    return dg.MultiPartitionsDefinition({"mode": by_mode(), "entrant": entrants})


def by_mode_and_dimension(plan: TournamentPlan) -> dg.MultiPartitionsDefinition:
    """One partition for every mode and dimension."""
    return dg.MultiPartitionsDefinition({"mode": by_mode(), "dimension": by_dimension(plan)})


def asset_key(plan: TournamentPlan, name: str) -> dg.AssetKey:
    """Return the asset key of one of a tournament's assets."""
    return dg.AssetKey([plan.tournament_id, name])


def same_mode() -> dg.PartitionMapping:
    """Edge between a mode and everything of that mode, in either direction."""
    return dg.MultiToSingleDimensionPartitionMapping("mode")


def same_dimension() -> dg.PartitionMapping:
    """Edge between a dimension and everything of that dimension, in either direction."""
    return dg.MultiToSingleDimensionPartitionMapping("dimension")


def same_entrant() -> dg.PartitionMapping:
    """Edge between an entrant and everything of that entrant."""
    return dg.MultiToSingleDimensionPartitionMapping("entrant")


def same_mode_all_entrants() -> dg.PartitionMapping:
    """Edge from mode x entrant to mode x dimension: all entrants of the same mode."""
    return dg.MultiPartitionMapping(
        {"mode": dg.DimensionPartitionMapping("mode", dg.IdentityPartitionMapping())}
    )


def same_dimension_all_modes() -> dg.PartitionMapping:
    """Edge from mode x dimension to the same dimension in every mode."""
    return dg.MultiPartitionMapping(
        {"dimension": dg.DimensionPartitionMapping("dimension", dg.IdentityPartitionMapping())}
    )


def partition_values(context: dg.AssetExecutionContext) -> Mapping[str, str]:
    """Return the run's partition by dimension name, such as `mode` and `dimension`.

    A run that was launched with only the `dagster/partition` tag carries a plain text, so the
    key is always read back through its definition.
    """
    definition = context.assets_def.partitions_def
    if not isinstance(definition, dg.MultiPartitionsDefinition):
        return {"mode": context.partition_key}
    key = cast("Any", definition.get_partition_key_from_str(str(context.partition_key)))
    return dict(key.keys_by_dimension)


def partitions_of(key: dg.AssetKey, mapping: dg.PartitionMapping) -> dg.AssetIn:
    """Return the input that loads several partitions of an asset; read it with `by_partition`.

    The input's type is left open: a single partition comes as a bare object, not as a mapping.
    """
    return dg.AssetIn(key=key, partition_mapping=mapping, dagster_type=dg.Any)


def if_there_is_one(key: dg.AssetKey, mapping: dg.PartitionMapping | None = None) -> dg.AssetIn:
    """Return the input that loads what there is of an asset, which may be nothing.

    A single partition that was never materialised comes as None, and of several only those come
    that are there. What depends on the asset is out of date once it is materialised.
    """
    return dg.AssetIn(
        key=key,
        partition_mapping=mapping,
        dagster_type=dg.Any,
        metadata={"allow_missing_partitions": True},
    )
