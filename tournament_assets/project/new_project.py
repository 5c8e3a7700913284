"""A new project: a small tournament that runs as it stands, to put one's own in its place."""

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError, Problems

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
