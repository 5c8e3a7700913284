import json
from pathlib import Path
from typing import Any

import pytest
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
