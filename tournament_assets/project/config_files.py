"""Reads a tournament's YAML, with the line of every problem.

The YAML is its own file, or part of the `defs.yaml` of a Dagster component.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.formatting import expect_one_of
from tournament_assets.foundation.yaml_files import YamlDocument, parse_yaml, read_yaml
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.config import TournamentConfig


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A validated configuration and where it came from.

    Attributes:
        project: The folder that the configuration's relative paths start from.
    """

    config: TournamentConfig
    path: Path
    project: Path


Problem = tuple[tuple[str | int, ...], str]
"""A path of keys and indices, and what is wrong there."""
_COMPONENT = "tournament_assets.TournamentComponent"
_ROOT_FILES = ("pyproject.toml", "dg.toml", "setup.py")


def find_project(config_path: Path) -> Path:
    """Return the folder a config's relative paths start from: the parent of `configs/`.

    `configs/examples/` belongs to the same project; its files are loaded only when named. A config
    anywhere else has its own folder as its project.
    """
    folder = config_path.resolve().parent
    if folder.parts[-2:] == ("configs", "examples"):
        folder = folder.parent
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


def write_config(values: Mapping[str, Any], folder: Path) -> Path:
    """Write a config as a file of a project, if it is valid, and return its path.

    Args:
        values: Its keys.
        folder: The project.
    """
    try:
        text = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise InputError(
            f"the config holds {error.args[-1]!r}; expected dicts, lists, texts and numbers"
        ) from None
    path = folder / "configs" / f"{values.get('tournament_id')}.yaml"
    document = parse_yaml(text, "the config")
    try:
        _validate(document, path, find_project(path))
    except InputError as error:
        # Its lines are nowhere to be seen: each problem names its key.
        unnumbered = (re.sub(r"^the config:\d+:", "the config:", each) for each in error.problems)
        raise InputError(unnumbered) from None
    if path.exists() and not path.read_text(encoding="utf-8").startswith(_WRITTEN):
        raise InputError(
            f"{path}: a config that you wrote is there; expected none of this tournament_id; "
            "load that file, or choose another tournament_id or folder"
        )
    try:
        write_bytes_atomically(path, f"{_WRITTEN}\n{text}".encode())
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({type(error).__name__}); expected a folder to write to"
        ) from None
    return path


_WRITTEN = "# Written by tournament_assets.load, which writes it again when called."


def with_lines(path: Path, problems: Iterable[str]) -> list[str]:
    """Return problems of a config that is valid, each with the line of the key it begins with.

    Args:
        path: The config.
        problems: Those that begin with no key of it are returned as they are.
    """
    document = read_yaml(path, what="the config")
    if document.values.get("type") == _COMPONENT:
        document = document.within("attributes", "config")
    return [
        f"{path}:{document.line_named_in(each)}: {each}"
        if re.split(r"\W", each)[0] in document.values
        else each
        for each in problems
    ]


def find_host(path: Path) -> Path:
    """Return the Dagster project that contains a file, or else the file's folder."""
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
    others = [
        *config_problems(document.values),
        *(each for find in added_rows("config_problems") for each in find(document.values)),
    ]
    config = document.validate(TournamentConfig, what="the config", others=others)
    return ConfigFile(config=config, path=path, project=project)


def config_problems(values: Mapping[str, object]) -> list[Problem]:
    """Find problems across fields: duplicates, too few entrants, unknown names.

    Args:
        values: The unvalidated configuration, so that these problems can be reported together with
            those of single fields.
    """
    entrants = values.get("entrants")
    if not isinstance(entrants, list):
        return []
    problems: list[Problem] = []
    seen: list[Any] = []
    for index, entrant in enumerate(entrants):
        entrant_id = entrant.get("entrant_id") if isinstance(entrant, Mapping) else None
        if entrant_id is not None and entrant_id in seen:
            problem = (
                f"entrant {entrant_id!r} is listed twice; "
                "expected every entrant_id once; rename or remove one"
            )
            problems.append((("entrants", index, "entrant_id"), problem))
        seen.append(entrant_id)
    if len(entrants) < 2:
        problem = f"the number of entrants is {len(entrants)}; expected at least two to compare"
        problems.append((("entrants",), problem))
    return [
        *problems,
        *_rubric_problems(values),
        *_family_problems(values, seen),
        *_gate_problems(values, seen),
    ]


def _rubric_problems(values: Mapping[str, object]) -> list[Problem]:
    """Find files that are the rubrics of two dimensions, whose verdicts would be the same."""
    dimensions = values.get("dimensions")
    problems: list[Problem] = []
    first: dict[PurePath, str] = {}
    for name, rules in (dimensions if isinstance(dimensions, Mapping) else {}).items():
        file = rules.get("rubric") if isinstance(rules, Mapping) else None
        if isinstance(file, str) and first.setdefault(PurePath(file), str(name)) != name:
            problem = (
                f"{file!r} is the rubric of {first[PurePath(file)]!r}, too; expected a file "
                "of its own for each dimension; write one, or remove a dimension"
            )
            problems.append((("dimensions", str(name), "rubric"), problem))
    return problems


def _family_problems(values: Mapping[str, object], entrant_ids: Sequence[Any]) -> list[Problem]:
    """Find families of unknown models."""
    listed = values.get("judges")
    judges = [
        each.get("model")
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, Mapping)
    ]
    families = values.get("families")
    models = [str(name) for name in (*entrant_ids, *judges) if name is not None]
    return [
        (
            ("families", str(name)),
            f"{name!r} is given a family and takes no part; {expect_one_of(name, models)}",
        )
        for name in (families if isinstance(families, Mapping) else ())
        if name not in models
    ]


def _gate_problems(values: Mapping[str, object], entrant_ids: Sequence[Any]) -> list[Problem]:
    """Find a gate for an unknown entrant, or on a dimension that is not judged."""
    gate, judged = values.get("gate"), values.get("dimensions")
    if not isinstance(gate, Mapping):
        return []
    entrants = [str(each) for each in entrant_ids if each is not None]
    problems: list[Problem] = [
        (("gate", side), f"gate.{side} is {gate[side]!r}; {expect_one_of(gate[side], entrants)}")
        for side in ("candidate", "baseline")
        if isinstance(gate.get(side), str) and gate[side] not in entrant_ids
    ]
    if gate.get("candidate") is not None and gate.get("candidate") == gate.get("baseline"):
        name = gate["candidate"]
        problems.append((("gate", "baseline"), f"{name!r} is held against itself; name another"))
    dimensions = gate.get("dimensions")
    for index, name in enumerate(dimensions if isinstance(dimensions, list) else ()):
        if isinstance(judged, Mapping) and name not in judged:
            problem = f"{name!r} is not judged; {expect_one_of(name, map(str, judged))}"
            problems.append((("gate", "dimensions", index), problem))
    return problems
