import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.projects import make_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.project.new_projects import write_new_project
from tournament_assets.project.plan import load_plan
from tournament_assets.serving.ui_server import (
    TOKEN_VARIABLE,
    browsing_command,
    refuse_place,
    server_start,
    with_pages_beside,
)
from tournament_assets.serving.web_access import listen

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
    start = server_start(config, {"PATH": "here"})
    assert start.folder == tmp_path / "mine"
    assert start.environment["DAGSTER_HOME"] == str(tmp_path / "mine" / ".dagster_home")
    assert (tmp_path / "mine" / ".dagster_home" / "dagster.yaml").exists()
    assert start.environment["TOURNAMENT_PROJECT"] == str(tmp_path / "mine")
    assert start.environment["PATH"] == "here"
    assert (start.module, start.location) == ("tournament_assets.definitions", "tournament_assets")
    inside = server_start(None, {"TOURNAMENT_PROJECT": str(tmp_path / "mine")})
    assert inside.environment["DAGSTER_HOME"] == start.environment["DAGSTER_HOME"]


def test_only_the_pages_get_their_token(tmp_path: Path) -> None:
    config = write_new_project(tmp_path / "mine").config
    start = server_start(config, {**os.environ, TOKEN_VARIABLE: "a token of sixteen"})
    (tmp_path / "mine" / "exits.py").write_text(
        f"import os, sys; sys.exit({TOKEN_VARIABLE!r} in os.environ)"
    )
    assert start.start("exits").wait() == 0
    assert start.start("exits", keeps_token=True).wait() == 1


def test_pages_for_other_machines_need_a_token_and_a_free_port() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen"):
            refuse_place("127.0.0.1", port, {})
    with pytest.raises(InputError, match=TOKEN_VARIABLE):
        refuse_place("0.0.0.0", 0, {TOKEN_VARIABLE: ""})  # noqa: S104
    refuse_place("0.0.0.0", 0, {TOKEN_VARIABLE: "a token of sixteen"})  # noqa: S104


def test_pages_beside_take_the_next_free_ports_and_the_definitions_know_where(
    tmp_path: Path,
) -> None:
    start = server_start(write_new_project(tmp_path / "mine").config, {})
    with listen("127.0.0.1", 0) as pages:
        port = pages.getsockname()[1]
        with suppress(InputError), listen("127.0.0.1", port + 1):
            served = with_pages_beside(start, port)
            assert port + 1 not in served.beside
    served = with_pages_beside(start, port)
    (number,) = served.beside
    assert number != port
    place, _ = served.beside[number]
    assert callable(resolve_name(place))
    assert served.environment["TOURNAMENT_SITE_URL"] == f"http://127.0.0.1:{number}"
    chosen = replace(start, environment={"TOURNAMENT_SITE_URL": "https://ada.example/site"})
    served = with_pages_beside(chosen, port)
    assert served.environment["TOURNAMENT_SITE_URL"] == "https://ada.example/site"


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
    assert start.module == start.location == "flower_shop.definitions"
    assert start.environment["PYTHONPATH"] == os.pathsep.join([str(host / "src"), "elsewhere"])
    assert start.environment["DAGSTER_HOME"] == str(host / ".dagster_home")


def test_where_no_tournament_is_the_command_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tournament is here; expected configs"):
        server_start(None, {"TOURNAMENT_PROJECT": str(tmp_path)})


def test_run_advises_what_works_where_a_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load_plan(write_new_project(tmp_path / "my mine").config, {})
    config = plan.project.folder / plan.config_path
    assert browsing_command(plan) == f"tournament ui --config '{config}'"
    monkeypatch.chdir(tmp_path / "my mine")
    assert browsing_command(plan) == "tournament ui"
