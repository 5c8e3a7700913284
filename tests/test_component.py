"""A tournament in a Dagster project that is somebody else's."""

import importlib
import os
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
import yaml
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.core.package_entry import (
    DG_PLUGIN_ENTRY_POINT_GROUP,
    get_package_objects_in_module,
)

import tournament_assets
from tests.projects import SmallProject, bank_rows, make_project
from tournament_assets.definitions import build_guest
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.automation.jobs import build_stages
from tournament_assets.project.plan import load_plan
from tournament_assets.project.project_files import prepare_dagster_home

ROOT = Path(__file__).parents[1]
PYPROJECT = """\
[project]
name = "{name}"
version = "0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "{name}"

[tool.dg.cli.telemetry]
enabled = false
"""
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
OWN = """\
import dagster as dg


@dg.asset(
    ins={
        "leaderboard": dg.AssetIn(
            key=["flowers", "leaderboard"],
            partition_mapping=dg.SpecificPartitionsPartitionMapping(["pilot"]),
        )
    }
)
def best_model(ledger: dg.ResourceParam[str], leaderboard) -> dg.MaterializeResult:
    best = leaderboard.sort_values("rank").iloc[0]["entrant_id"]
    return dg.MaterializeResult(metadata={"best": best, "ledger": ledger})


@dg.definitions
def own() -> dg.Definitions:
    return dg.Definitions(
        assets=[best_model],
        resources={"ledger": "own"},
        executor=dg.multiprocess_executor,
    )
"""


@dataclass(frozen=True)
class Host:
    """A Dagster project that knows tournaments only as a component."""

    folder: Path
    name: str

    @property
    def defs(self) -> Path:
        return self.folder / "src" / self.name / "defs"

    @property
    def tournament(self) -> Path:
        return self.defs / "flowers" / "defs.yaml"

    def load(self) -> dg.Definitions:
        return dg.load_from_defs_folder(path_within_project=self.folder)

    def dg(self, *command: str) -> str:
        # An entry point counts from when the package is installed: here, from what is declared now.
        declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        metadata = self.folder / "installed" / "tournament_assets-0.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        (metadata / "METADATA").write_text(f"Name: {declared['name']}\nVersion: 0\n")
        entries = declared["entry-points"][DG_PLUGIN_ENTRY_POINT_GROUP]
        lines = [f"[{DG_PLUGIN_ENTRY_POINT_GROUP}]", *(f"{k} = {v}" for k, v in entries.items())]
        (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
        places = [self.folder / "src", metadata.parent, ROOT]
        done = subprocess.run(
            [str(Path(sys.executable).parent / "dg"), *command],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def make_host(folder: Path, name: str) -> Host:
    host = Host(folder, name)
    host.defs.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name))
    (host.defs / "__init__.py").touch()
    (host.defs.parent / "__init__.py").touch()
    (host.defs.parent / "definitions.py").write_text(DEFINITIONS)
    return host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A project with an asset, a resource and an executor of its own, and a tournament."""
    host = make_host(tmp_path_factory.mktemp("host"), "flower_shop")
    (host.defs / "own.py").write_text(OWN)
    host.dg("scaffold", "defs", "tournament_assets.TournamentComponent", "flowers")
    sys.path.insert(0, str(host.folder / "src"))
    importlib.invalidate_caches()
    yield host
    sys.path.remove(str(host.folder / "src"))


def run_to_the_leaderboard(definitions: dg.Definitions, config: Path) -> dg.DagsterInstance:
    plan = load_plan(config, os.environ)
    instance = dg.DagsterInstance.ephemeral()
    for stage in build_stages(plan):
        job = definitions.resolve_job_def(stage.job_name)
        for key in stage.partition_keys(plan, "pilot"):
            assert job.execute_in_process(instance=instance, partition_key=str(key)).success
    return instance


def test_a_scaffolded_tournament_runs_beside_the_assets_of_its_host(host: Host) -> None:
    definitions = host.load()
    instance = run_to_the_leaderboard(definitions, host.tournament)
    with instance:
        done = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("best_model")]
        )
    (event,) = done.asset_materializations_for_node("best_model")
    assert event.metadata["best"].value == "alpha"
    assert event.metadata["ledger"].value == "own"
    assert len(list((host.folder / "runs").glob("pilot_*/report.html"))) == 1
    assert {path.name for path in host.tournament.parent.iterdir()} == {
        *("defs.yaml", "prompts.jsonl", "helpfulness.txt", "alpha.jsonl", "beta.jsonl")
    }


def test_the_definitions_of_the_host_are_found_good(host: Host) -> None:
    host.dg("check", "defs")


def test_a_host_hears_no_warning_of_the_tournament(host: Host) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        own = dg.Definitions(assets=[dg.AssetSpec("own")])
        repository = dg.Definitions.merge(host.load(), own).get_repository_def()
        repository.load_all_definitions()
    # Dagster's own use of what it deprecates is shown to nobody by default.
    assert [each for each in heard if each.category is not DeprecationWarning] == []
    assert any(sensor.name == "flowers_tournaments" for sensor in repository.sensor_defs)


def test_the_executor_of_the_host_runs_the_steps(host: Host) -> None:
    job = host.load().resolve_job_def("__ASSET_JOB_flowers_prompts")
    assert job.executor_def is dg.multiprocess_executor


def test_two_tournaments_live_in_one_host(host: Host, tmp_path: Path) -> None:
    other = make_project(tmp_path / "other")
    second = host.defs / "small" / "defs.yaml"
    second.parent.mkdir()
    attributes = {"config": str(other.config_path)}
    kind = "tournament_assets.TournamentComponent"
    second.write_text(yaml.safe_dump({"type": kind, "attributes": attributes}))
    try:
        keys = {
            key.to_user_string() for key in host.load().resolve_asset_graph().get_all_asset_keys()
        }
    finally:
        second.unlink()
        second.parent.rmdir()
    assert {"best_model", "flowers/leaderboard", "small/leaderboard"} <= keys


def test_a_mistake_in_an_inline_config_is_told_with_its_line(host: Host) -> None:
    good = host.tournament.read_text()
    line = good.splitlines().index("      - service: loopback")
    host.tournament.write_text(good.replace("service: loopback", "service: lopback"))
    try:
        with pytest.raises(ComponentTreeException) as error:
            host.load().resolve_asset_graph()
    finally:
        host.tournament.write_text(good)
    assert f"defs.yaml:{line + 1}: " in str(error.value.__cause__)
    assert "'lopback'" in str(error.value.__cause__)


def test_the_component_is_registered_and_costs_nothing_until_it_is_used() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (value,) = declared[DG_PLUGIN_ENTRY_POINT_GROUP].values()
    module = importlib.import_module(value)
    assert "TournamentComponent" in dict(get_package_objects_in_module(module))
    script = "import sys, tournament_assets; print('dagster' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def with_spoken_responses(project: SmallProject) -> None:
    """Let the responses of one entrant be an asset."""
    config = yaml.safe_load(project.config_path.read_text())
    config["entrants"][0]["responses"] = {"asset": "models/spoken"}
    project.edit_config(entrants=config["entrants"])


def test_responses_come_from_an_asset_of_the_host(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with_spoken_responses(project)

    @dg.asset(key=["models", "spoken"])
    def spoken() -> pd.DataFrame:
        return pd.DataFrame(
            [{"prompt_id": row["prompt_id"], "response": "Spoken."} for row in bank_rows()]
        )

    plan = load_plan(project.config_path, {}, is_guest=True)
    host = dg.Definitions(
        assets=[spoken],
        resources={"io_manager": dg.FilesystemIOManager(base_dir=str(tmp_path / "host"))},
    )
    definitions = dg.Definitions.merge(build_guest(plan), host)
    responses = dg.AssetKey(["small", "entrant_responses"])
    parents = definitions.resolve_asset_graph().get(responses).parent_keys
    assert dg.AssetKey(["models", "spoken"]) in parents
    with dg.DagsterInstance.ephemeral() as instance:
        whole = definitions.resolve_implicit_global_asset_job_def()
        keys = [spoken.key]
        assert whole.execute_in_process(instance=instance, asset_selection=keys).success
        for stage in build_stages(plan)[:2]:
            job = definitions.resolve_job_def(stage.job_name)
            partition = str(stage.partition_keys(plan, "pilot")[0])
            done = job.execute_in_process(instance=instance, partition_key=partition)
    (event,) = done.asset_materializations_for_node("small__entrant_responses")
    assert str(event.metadata["source"].value).endswith(" models/spoken")
    assert event.metadata["mean_words"].value == 1


HOST_OF_AN_ASSET = """\
import os
from pathlib import Path

