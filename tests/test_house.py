import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tournament_assets"


def modules_by_folder() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if not path.name.startswith("__"):
            folder = path.parent.relative_to(PACKAGE).as_posix()
            found.setdefault(folder, set()).add(path.stem)
    return found


def drawn_in_the_architecture() -> dict[str, set[str]]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawing = re.search(r"```text\ncli/ .*?```", text, flags=re.DOTALL)
    assert drawing is not None
    found: dict[str, set[str]] = {}
    outer = folder = ""
    for line in drawing[0].splitlines()[1:-1]:
        name, words = line[:17].strip(), line[17:].split()
        if name.endswith("/"):
            outer = outer if line.startswith(" ") else name[:-1]
            folder = f"{outer}/{name[:-1]}" if line.startswith(" ") else outer
        elif name:
            found.setdefault(".", set()).add(name)
            continue
        found.setdefault(folder, set()).update(words)
    return found


def test_the_house_stands_as_it_is_drawn() -> None:
    assert drawn_in_the_architecture() == modules_by_folder()


def test_no_folder_is_crowded_and_no_house_too_large() -> None:
    by_folder = modules_by_folder()
    assert max(len(names) for names in by_folder.values()) <= 20
    assert len(list(PACKAGE.rglob("*.py"))) <= 250


def test_every_folder_has_its_floor() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = {name for layer in layers for name in re.findall(r"\w+", layer)}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("[!_]*.py")}
    assert folders | modules == floors


def test_the_files_that_contributors_are_told_of_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text)
    assert len(named) > 20
    missing = [
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []
