"""The documentation: pages that come from the code are current, and every link leads somewhere."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_RENDER = """
import json, runpy
pages = runpy.run_path("scripts/reference_docs.py")["PAGES"]
print(json.dumps({name: render() for name, render in pages.items()}))
"""

with_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="mkdocs is not installed; `make test` installs it"
)


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
    assert "| `response_tokens` | integer | yes | tokens the model wrote |" in tables
    assert "| `ratings` | Elo points, shape (n_permutations, n_entrants)." in tables


def build(project: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(out)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@with_mkdocs
def test_the_site_is_built_and_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "concepts.html").is_file()
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.name in ("docs", "scripts"):
            shutil.copytree(path, copy / path.name)
        else:
            (copy / path.name).symlink_to(path)
    page = copy / "docs" / "concepts.md"
    text = page.read_text()
    for wrong in ("[x](nowhere.md)", "[x](report.md#nowhere)", "[x](../configs/nowhere.yaml)"):
        page.write_text(f"{text}\n{wrong}\n")
        failed = build(copy, tmp_path / "broken")
        assert failed.returncode == 1, wrong
        assert "nowhere" in failed.stdout + failed.stderr


def test_the_example_is_small_whole_and_of_no_particular_machine() -> None:
    example = ROOT / "docs" / "example"
    files = [path for path in example.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_500_000
    for page in example.glob("*.html"):
        for link in re.findall(r'href="([^"]+)"', page.read_text()):
            assert (example / link).is_file()
    for path in files:
        assert not re.search(r"/(?:home|tmp|root|work|Users)/", path.read_text()), path
