"""One tournament as everything that runs it sees it: its config, and where its files are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from tournament_assets.adapters.project_files import Project
from tournament_assets.tournament.config import Mode, TournamentConfig

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class TournamentPlan:
    """One tournament as everything that runs it sees it.

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

    def group(self, stage: str) -> str:
        """Return the asset group of one of the tournament's stages."""
        return f"{self.tournament_id}_{stage}"


def partition_label(values: Mapping[str, str]) -> str:
    """Return a partition's values as people read them, such as `factuality, pilot`.

    A check's result has no partition of its own in the UI, so its description has to say it.
    """
    return ", ".join(value for _, value in sorted(values.items()))


def mode_of(values: Mapping[str, str]) -> Mode:
    """Return the mode among a partition's values."""
    return cast("Mode", values["mode"])


def by_partition(loaded: Mapping[str, Loaded], names: tuple[str, ...]) -> dict[str, Loaded]:
    """Return what several upstream partitions hold, by entrant or dimension, in config order.

    Dagster hands over a mapping from `name|mode` in no particular order, and for a single partition
    the bare object, whatever the input's annotation says.
    """
    if not isinstance(loaded, Mapping):
        return {names[0]: loaded}
    by_name = {key.split("|")[0]: value for key, value in loaded.items()}
    return {name: by_name[name] for name in names if name in by_name}
