import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.projects import SmallProject, make_project
from tournament_assets.cli import main
from tournament_assets.loopback.running import LoopbackServer


def doctor(project: SmallProject, *options: str, **environment: str) -> Result:
    return CliRunner().invoke(
        main,
        ["doctor", *options],
        env={"TOURNAMENT_PROJECT": str(project.folder), **project.environment, **environment},
    )


def findings(result: Result) -> dict[str, dict[str, Any]]:
    return {each["subject"]: each for each in json.loads(result.stdout)}


def test_a_project_that_could_run_is_well(tmp_path: Path) -> None:
    result = doctor(make_project(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert found["small: pilot and headline"]["health"] == "ok"
    assert found["small: judge"]["said"] == "loopback: costs nothing"
    assert found["storage"]["health"] == found["ledger"]["health"] == "ok"
    assert found["daemon"]["health"] == "look"


def test_what_is_broken_is_named_with_what_to_do(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.folder / "rubrics" / "factuality.txt").unlink()
    found = doctor(project, "--json")
    assert findings(found)["small: pilot and headline"]["health"] == "look"
    assert found.exit_code == 0
    named = doctor(project, "--config", str(project.config_path))
    assert named.exit_code == 1
    assert "factuality.txt" in named.output
    (project.folder / "configs" / "torn.yaml").write_text("judge: [")
    assert doctor(project).exit_code == 1


def test_a_service_is_asked_for_its_model_and_for_nothing_else(tmp_path: Path) -> None:
    project = make_project(tmp_path, service="anthropic")
    missing = doctor(project, "--json", ANTHROPIC_API_KEY="")
    assert "ANTHROPIC_API_KEY is not set" in findings(missing)["small: judge"]["said"]
    key = {"ANTHROPIC_API_KEY": "sk-secret"}
    with LoopbackServer() as server:
        found = doctor(project, "--json", **key, ANTHROPIC_BASE_URL=server.url)
        assert findings(found)["small: judge"]["health"] == "ok", found.stdout
        assert server.log.batches == server.log.messages == 0
    gone = doctor(project, "--json", **key, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert findings(gone)["small: judge"]["health"] == "broken"
    assert "sk-secret" not in found.output + gone.output


@pytest.mark.parametrize("url", ["sqlite:////proc/nowhere/ledger.sqlite", "nonsense"])
def test_a_ledger_that_does_not_open_is_broken(tmp_path: Path, url: str) -> None:
    found = doctor(make_project(tmp_path), "--json", TOURNAMENT_LEDGER_URL=url)
    assert findings(found)["ledger"]["health"] == "broken"
    assert found.exit_code == 1


def test_a_service_that_does_not_say_what_models_it_has_is_looked_at(tmp_path: Path) -> None:
    project = make_project(tmp_path, service="anthropic")
    with LoopbackServer(faults=("model_404:always",)) as server:
        found = doctor(project, "--json", ANTHROPIC_API_KEY="any", ANTHROPIC_BASE_URL=server.url)
    assert findings(found)["small: judge"]["health"] == "look", found.stdout
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("asked", "health", "said"),
    [
        ("", "look", "on the CPU"),
        ("cpu", "look", "on the CPU"),
        ("cuda", "broken", "without it: on the CPU"),
        ("gpu7", "broken", "TOURNAMENT_DEVICE is 'gpu7'"),
    ],
)
def test_the_device_is_looked_at_where_an_entrant_loads_weights(
    tmp_path: Path, asked: str, health: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    project = make_project(tmp_path)
    needless = findings(doctor(project, "--json", TOURNAMENT_DEVICE=asked))["device"]
    assert (needless["health"], needless["said"][:31]) == ("ok", "no entrant loads weights, so no")
    tiny = {
        "entrant_id": "tiny",
        "loader": "vanilla_hf",
        "weights": {"builtin": "tiny_olmo2"},
        "max_new_tokens": 8,
    }
    entrants = yaml.safe_load(project.config_path.read_text())["entrants"]
    project.edit_config(entrants=[*entrants, tiny])
    found = findings(doctor(project, "--json", TOURNAMENT_DEVICE=asked))["device"]
    assert found["health"] == health
    assert said in found["said"]


@pytest.mark.parametrize(
    ("place", "free_gib", "health"),
    [("here", 100, "ok"), ("here", 2, "look"), ("/proc/nowhere", 100, "broken")],
)
def test_a_storage_is_written_to_and_has_to_have_room(
    tmp_path: Path, place: str, free_gib: int, health: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(total=2**50, used=0, free=free_gib * 2**30)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: free)
    project = make_project(tmp_path / "project")
    found = doctor(project, "--json", TOURNAMENT_STORAGE=str(tmp_path / place))
    assert findings(found)["storage"]["health"] == health
    assert found.exit_code == (health == "broken")


def test_what_the_config_wants_to_go_on_by_itself_and_is_off_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert "small_rerun_after_edits" not in findings(doctor(project, "--json"))
    project.edit_config(automation={"rerun_after_edits": True})
    found = findings(doctor(project, "--json"))["small_rerun_after_edits"]
    assert (found["health"], found["advice"]) == ("look", "switch it on in the UI")
