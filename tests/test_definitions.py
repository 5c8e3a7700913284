import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.definitions import build_definitions, load_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.table import rows_of
from tournament_assets.project.plan import load_plan

ROOT = Path(__file__).parents[1]
HEAVY = (
    "sqlalchemy",
    "torch",
    "transformers",
    "anthropic",
    "openai",
    "numba",
    "scipy",
    "matplotlib",
    "starlette",
)


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return load_project(ROOT, {})


def test_definitions_load_without_the_heavy_libraries() -> None:
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from tournament_assets.definitions import load_project\n"
        "import dagster as dg\n"
        f"dg.Definitions.validate_loadable(load_project(Path({str(ROOT)!r}), {{}}))\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_first_graph_is_every_asset_of_one_tournament(definitions: dg.Definitions) -> None:
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    plan = load_plan(ROOT / "configs" / "demo.yaml", {})
    assert keys == {f"demo/{asset}" for asset in rows_of(plan)}


def test_an_example_belongs_to_the_project_and_is_loaded_when_it_is_named() -> None:
    plan = load_plan(ROOT / "configs" / "examples" / "demo_jury.yaml", {})
    assert plan.project.folder == ROOT
    jury = build_definitions([plan], ROOT, {})
    assert dg.AssetKey(["demo_jury", "jury"]) in jury.resolve_asset_graph().get_all_asset_keys()


def test_every_asset_says_what_it_is_and_belongs_to_a_stage(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert len(node.description or "") > 40, key
        assert node.group_name.startswith(f"{key.path[0]}_"), key


def test_generation_runs_in_a_pool_and_waiting_for_a_judge_in_none(
    definitions: dg.Definitions,
) -> None:
    pools = {
        name: definitions.resolve_assets_def(dg.AssetKey(["demo", name])).op.pool
        for name in ("entrant_responses", "judge_requests", "judge_replies")
    }
    assert pools == {"entrant_responses": "gpu", "judge_requests": None, "judge_replies": None}


def test_secrets_are_named_and_not_copied_into_resources() -> None:
    address = "https://ada:sk-secret-2@gateway.example"
    loaded = load_project(ROOT, {"ANTHROPIC_API_KEY": "sk-secret-1", "ANTHROPIC_BASE_URL": address})
    judge = (loaded.resources or {})["judge"]
    assert "sk-secret" not in repr(judge)
    assert judge.variables["ANTHROPIC_API_KEY"] == dg.EnvVar("ANTHROPIC_API_KEY")
    assert judge.variables["ANTHROPIC_BASE_URL"] == dg.EnvVar("ANTHROPIC_BASE_URL")


@pytest.fixture
def half_broken(tmp_path: Path) -> SmallProject:
    """A tournament with a schedule, beside a twin of it and a file with a mistyped key."""
    project = make_project(tmp_path / "project")
    project.merge_config(modes={"headline": {"schedule": {"cron": "0 6 * * 1"}}})
    configs = project.folder / "configs"
    (configs / "twin.yaml").write_text(project.config_path.read_text())
    (configs / "mistyped-ä.yaml").write_text("tournament_id: other\nbnak: `bank.jsonl`\n")
    (configs / "cut off.yaml").write_text("tournament_id: [\n")
    return project


def test_a_broken_config_takes_down_itself_alone(half_broken: SmallProject) -> None:
    definitions = load_project(half_broken.folder, {})
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    tournaments = {key.path[0] for key in graph.get_all_asset_keys() if len(key.path) == 2}
    assert tournaments == {"small", "twin", "mistyped__", "cut_off"}
    schedules = {each.name for each in definitions.schedules or []}
    sensors = {each.name for each in definitions.sensors or []}
    assert schedules == {"small_headline_schedule"}
    assert {"tournaments", "tell_config_problems"} <= sensors


def test_a_broken_config_says_where_it_stood_what_is_wrong(half_broken: SmallProject) -> None:
    definitions = load_project(half_broken.folder, {})
    graph = definitions.resolve_asset_graph()
    lines = {}
    for name, stem in (("twin", "twin"), ("mistyped__", "mistyped-ä"), ("cut_off", "cut off")):
        path = half_broken.folder / "configs" / f"{stem}.yaml"
        node = graph.get(dg.AssetKey([name, "config_problem"]))
        assert node.is_external
        assert node.metadata["file"] == str(path)
        assert f"    {path}:{node.metadata['line']}: " in (node.description or "")
        lines[name] = (node.metadata["line"], node.group_name)
    assert lines == {
        "twin": ("1", "twin_0_config_problem"),
        "mistyped__": ("2", "mistyped___0_config_problem"),
        "cut_off": ("2", "cut_off_0_config_problem"),
    }


def test_a_config_that_is_still_broken_is_told_of_once(half_broken: SmallProject) -> None:
    definitions = load_project(half_broken.folder, {})
    sensor = definitions.resolve_sensor_def("tell_config_problems")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    with dg.DagsterInstance.ephemeral() as instance:
        first = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        events = list(first.asset_events or [])
        assert {event.asset_key.path[0] for event in events} == {"twin", "mistyped__", "cut_off"}
        assert not any(getattr(event, "passed", True) for event in events)
        again = sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, cursor=first.cursor)
        )
        assert not again.asset_events
        assert "3 configs" in (again.skip_message or "")


