"""Reads a tournament's YAML, and says in which line each problem stands.

YAML with the line of every key, and what pydantic finds wrong in sentences.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tournament_assets.battles.registry import FORMATS
from tournament_assets.tournament import config as config_module
from tournament_assets.tournament.config import (
    AutomationConfig,
    CheckThresholds,
    HeadlineSchedule,
    HumanBattlesConfig,
    TournamentConfig,
    config_problems,
)
from tournament_assets.tournament.entrants import (
    LOADERS,
    AnthropicApiEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
    VanillaHfEntrant,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.hydra_entrants import (
    CustomPoeEntrant,
    HydraHeads,
    ShardFiles,
    UncertaintyFiles,
)
from tournament_assets.tournament.places import Location, ServerAddress

_USER_INFO = re.compile("//[^/@\\s'\"]*@")
KeyPath = tuple[str | int, ...]
"""The keys and positions that lead to a value."""


def read_yaml_mapping(path: Path, *, what: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Read a YAML file that holds a mapping, and the line of every key.

    Args:
        path: The file.
        what: What it is, to begin messages with, such as `the config`.

    Raises:
        InputError: If it cannot be read, is no YAML or no mapping, or a key stands twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: {what} cannot be read ({type(error).__name__}); "
            "expected a UTF-8 YAML file; check the path"
        ) from error
    values, lines = parse_yaml(text, path)
    if not isinstance(values, dict):
        raise InputError(f"{path}:1: {what} holds {type(values).__name__}; expected a mapping")
    return values, lines


def parse_yaml(text: str, path: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Read a YAML text, and the line of every key.

    Raises:
        InputError: If it is no YAML, or a key stands twice.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        reason = getattr(error, "problem", None) or "it is not YAML"
        raise InputError(f"{path}:{line}: {reason}; expected valid YAML") from None
    lines: dict[KeyPath, int] = {}
    repeated: list[str] = []
    if node is not None:
        _collect_lines(node, (), lines, repeated, path)
    if repeated:
        raise InputError(repeated)
    return values, lines


def _collect_lines(
    node: yaml.Node,
    key_path: KeyPath,
    lines: dict[KeyPath, int],
    repeated: list[str],
    path: Path,
) -> None:
    lines.setdefault(key_path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            inner = (*key_path, str(key_node.value))
            line = key_node.start_mark.line + 1
            if inner in lines:
                repeated.append(
                    f"{path}:{line}: key {key_node.value!r} stands a second time; "
                    f"the first is in line {lines[inner]}; remove one"
                )
            lines[inner] = line
            _collect_lines(value_node, inner, lines, repeated, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _collect_lines(item, (*key_path, index), lines, repeated, path)


def line_of(lines: Mapping[KeyPath, int], key_path: KeyPath) -> int:
    """Return the line of a key, or of the nearest one around it."""
    while key_path not in lines and key_path:
        key_path = key_path[:-1]
    return lines.get(key_path, 1)


def problem_sentence(detail: Any, *, name: str, known: Sequence[str]) -> str:
    """Say what is wrong with one field.

    Args:
        detail: One of pydantic's `ValidationError.errors()`.
        name: The field, with dots.
        known: The keys that may stand where an unknown one was found.
    """
    kind, found = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"unknown key {name!r}; expected one of {', '.join(known)}{hint}"
    if kind == "missing":
        return f"{name} is missing; add it"
    message = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return f"{name}: {message}"
    shown = _USER_INFO.sub("//…@", repr(found))
    return f"{name} is {shown}; {message.replace('Input should', 'expected it to', 1)}"


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
