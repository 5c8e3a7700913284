"""Which judges are entrants, and where that is said before money is spent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.projects import SmallProject, make_project
from tournament_assets.cli import main
from tournament_assets.project.plan import load_plan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.run_comparison.gate import GateSettings, hold_gate
from tournament_assets.run_comparison.run_reading import read_finished_runs

QWEN = "Qwen/Qwen3-8B"
HERE, THERE = "http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"


def described(loader: str, **settings: Any) -> dict[str, Any]:
    return {"entrant_id": "player", "loader": loader, **settings}


def served(model: str, base_url: Any) -> dict[str, Any]:
    return described("openai_api", model=model, base_url=base_url)


def recorded(**settings: Any) -> dict[str, Any]:
    return described("recorded", responses={"path": "responses_mixed.jsonl"}, **settings)


def seat(project: SmallProject, entrant: dict[str, Any], *judges: dict[str, Any]) -> None:
    """Let some judges judge careful and one more entrant."""
    careful = {
        "entrant_id": "careful",
        "loader": "recorded",
        "responses": {"path": "responses_careful.jsonl"},
    }
    project.edit_config(
        entrants=[careful, entrant], judges=list(judges), modes={"pilot": {}, "headline": {}}
    )


def playing(project: SmallProject, **environment: str) -> list[tuple[str, str, str]]:
    plan = load_plan(project.config_path, environment)
    found = playing_judges(plan, "pilot")
    return [(each.judge, each.entrant_id, each.same) for each in found]


@pytest.mark.parametrize(
    ("judge", "entrant", "same"),
    [
        (("anthropic", "claude-x"), described("anthropic_api", model="claude-x"), "same model"),
        (("anthropic", "claude-x"), described("anthropic_api", model="claude-x-2"), ""),
        (("anthropic", "claude-x"), recorded(model="claude-x"), "same model"),
        (("anthropic", "claude-x"), recorded(), ""),
        (("anthropic", "claude-x"), served("claude-x", "https://gateway.example/v1"), "same model"),
        (("openai_batch", "gpt-5"), served("gpt-5", "https://api.openai.com/v1"), "same model"),
        (
            ("openai_api", "default", HERE),
            served("default", HERE),
            "same model at the same address",
        ),
        (
            ("openai_api", "default", HERE),
            served("default", "http://localhost:8000/"),
            "same model at the same address",
        ),
        (
            ("openai_api", "default", HERE),
            served("default", {"env": "SERVER"}),
            "same model at the same address",
        ),
        (("openai_api", "default", HERE), served("default", {"env": "ABSENT"}), ""),
        (("openai_api", "default"), served("default", {"env": "ABSENT"}), ""),
        (("openai_api", "default", HERE), served("default", THERE), ""),
        (("openai_api", "/models/x", HERE), served("/models/x", THERE), ""),
        (("openai_api", QWEN, HERE), served(QWEN, THERE), "same model"),
        (("openai_api", QWEN, HERE), served("Qwen/Qwen3-4B", HERE), ""),
        (
            ("openai_api", QWEN, HERE),
            described("vanilla_hf", weights={"env": "WEIGHTS", "source": QWEN}),
            "same weights",
        ),
        (
            ("openai_api", "/models/x", HERE),
            described("vanilla_hf", weights={"path": "/models/x/"}, adapter={"path": "tuned"}),
            "same weights",
        ),
        (
            ("openai_api", "/models/x", HERE),
            described("vanilla_hf", weights={"env": "WEIGHTS"}),
            "same weights",
        ),
        (
            ("openai_api", "/models/y", HERE),
            described("vanilla_hf", weights={"path": "/models/x"}),
            "",
        ),
    ],
)
def test_a_judge_is_an_entrant_by_model_weights_or_address(
    tmp_path: Path, judge: tuple[str, ...], entrant: dict[str, Any], same: str
) -> None:
    project = make_project(tmp_path)
    seat(project, entrant, dict(zip(("service", "model", "base_url"), judge, strict=False)))
    found = playing(project, SERVER=HERE, WEIGHTS="/models/x")
    assert found == ([(judge[1], "player", same)] if same else [])


def test_every_juror_is_looked_at_and_so_is_another_model_in_the_judges_place(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path)
    jury = [{"service": "anthropic", "model": f"claude-{name}"} for name in "xyz"]
    seat(project, described("anthropic_api", model="claude-y"), *jury)
    assert playing(project) == [("claude-y", "player", "same model")]
    seat(project, described("anthropic_api", model="claude-y"), jury[0])
    assert playing(project) == []
    plan = load_plan(project.config_path, {})
    (found,) = playing_judges(plan, "pilot", models=["claude-x", "claude-y"])
    assert found.sentence.startswith("judge 'claude-y' is also entrant 'player' (same model)")


def test_it_is_said_by_doctor_estimate_run_first_screen_and_gate(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    entrant = described("anthropic_api", model="loopback-x")
    seat(project, entrant, {"service": "loopback", "model": "loopback-x", "name": "pilot"})
    said = "judge 'loopback-x' is also entrant 'player' (same model)"

    def invoke(*words: str) -> Any:
        variables = {"TOURNAMENT_PROJECT": str(project.folder), **project.environment}
        return CliRunner().invoke(main, [*words], env=variables, catch_exceptions=False)

    asked = ("--config", str(project.config_path))
    health = {
        each["said"]: each["health"] for each in json.loads(invoke("doctor", "--json").stdout)
    }
    (found,) = (name for name in health if said in name)
    assert health[found] == "look"
    scripted = json.loads(invoke("estimate", *asked, "--mode", "pilot", "--json").stdout)
    assert any(said in each for each in scripted["warnings"])
    summary = project.run()
    assert any(said in each for each in summary.warnings)
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert said in [doubt["short"] for doubt in manifest["first_screen"]["doubts"]]
    (finished,) = read_finished_runs([summary.directory])
    for held in hold_gate(finished, GateSettings("careful", "player")).dimensions:
        assert any(said in doubt for doubt in held.doubts)


def test_the_command_says_it_before_anything_is_asked(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    entrant = described("anthropic_api", model="claude-x")
    seat(project, entrant, {"service": "anthropic", "model": "claude-x"})
    words = ("run", "--config", str(project.config_path), "--mode", "pilot")
    done = CliRunner().invoke(main, [*words], env={**project.environment, "ANTHROPIC_API_KEY": ""})
    assert done.exit_code
    assert "warning: judge 'claude-x' is also entrant 'player'" in done.stderr.replace("\n", " ")


def test_of_a_jury_that_plays_its_preference_for_itself_is_measured_by_the_others(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path)
    jury = [{"service": "loopback", "model": f"loopback-{name}", "name": name} for name in "xy"]
    seat(project, described("anthropic_api", model="loopback-x"), *jury)
    rows = project.tables("measures").frame("measures", "factuality")
    (found,) = rows[rows["measure"] == "self_preference"].to_dict("records")
    assert found["subject"] == "player"
    assert found["state"] in ("green", "amber", "red", "not measured")
    assert found["value"] is not None or found["note"]