def test_where_no_config_can_be_loaded_the_reasons_are_all_there_is(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "small.yaml").write_text("")
    definitions = load_project(tmp_path, {})
    dg.Definitions.validate_loadable(definitions)
    keys = definitions.resolve_asset_graph().get_all_asset_keys()
    assert [key.to_user_string() for key in keys] == ["small/config_problem"]


def test_broken_configs_of_like_names_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    for stem in ("a-b", "a b", "a_b"):
        (tmp_path / "configs" / f"{stem}.yaml").write_text("")
    keys = load_project(tmp_path, {}).resolve_asset_graph().get_all_asset_keys()
    assert len(keys) == 3


def test_asked_to_be_strict_every_broken_config_is_named_at_once(
    half_broken: SmallProject,
) -> None:
    with pytest.raises(InputError) as caught:
        load_project(half_broken.folder, {}, strict=True)
    for place in ("cut off.yaml:2", "mistyped-ä.yaml:2: ", "twin.yaml:1: tournament_id 'small'"):
        assert place in str(caught.value)


def test_checking_definitions_fails_on_one_broken_config(half_broken: SmallProject) -> None:
    script = "import tournament_assets.definitions as d; d.defs.load_fn()"
    for validating, code in (("1", 1), ("", 0)):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "TOURNAMENT_PROJECT": str(half_broken.folder),
                "DAGSTER_IS_DEFS_VALIDATION_CLI": validating,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ("mistyped-ä.yaml:2" in done.stderr) == bool(validating)


def test_a_folder_without_configs_says_where_to_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="TOURNAMENT_PROJECT"):
        load_project(tmp_path, {})


def test_only_what_dagster_calls_changes_the_process(half_broken: SmallProject) -> None:
    script = (
        "import gc, json, sys, warnings\n"
        "from pathlib import Path\n"
        "import dagster\n"
        "from tournament_assets.definitions import defs, load_project\n"
        "load_project(Path(sys.argv[1]), {})\n"
        "silenced = [each for each in warnings.filters if each[2] is dagster.BetaWarning]\n"
        "found = [len(silenced), gc.get_freeze_count()]\n"
        "for _ in range(2):\n"
        "    defs()\n"
        "    found.append(gc.get_freeze_count())\n"
        "print(json.dumps(found))\n"
    )
    command = [sys.executable, "-c", script, str(half_broken.folder)]
    environment = {**os.environ, "TOURNAMENT_PROJECT": str(half_broken.folder)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    silenced, loaded, first, second = json.loads(done.stdout.splitlines()[-1])
    assert (silenced, loaded) == (0, 0)
    assert first > 10_000
    assert second <= first, "once a process: what is garbage at that moment is never collected"


def test_what_a_notebook_held_before_it_ran_a_tournament_can_still_be_collected() -> None:
    script = (
        "import gc, weakref\n"
        "class Model: pass\n"
        "model = Model()\n"
        "model.itself, seen = model, weakref.ref(model)\n"
        "import tournament_assets.launching\n"
        "del model\n"
        "gc.collect()\n"
        "assert seen() is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
