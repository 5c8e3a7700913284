"""The module that extensions import, and the distribution that proves it."""

import ast
import json
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from tests.projects import make_project, recorded_responses
from tests.test_house import ROOT
from tournament_assets import extension

EXAMPLE = ROOT / "tests" / "extension_example"
SOURCES = sorted((EXAMPLE / "tournament_example").glob("*.py"))
ADDED = {
    "assets": "word_counts",
    "jobs": "__ASSET_JOB_small_words",
    "formats": "beats",
    "configuration": "`echo`",
    "page": "Longest responses",
}
SHOWN = """
import json, sys
from pathlib import Path
import tournament_assets as ta
from tournament_assets.battles.registry import FORMATS
from tournament_assets.cli.configuration import render_page
from tournament_assets.definitions import load_project

folder = Path(sys.argv[1])
tournament = ta.load(folder / "configs" / "small.yaml", environment={})
repository = load_project(folder, {}, strict=True).get_repository_def()
estimate = tournament.estimate("headline")
run = tournament.run("headline", record=False)
tables = tournament.tables("headline", until="word_counts" if sys.argv[2] else "report")
manifest = json.loads((run.directory / "manifest.json").read_text())
print(json.dumps({
    "formats": [*FORMATS],
    "assets": [key.path[-1] for key in repository.asset_graph.get_all_asset_keys()],
    "jobs": [job.name for job in repository.get_all_jobs()],
    "configuration": render_page(),
    "page": (run.directory / "report.html").read_text(),
    "usd": [estimate.usd, manifest["cost"]["total_usd"]],
    "versions": manifest["versions"].get("extensions"),
    "words": [*tables.frame("word_counts")["n"]] if sys.argv[2] else [],
}))
"""


def test_a_name_that_is_promised_is_there_and_says_what_it_is() -> None:
    table = re.findall(r"`(\w+)`", (extension.__doc__ or "").partition("|---|---|")[2])
    names = dir(extension)
    assert [table.count(name) for name in names] == [1] * len(names)
    for name in names:
        assert getattr(extension, name).__doc__, name


def test_a_name_that_is_not_promised_is_refused() -> None:
    with pytest.raises(AttributeError, match="'MEASURES'; it promises AssetRow"):
        extension.MEASURES  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_example_imports_nothing_else_of_the_package(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tournament_assets"):
            names = {alias.name for alias in node.names}
            assert node.module == "tournament_assets.extension" or names == {"extension"}


def test_the_page_shows_every_file_of_the_example_in_few_words() -> None:
    page = (ROOT / "docs" / "extensions.md").read_text()
    files = re.findall(r"^\[`.+`\]\(\.\./tests/extension_example/(.+)\)$", page, re.MULTILINE)
    paths = [EXAMPLE / "pyproject.toml", *(path for path in SOURCES if path.stem != "__init__")]
    assert sorted(files) == sorted(str(path.relative_to(EXAMPLE)) for path in paths)
    assert len(page.split()) <= 600


@pytest.mark.e2e
def test_what_is_installed_shows_everywhere_and_vanishes_with_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    (site,) = (tmp_path / "venv").rglob("site-packages")
    (site / "ours.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    shutil.copytree(EXAMPLE, tmp_path / "source")
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    project.draw(recall=4)
    project.merge_config(modes={"headline": {"prewarm": False}}, judging={"budget": {"usd": 5.0}})

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(scripts / "python"), "-W", "ignore", *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = "-m", "pip", "--disable-pip-version-check"
    offline = "--no-deps", "--no-build-isolation", "--no-index"
    config = str(project.config_path)
    seats = project.config_path.read_text()
    run(*pip, "install", *offline, str(tmp_path / "source"))
    project.seat({"service": "echo", "model": "echo-1"})
    (project.folder / "texts").mkdir()
    for row in recorded_responses("mixed"):
        (project.folder / "texts" / f"{row['prompt_id']}.txt").write_text(row["response"])
    entrants = yaml.safe_load(seats)["entrants"][:2]
    texts = {"entrant_id": "texts", "loader": "text_files", "folder": {"path": "texts"}}
    project.edit_config(entrants=[*entrants, texts])
    run("-c", "import tournament_example.services")  # first of all, as its own tests would
    shown = json.loads(run("-c", SHOWN, str(project.folder), "example"))
    for place, word in ADDED.items():
        assert word in shown[place]
    for words in ("mentions of length", "counts a tie as half a win", "responses texts"):
        assert words in shown["page"]
    assert shown["versions"] == {"tournament-example": "1.0"}
    assert min(shown["usd"]) > 0
    assert all(n > 0 for n in shown["words"])
    assert run("-m", "tournament_assets", "entrants", config) == "careful sloppy texts\n"
    assert "tournament-example 1.0" in run("-m", "tournament_assets", "doctor", "--config", config)
    schema = json.loads(run("-m", "tournament_assets", "configuration", "--json-schema"))
    assert "text_files" in schema["properties"]["entrants"]["items"]["properties"]["loader"]["enum"]
    assert "echo" in schema["$defs"]["Judge"]["properties"]["service"]["enum"]

    run(*pip, "uninstall", "--yes", "tournament-example")
    project.config_path.write_text(seats)
    shown = json.loads(run("-c", SHOWN, str(project.folder), ""))
    for place, word in ADDED.items():
        assert word not in shown[place]
    assert shown["versions"] is None
    assert "entrants  " not in run("-m", "tournament_assets", "--help")
