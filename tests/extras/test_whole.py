"""What is said of the package as a whole: documentation that describes it with every extra."""

import re

import pytest

from tests.changed import places_to_test
from tests.test_house import PACKAGE, ROOT, modules_by_folder
from tournament_assets.graph.table import ASSETS


def drawn_in_the_architecture() -> tuple[set[str], set[str]]:
    """Return the folders and the modules beside them that the drawing names."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"```text\n(extras/ .*?)```", text, flags=re.DOTALL)
    assert drawing is not None
    folders, modules, outer = set(), set(), ""
    for line in drawing[1].splitlines():
        name = line.split()[0]
        if line.startswith(" "):
            folders.add(outer + name)
        elif name.endswith("/"):
            outer = name
            folders.add(name)
        else:
            modules.add(name)
    return folders, modules


def test_the_house_stands_as_it_is_drawn() -> None:
    by_folder = modules_by_folder()
    modules = by_folder.pop(".")
    folders, drawn_modules = drawn_in_the_architecture()
    # Each folder of these is a row, and the drawing may leave a row out.
    rows = {f"{name}/" for name in by_folder if name.startswith(("extras/", "providers/"))}
    others = {f"{name}/" for name in (*by_folder, "extras")} - rows
    assert folders - rows == others
    assert drawn_modules == modules


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "AGENTS.md"])
def test_what_contributors_are_told_of_is_there(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    files = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text)
    links = re.findall(r"\]\(([^)#]+)", text)
    modules = [name.replace(".", "/") for name in re.findall(r"python -m (tests[\w.]+)", text)]
    assert files
    assert links
    assert modules
    places = {*files, *links, *(f"{module}.py" for module in modules)}
    assert [
        place for place in places if not any((top / place).exists() for top in (PACKAGE, ROOT))
    ] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z0-9]+)", text, flags=re.MULTILINE)) <= targets


def test_what_agents_are_told_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").split()) <= 400


def test_a_changed_file_of_an_extra_leads_to_its_tests() -> None:
    assert places_to_test(["tournament_assets/extras/site/site.py"]) == ["tests/extras/site"]


def test_an_asset_reads_assets_that_are_there() -> None:
    names = {row.name for row in ASSETS}
    assert {name for row in ASSETS for name in row.reads} <= names