import dagster as dg
import pandas as pd

from tests.projects import bank_rows
from tournament_assets.definitions import build_guest
from tournament_assets.project.plan import load_plan


@dg.asset(key=["models", "spoken"])
def spoken() -> pd.DataFrame:
    rows = [{"prompt_id": row["prompt_id"], "response": "Spoken."} for row in bank_rows()]
    return pd.DataFrame(rows)


plan = load_plan(Path("configs/small.yaml").resolve(), os.environ, is_guest=True)
defs = dg.Definitions.merge(build_guest(plan), dg.Definitions(assets=[spoken]))
"""


@pytest.mark.e2e
def test_a_rerun_reads_the_asset_of_the_host_and_dagster_knows_of_it(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    with_spoken_responses(project)
    (project.folder / "host.py").write_text(HOST_OF_AN_ASSET)
    home = prepare_dagster_home(project.folder, project.environment["DAGSTER_HOME"])
    for command in (
        ("asset", "materialize", "--select", "key:models/spoken"),
        ("job", "execute", "--job", "small_rerun", "--tags", '{"dagster/partition": "pilot"}'),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "dagster", *command, "--python-file", "host.py"],
            cwd=project.folder,
            env={**os.environ, **project.environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with dg.DagsterInstance.from_config(str(home)) as instance:
        found = instance.fetch_materializations(
            dg.AssetRecordsFilter(
                dg.AssetKey(["small", "entrant_responses"]), asset_partitions=["careful|pilot"]
            ),
            limit=1,
        )
        spoken = instance.get_latest_materialization_event(dg.AssetKey(["models", "spoken"]))
    (record,) = found.records
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["mean_words"].value == 1
    tags = record.asset_materialization.tags or {}
    assert spoken is not None
    assert spoken.asset_materialization is not None
    version = (spoken.asset_materialization.tags or {})["dagster/data_version"]
    assert tags["dagster/input_data_version/models/spoken"] == version


def test_responses_of_an_asset_are_refused_where_nobody_has_assets(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with_spoken_responses(project)
    with pytest.raises(InputError, match="'models/spoken'"):
        load_plan(project.config_path, {})


def test_names_that_the_package_does_not_have_are_refused() -> None:
    with pytest.raises(AttributeError, match="'TournamentComponents'"):
        _ = tournament_assets.TournamentComponents  # type: ignore[attr-defined]
