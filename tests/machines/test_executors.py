"""One environment variable chooses what runs the steps of a run."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.machines.workers import DEPLOY, ROOT
from tests.projects import make_project
from tournament_assets.definitions import load_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph import resources
from tournament_assets.graph.adapter import GPU_STEP_TAGS
from tournament_assets.graph.resources import build_executor

BROKER = {"TOURNAMENT_CELERY_BROKER": "redis://:word@127.0.0.1:6379/0"}
NAMES = {
    "": "in_process",
    "in_process": "in_process",
    "multiprocess": "multiprocess",
    "celery": "celery",
    "kubernetes": "k8s",
}


@pytest.mark.parametrize("value", NAMES)
def test_a_project_loads_with_every_executor(value: str, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    loaded = load_project(project.folder, {"TOURNAMENT_EXECUTOR": value, **BROKER})
    dg.Definitions.validate_loadable(loaded)
    job = loaded.resolve_job_def("__ASSET_JOB_small_judging")
    assert job.executor_def.name == NAMES[value]


def test_the_libraries_of_clusters_are_imported_only_when_they_are_asked_for() -> None:
    script = (
        "import sys\n"
        "from tournament_assets.graph.resources import build_executor\n"
        "build_executor({'TOURNAMENT_EXECUTOR': 'multiprocess'})\n"
        "print([name for name in ('celery', 'dagster_celery', 'dagster_k8s', 'kubernetes')"
        " if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.stdout.strip() == "[]"


def test_an_unknown_executor_names_those_there_are() -> None:
    with pytest.raises(InputError, match="'dask'") as caught:
        build_executor({"TOURNAMENT_EXECUTOR": "dask"})
    named = {"in_process", "multiprocess", "celery", "kubernetes"}
    assert named <= set(re.findall(r"\w+", str(caught.value)))


@pytest.mark.parametrize("extra", ["celery", "kubernetes"])
def test_an_extra_that_is_not_installed_is_named(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "find_spec", lambda module: None)
    with pytest.raises(InputError, match=rf"'tournament-assets\[{extra}\]'"):
        build_executor({"TOURNAMENT_EXECUTOR": extra, **BROKER})


def test_celery_without_a_broker_asks_for_one() -> None:
    with pytest.raises(InputError, match="TOURNAMENT_CELERY_BROKER"):
        build_executor({"TOURNAMENT_EXECUTOR": "celery"})


def celery_settings(monkeypatch: pytest.MonkeyPatch, **environment: str) -> dict[str, Any]:
    """Resolve what a run with Celery would be given."""
    for name, value in {**BROKER, **environment}.items():
        monkeypatch.setenv(name, value)
    executor = build_executor({"TOURNAMENT_EXECUTOR": "celery", **BROKER, **environment})
    applied = executor.apply_config_mapping({"config": {}})
    assert applied.success, applied.errors
    settings: dict[str, Any] = (applied.value or {})["config"]
    return settings


def test_celery_keeps_results_where_its_broker_is_unless_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = BROKER["TOURNAMENT_CELERY_BROKER"]
    settings = celery_settings(monkeypatch)
    assert (settings["broker"], settings["backend"]) == (broker, broker)
    elsewhere = celery_settings(monkeypatch, TOURNAMENT_CELERY_BACKEND="redis://other/1")
    assert (elsewhere["broker"], elsewhere["backend"]) == (broker, "redis://other/1")


def test_runs_and_workers_agree_on_when_a_step_is_given_to_another_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = celery_settings(monkeypatch)["config_source"]["broker_transport_options"]
    workers = runpy.run_path(str(DEPLOY / "celery" / "dagster_celery_config.py"))
    assert workers["broker_transport_options"] == options
    longest_wait_seconds = 3 * 24 * 3600
    assert options["visibility_timeout"] > longest_wait_seconds
    assert workers["result_backend"] == workers["broker_url"] == BROKER["TOURNAMENT_CELERY_BROKER"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_concurrent: many\n", "many"),
        ("max_parallel: 3\n", "max_parallel"),
        ("- 3\n", "list"),
        ("a: [\n", "expected valid YAML"),
        ("max_concurrent: 3\nmax_concurrent: 4\n", r"2: .*\bmax_concurrent\b"),
    ],
)
def test_settings_that_do_not_fit_are_refused_when_definitions_load(
    tmp_path: Path, text: str, problem: str
) -> None:
    settings = tmp_path / "executor.yaml"
    settings.write_text(text)
    environment = {
        "TOURNAMENT_EXECUTOR": "multiprocess",
        "TOURNAMENT_EXECUTOR_CONFIG": str(settings),
    }
    with pytest.raises(InputError, match=problem) as caught:
        build_executor(environment)
    assert str(settings) in str(caught.value)


def test_steps_that_load_weights_ask_for_a_gpu_and_others_for_nothing(tmp_path: Path) -> None:
    recorded = load_project(make_project(tmp_path / "project").folder, {})
    demo = load_project(ROOT, {})
    asked = {
        key.to_user_string(): definitions.resolve_assets_def(key).op.tags
        for definitions in (recorded, demo)
        for key in definitions.resolve_asset_graph().executable_asset_keys
        if definitions.resolve_assets_def(key).op.tags.keys() & GPU_STEP_TAGS.keys()
    }
    assert {key.split("/")[1] for key in asked} == {"entrant_responses"}
    assert "demo/entrant_responses" in asked
    assert "small/entrant_responses" not in asked
    assert asked["demo/entrant_responses"]["dagster-celery/queue"] == "gpu"
