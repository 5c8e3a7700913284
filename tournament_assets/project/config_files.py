"""Reads a tournament's YAML, and says in which line each problem stands.

The YAML is a file of its own, or stands in the `defs.yaml` of a Dagster component.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tournament_assets.tournament.config import TournamentConfig, config_problems
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.yaml_files import KeyPath, YamlDocument, read_yaml


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


_COMPONENT = "tournament_assets.TournamentComponent"
_ROOT_FILES = ("pyproject.toml", "dg.toml", "setup.py")


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
    document = read_yaml(path, what="the config")
    if document.values.get("type") == _COMPONENT:
        return _load_component(document, path)
    return _validate(document, path, find_project(path))


def find_host(path: Path) -> Path:
    """Return the Dagster project that a file lies in; its own folder if there is none around."""
    folder = path.resolve().parent
    around = (folder, *folder.parents)
    return next((each for each in around if any((each / n).exists() for n in _ROOT_FILES)), folder)


def _load_component(document: YamlDocument, path: Path) -> ConfigFile:
    attributes = document.values.get("attributes")
    config = attributes.get("config") if isinstance(attributes, Mapping) else None
    host = find_host(path)
    if isinstance(config, str):
        return load_config(host / config)
    if not isinstance(config, Mapping):
        raise InputError(
            f"{path}:{document.line_of(('attributes', 'config'))}: attributes.config is "
            f"{config!r}; expected the keys of a config, or the path of a config file from {host}"
        )
    return _validate(document.within("attributes", "config"), path, host)


def _validate(document: YamlDocument, path: Path, project: Path) -> ConfigFile:
    others = [*config_problems(document.values), *_format_problems(document.values)]
    config = document.validate(TournamentConfig, what="the config", others=others)
    return ConfigFile(config=config, path=path, project=project)


def _format_problems(values: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    human_battles = values.get("human_battles")
    name = human_battles.get("format") if isinstance(human_battles, Mapping) else None
    if not isinstance(name, str):
        return []
    # It reads Arrow tables, which definitions do without unless a config names human battles.
    from tournament_assets.battles.registry import FORMATS

    if name in FORMATS:
        return []
    problem = f"human_battles.format is {name!r}; expected one of {', '.join(FORMATS)}"
    return [(("human_battles", "format"), problem)]
