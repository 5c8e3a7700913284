"""Reads the YAML that describes an archive of scored runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tournament_assets.adapters.config_files import find_project
from tournament_assets.adapters.yaml_lines import (
    KeyPath,
    line_of,
    problem_sentence,
    read_yaml_mapping,
)
from tournament_assets.tournament import archive_scoring, archives
from tournament_assets.tournament.archives import ArchiveConfig
from tournament_assets.tournament.errors import InputError

_MODELS: Mapping[str, type[BaseModel]] = {
    "": ArchiveConfig,
    "models.*": archives.ArchivedModel,
    "plan": archives.ArchivePlan,
    "tiers": archives.TierRules,
    "scores": archive_scoring.ScoreRules,
    "scores.components.*": archive_scoring.ScoredComponent,
    "scores.judge": archive_scoring.JudgeFields,
    "scores.weightings.*": archive_scoring.Weighting,
    "scores.weightings.*.when": archive_scoring.When,
    "conditions.*": archives.Condition,
    "logs": archives.SweepLogs,
    "logs.patterns.*": archives.LogPattern,
    "rejudging": archives.Rejudging,
    "rejudging.parts.*": archives.JudgeInput,
    "rejudging.passing_threshold": archives.JudgeInput,
    "checks": archives.ArchiveChecks,
}


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A validated description of an archive, and where it came from.

    Attributes:
        config: The description.
        path: The file.
    """

    config: ArchiveConfig
    path: Path

    @property
    def base(self) -> Path:
        """The folder that relative paths start from: as with tournaments, that above `configs/`."""
        return find_project(self.path)

    @property
    def folder(self) -> Path:
        """The folder with the models' folders."""
        return self.base / self.config.folder


def load_archive_config(path: Path) -> ArchiveFile:
    """Read and validate the description of an archive.

    Raises:
        InputError: With every problem of the file, each with its line.
    """
    values, lines = read_yaml_mapping(path, what="the description of the archive")
    try:
        return ArchiveFile(ArchiveConfig.model_validate(values), path)
    except ValidationError as error:
        details = error.errors()
        places = [tuple(detail["loc"]) for detail in details]
        problems = sorted(
            _explain(detail, lines)
            for detail, place in zip(details, places, strict=True)
            # A list whose items are wrong is called too short besides.
            if detail["type"] != "too_short"
            or not any(other[: len(place)] == place != other for other in places)
        )
    raise InputError(f"{path}:{line}: {sentence}" for line, sentence in problems)


def _explain(detail: Any, lines: Mapping[KeyPath, int]) -> tuple[int, str]:
    full: KeyPath = tuple(detail["loc"])
    name = ".".join(str(part) for part in full) or "the description"
    parents = ".".join("*" if isinstance(part, int) else str(part) for part in full[:-1])
    model = _MODELS.get(parents) or _MODELS.get(f"{parents.rpartition('.')[0]}.*")
    known = sorted(model.model_fields) if model is not None else []
    return line_of(lines, full), problem_sentence(detail, name=name, known=known)


def check_excluded(config: ArchiveConfig, exclude: frozenset[str]) -> None:
    """Return if every model that is to be left out exists, and some are left.

    Raises:
        InputError: If not.
    """
    known = [model.model_id for model in config.models]
    unknown = sorted(exclude - set(known))
    if unknown:
        raise InputError(
            f"--exclude names {', '.join(map(repr, unknown))}; expected some of {', '.join(known)}"
        )
    if exclude >= set(known):
        raise InputError("--exclude names every model; expected at least one to be left")
