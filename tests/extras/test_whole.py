"""What is said of the package as a whole: documentation that describes it with every extra."""

import json
import re
import subprocess
import sys

from tests.changed import places_to_test
from tests.test_house import PACKAGE, ROOT, modules_by_folder
from tournament_assets.cli.configuration import render_page
from tournament_assets.graph.table import table_for_readers

_RENDER = """
import json, runpy
pages = runpy.run_path("scripts/reference_docs.py")["PAGES"]
print(json.dumps({name: render() for name, render in pages.items()}))
"""


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
    assert drawn_in_the_architecture() == ({f"{name}/" for name in (*by_folder, "extras")}, modules)


def test_the_files_that_contributors_are_told_of_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text)
    assert len(named) > 20
    missing = [
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []


def test_the_pages_of_commands_and_tables_are_what_the_code_says() -> None:
    # In a process of its own: a command keeps the help option of whoever asked it first.
    written = subprocess.run([sys.executable, "-c", _RENDER], cwd=ROOT, capture_output=True)
    pages = json.loads(written.stdout)
    assert sorted(pages) == ["commands.md", "tables.md"]
    for name, page in pages.items():
        assert (ROOT / "docs" / name).read_text() == page, "run: scripts/reference_docs.py"


def test_every_page_says_how_it_is_made_and_knows_every_command_and_table() -> None:
    commands = (ROOT / "docs" / "commands.md").read_text()
    tables = (ROOT / "docs" / "tables.md").read_text()
    for command in ("run", "site", "battles import", "ledger"):
        assert f"## tournament {command}\n" in commands
    for table in ("judge_replies", "leaderboard", "elo_traces"):
        assert f"## {table}\n" in tables
    assert "| `response_tokens` |" in tables
    assert "| `ratings` |" in tables


def test_the_page_of_every_key_is_what_the_code_says() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == render_page(), (
        "run: tournament configuration > docs/configuration.md"
    )


def test_the_table_in_the_documentation_is_that_of_the_rows() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert table_for_readers() in page, f"put this into the page:\n{table_for_readers()}"


def test_a_changed_file_of_an_extra_leads_to_its_tests() -> None:
    assert places_to_test(["tournament_assets/extras/site/site.py"]) == ["tests/extras/site"]
