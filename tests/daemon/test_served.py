"""What `tournament ui` serves: a project whose doctor advised it, and somebody else's project."""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.browser.servers import served
from tests.cli.test_advice import SERVED, Person
from tests.daemon.daemons import wait_until
from tests.projects import make_project
from tests.test_component import OWN, make_host


@pytest.mark.parametrize("command", SERVED)
def test_the_daemon_that_doctor_misses_runs_when_its_advice_is_followed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")
    person = Person(project.folder, monkeypatch, **project.environment)
    advice = person.finding("daemon")["advice"]
    assert f"`{command}`" in advice
    log = tmp_path / "log"
    with served(project.folder, log, *command.split()[2:]):
        wait_until(
            lambda: person.finding("daemon")["health"] == "ok", "a heartbeat", seconds=300, log=log
        )


def test_a_project_with_a_tournament_as_its_component_is_served_as_it_is(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host", "gardens")
    (host.defs / "own.py").write_text(OWN)
    host.dg("scaffold", "defs", "tournament_assets.TournamentComponent", "flowers")
    with served(host.folder, tmp_path / "log") as address:
        asked = {"query": "{ assetNodes { assetKey { path } repository { location { name } } } }"}
        request = urllib.request.Request(  # noqa: S310  # our own loopback server
            f"{address}/graphql",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            nodes = json.load(answer)["data"]["assetNodes"]
    keys = {"/".join(node["assetKey"]["path"]) for node in nodes}
    assert {"best_model", "flowers/leaderboard"} <= keys
    assert {node["repository"]["location"]["name"] for node in nodes} == {"gardens.definitions"}
    assert (host.folder / ".dagster_home" / "dagster.yaml").is_file()
