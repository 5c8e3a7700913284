"""Reads a tournament's YAML, and says in which line each problem stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tournament_assets.adapters.battle_files.registry import FORMATS
from tournament_assets.adapters.yaml_lines import (
    KeyPath,
    line_of,
    problem_sentence,
    read_yaml_mapping,
)
from tournament_assets.tournament import config as config_module
from tournament_assets.tournament.api_entrants import AnthropicApiEntrant, OpenAiApiEntrant
from tournament_assets.tournament.automation import AutomationConfig, HeadlineSchedule
from tournament_assets.tournament.check_thresholds import CheckThresholds
from tournament_assets.tournament.config import TournamentConfig, config_problems
from tournament_assets.tournament.entrants import LOADERS, RecordedEntrant, VanillaHfEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.human_battles import HumanBattlesConfig
from tournament_assets.tournament.hydra_entrants import (
    CustomPoeEntrant,
    HydraHeads,
    ShardFiles,
    UncertaintyFiles,
)
from tournament_assets.tournament.places import Location, ServerAddress

_MODELS: Mapping[str, type[BaseModel]] = {
    "": TournamentConfig,
    "prompt_bank": Location,
    "pilot": config_module.PilotConfig,
    "headline": config_module.HeadlineConfig,
    "dimensions.*": config_module.DimensionConfig,
    "judge": config_module.JudgeConfig,
    "generation": config_module.GenerationConfig,
    "ratings": config_module.RatingsConfig,
    "checks": CheckThresholds,
    "automation": AutomationConfig,
    "automation.headline_schedule": HeadlineSchedule,
    "human_battles": HumanBattlesConfig,
    "human_battles.file": Location,
    "entrants.*.vanilla_hf": VanillaHfEntrant,
    "entrants.*.recorded": RecordedEntrant,
    "entrants.*.openai_api": OpenAiApiEntrant,
    "entrants.*.anthropic_api": AnthropicApiEntrant,
    "entrants.*.base_url": ServerAddress,
    "entrants.*.custom_poe": CustomPoeEntrant,
    "entrants.*.hydra": HydraHeads,
    "entrants.*.hydra.security": ShardFiles,
    "entrants.*.hydra.security.folder": Location,
    "entrants.*.hydra.robustness": ShardFiles,
    "entrants.*.hydra.robustness.folder": Location,
    "entrants.*.hydra.uncertainty": UncertaintyFiles,
    "entrants.*.hydra.uncertainty.folder": Location,
    "entrants.*.weights": Location,
    "entrants.*.responses": Location,
}


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A validated configuration and where it came from.

    Attributes:
        config: The configuration.
        path: The file.
        project: The folder that the configuration's relative paths start from.
    """

    config: TournamentConfig
    path: Path
    project: Path


def find_project(config_path: Path) -> Path:
    """Return the folder a config's relative paths start from: the parent of `configs/`.

    A config that lies elsewhere is its own project: paths start from its folder.
    """
    folder = config_path.resolve().parent
    return folder.parent if folder.name == "configs" else folder


def load_config(path: Path) -> ConfigFile:
    """Read and validate a tournament's configuration.

    Raises:
        InputError: With every problem of the file, each with its line.
    """
    values, lines = read_yaml_mapping(path, what="the config")
    found = [*config_problems(values), *_format_problems(values)]
    problems = [(line_of(lines, key_path), message) for key_path, message in found]
    try:
        config = TournamentConfig.model_validate(values)
    except ValidationError as error:
        problems.extend(_explain(error, lines))
    if problems:
        raise InputError(f"{path}:{line}: {message}" for line, message in sorted(problems))
    return ConfigFile(config=config, path=path, project=find_project(path))


def _format_problems(values: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    human_battles = values.get("human_battles")
    name = human_battles.get("format") if isinstance(human_battles, Mapping) else None
    if not isinstance(name, str) or name in FORMATS:
        return []
    problem = f"human_battles.format is {name!r}; expected one of {', '.join(FORMATS)}"
    return [(("human_battles", "format"), problem)]


def _explain(error: ValidationError, lines: Mapping[KeyPath, int]) -> list[tuple[int, str]]:
    """Return what is wrong with single fields, each with its line."""
    problems: list[tuple[int, str]] = []
    for detail in error.errors():
        full = tuple(detail["loc"])
        shown = _without_union_tags(full)
        line = line_of(lines, shown)
        name = ".".join(str(part) for part in shown) or "the config"
        problems.append((line, _sentence(detail, full, name)))
    return problems


def _sentence(detail: Any, full: KeyPath, name: str) -> str:
    if detail["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found = detail.get("input")
        loader = found.get("loader") if isinstance(found, Mapping) else None
        return f"{name} has loader {loader!r}; expected one of {', '.join(LOADERS)}"
    return problem_sentence(detail, name=name, known=sorted(_fields_beside(full)))


def _without_union_tags(full: KeyPath) -> KeyPath:
    """Drop the loader's name that pydantic puts into the path of an entrant's field."""
    if len(full) > 2 and full[0] == "entrants" and full[2] in LOADERS:
        return (*full[:2], *full[3:])
    return full


def _fields_beside(full: KeyPath) -> list[str]:
    parents = ["*" if isinstance(part, int) else part for part in full[:-1]]
    if parents[:1] == ["dimensions"] and len(parents) > 1:
        parents[1] = "*"
    if parents[:1] == ["entrants"] and len(parents) > 3:
        del parents[2]
    model = _MODELS.get(".".join(str(part) for part in parents))
    return list(model.model_fields) if model is not None else []
