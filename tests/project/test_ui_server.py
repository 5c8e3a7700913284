import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import make_project
from tournament_assets.project.new_projects import write_new_project
from tournament_assets.project.ui_server import browsing_command, server_start
from tournament_assets.tournament.errors import InputError

COMPONENT = """\
type: tournament_assets.TournamentComponent
attributes:
  config: configs/small.yaml
"""
PYPROJECT = """\
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "flower_shop"
"""


def test_an_init_folder_is_served_from_its_own_home(tmp_path: Path) -> None:
    config = write_new_project(tmp_path / "mine").config
    start = server_start(config, {"PATH": "here"}, port=3001)
    assert start.folder == tmp_path / "mine"
    assert start.environment["DAGSTER_HOME"] == str(tmp_path / "mine" / ".dagster_home")
    assert (tmp_path / "mine" / ".dagster_home" / "dagster.yaml").exists()
    assert start.environment["TOURNAMENT_PROJECT"] == str(tmp_path / "mine")
    assert start.environment["PATH"] == "here"
    told = "import warnings; warnings.warn('Function `dev_command` is superseded, so'); print(1)"
    told = f"{told}; warnings.warn('another')"
    python = [sys.executable, "-c", told]
    said = subprocess.run(python, env=start.environment, capture_output=True, text=True, check=True)
    assert ("dev_command`" in said.stderr, "another" in said.stderr) == (False, True)
    assert start.command[:4] == (sys.executable, "-m", "dagster", "dev")
    assert start.command[start.command.index("--port") + 1] == "3001"
    inside = server_start(None, {"TOURNAMENT_PROJECT": str(tmp_path / "mine")})
    assert inside.environment["DAGSTER_HOME"] == start.environment["DAGSTER_HOME"]
    daemon = server_start(config, {}, has_pages=False)
    assert daemon.command[:4] == (sys.executable, "-m", "dagster._daemon", "run")


def test_a_home_that_is_set_is_taken(tmp_path: Path) -> None:
    config = write_new_project(tmp_path / "mine").config
    home = tmp_path / "home"
    start = server_start(config, {"DAGSTER_HOME": str(home)})
    assert start.environment["DAGSTER_HOME"] == str(home)


def test_a_project_with_the_tournament_as_a_component_serves_its_own_definitions(
    tmp_path: Path,
) -> None:
    host = make_project(tmp_path / "host").folder
    (host / "pyproject.toml").write_text(PYPROJECT)
    defs = host / "src" / "flower_shop" / "defs" / "flowers" / "defs.yaml"
    defs.parent.mkdir(parents=True)
    defs.write_text(COMPONENT)
    (host / "configs" / "small.yaml").rename(host / "small.yaml")
    defs.write_text(COMPONENT.replace("configs/", ""))
    start = server_start(defs, {"PYTHONPATH": "elsewhere"})
    assert start.folder == host
    assert start.command[4:6] == ("--module-name", "flower_shop.definitions")
    assert start.environment["PYTHONPATH"] == os.pathsep.join([str(host / "src"), "elsewhere"])
    assert start.environment["DAGSTER_HOME"] == str(host / ".dagster_home")


def test_where_no_tournament_is_the_command_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tournament is here; expected configs"):
        server_start(None, {"TOURNAMENT_PROJECT": str(tmp_path)})


def test_run_advises_what_works_where_a_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_new_project(tmp_path / "my mine").config
    assert browsing_command(config) == f"tournament ui --config '{config}'"
    monkeypatch.chdir(tmp_path / "my mine")
    assert browsing_command(config) == "tournament ui"
