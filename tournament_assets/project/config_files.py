"""Reads a tournament's YAML, with the line of every problem; and writes a project to begin with.

The YAML is a file of its own, or stands in the `defs.yaml` of a Dagster component. A new project is
a small tournament that runs as it stands, to put one's own in its place.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.config import TournamentConfig, config_problems
from tournament_assets.tournament.errors import InputError, Problems
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


_CONFIG, _IGNORED = "config.yaml", "gitignore"


@dataclass(frozen=True, slots=True)
class NewProject:
    """A project that was just written.

    Attributes:
        config: Its config file.
        files: All files that were written, the config among them.
    """

    config: Path
    files: tuple[Path, ...]


def write_new_project(folder: Path) -> NewProject:
    """Write a tournament that is called after its folder: config, bank, rubrics and responses.

    Args:
        folder: Where to; it may be missing or hold other files. A `.gitignore` of its own stays.

    Raises:
        InputError: With every file that would be overwritten, or if a file cannot be written;
            in the first case nothing is written.
    """
    tournament_id = as_identifier(folder.resolve().name)
    contents: dict[Path, bytes] = {}
    for name, content in _read_templates():
        if name == _CONFIG:
            text = Template(content.decode()).substitute(tournament_id=tournament_id)
            contents[folder / "configs" / f"{tournament_id}.yaml"] = text.encode()
        elif name == _IGNORED:
            contents[folder / ".gitignore"] = content
        else:
            contents[folder / name] = content
    if (folder / ".gitignore").exists():
        del contents[folder / ".gitignore"]
    problems = Problems()
    for path in contents:
        if path.exists():
            problems.add(
                f"{path}: the file is there already; expected none, so that nothing of yours is "
                "lost; name another folder"
            )
    problems.raise_if_any()
    for path, content in contents.items():
        try:
            write_bytes_atomically(path, content)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({type(error).__name__}); expected a folder to write "
                "a project to; name another one"
            ) from None
    return NewProject(config=folder / "configs" / f"{tournament_id}.yaml", files=tuple(contents))


def as_identifier(name: str) -> str:
    """Return a tournament's id that is as much like a name as it can be."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return words if words[:1].isalpha() else f"tournament_{words}".rstrip("_")


def _read_templates() -> list[tuple[str, bytes]]:
    top = resources.files("tournament_assets") / "data" / "project"
    found: list[tuple[str, bytes]] = []
    waiting: list[tuple[PurePosixPath, Traversable]] = [(PurePosixPath(), top)]
    while waiting:
        place, folder = waiting.pop()
        for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if each.is_dir():
                waiting.append((place / each.name, each))
            else:
                found.append((str(place / each.name), each.read_bytes()))
    return sorted(found)
