"""A tournament's partitions, the edges between them, and how partitions are loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import dagster as dg

from tournament_assets.adapters.project_files import Project
from tournament_assets.tournament.config import MODES, Mode, TournamentConfig

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class TournamentPlan:
    """One tournament as the asset factories see it.

    Attributes:
        config: What decides its result.
        config_path: The config's file, relative to the project where it lies inside.
        project: Where its files are.
    """

    config: TournamentConfig
    config_path: Path
    project: Project

    @property
    def tournament_id(self) -> str:
        """Prefix of every name the tournament has in Dagster."""
        return self.config.tournament_id

    @cached_property
    def by_mode(self) -> dg.StaticPartitionsDefinition:
        """One partition a mode."""
        return dg.StaticPartitionsDefinition(list(MODES))

    @cached_property
    def by_dimension(self) -> dg.StaticPartitionsDefinition:
        """One partition a dimension."""
        return dg.StaticPartitionsDefinition(list(self.config.dimension_names))

    @cached_property
    def by_mode_and_entrant(self) -> dg.MultiPartitionsDefinition:
        """One partition for every mode and entrant."""
        entrants = dg.StaticPartitionsDefinition(list(self.config.entrant_ids))
        return dg.MultiPartitionsDefinition({"mode": self.by_mode, "entrant": entrants})

    @cached_property
    def by_mode_and_dimension(self) -> dg.MultiPartitionsDefinition:
        """One partition for every mode and dimension."""
        return dg.MultiPartitionsDefinition({"mode": self.by_mode, "dimension": self.by_dimension})

    def key(self, name: str) -> dg.AssetKey:
        """Return the asset key of one of the tournament's assets."""
        return dg.AssetKey([self.tournament_id, name])

    def group(self, stage: str) -> str:
        """Return the asset group of one of the tournament's stages."""
        return f"{self.tournament_id}_{stage}"


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


def partition_label(values: Mapping[str, str]) -> str:
    """Return a partition's values as people read them, such as `factuality, pilot`.

    A check's result has no partition of its own in the UI, so its description has to say it.
    """
    return ", ".join(value for _, value in sorted(values.items()))


def mode_of(values: Mapping[str, str]) -> Mode:
    """Return the mode among a partition's values."""
    return cast("Mode", values["mode"])


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


def by_partition(loaded: Mapping[str, Loaded], names: tuple[str, ...]) -> dict[str, Loaded]:
    """Return what several upstream partitions hold, by entrant or dimension, in config order.

    Dagster hands over a mapping from `name|mode` in no particular order, and for a single partition
    the bare object, whatever the input's annotation says.
    """
    if not isinstance(loaded, Mapping):
        return {names[0]: loaded}
    by_name = {key.split("|")[0]: value for key, value in loaded.items()}
    return {name: by_name[name] for name in names if name in by_name}
