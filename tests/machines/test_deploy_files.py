"""What `configs/deploy` says fits what reads it, as far as that can be held here."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.instance.config import dagster_instance_config
from dagster._core.workspace.config_schema import process_workspace_config
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import (
    DagsterK8sJobConfig,
    UserDefinedDagsterK8sConfig,
    construct_dagster_k8s_job,
    get_user_defined_k8s_config,
)
from dagster_postgres import DagsterPostgresStorage

from tests.machines.databases import dagster_database
from tests.machines.workers import DEPLOY, ROOT
from tournament_assets.definitions import build_definitions
from tournament_assets.graph.resources import build_executor
from tournament_assets.project.plan import load_plan

DATABASE = dagster_database("postgresql://ada:word@127.0.0.1:5432/dagster")
INSTANCES = sorted(DEPLOY.glob("*/dagster.yaml"))
VERSION = re.compile(r"\d+\.\d+")


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.parent.name)
def test_dagster_accepts_the_instances(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DATABASE.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "dagster.yaml").write_bytes(path.read_bytes())
    config, _ = dagster_instance_config(str(tmp_path))
    assert config["concurrency"]["pools"]["default_limit"] == 1
    storage = config["storage"]["postgres"]
    processed = process_config(
        resolve_to_config_type(DagsterPostgresStorage.config_type()), storage
    )
    assert processed.success, processed.errors
    url = (processed.value or {})["postgres_db"]
    assert (url["username"], url["port"], url["scheme"]) == ("ada", 5432, "postgresql+psycopg2")


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("compose-spec", DEPLOY / "celery" / "compose.yaml"),
        ("github-actions", ROOT / "action.yml"),
        *(
            ("github-workflows", path)
            for path in sorted((ROOT / ".github" / "workflows").iterdir())
        ),
        ("github-issue-config", ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"),
        ("github-issue-forms", ROOT / ".github" / "ISSUE_TEMPLATE" / "problem.yml"),
    ],
    ids=lambda each: each.name if isinstance(each, Path) else each,
)
def test_files_that_other_tools_read_are_as_their_published_schemas_say(
    schema: str, path: Path
) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_tests_take_the_lowest_dagster_from_the_ranges_of_the_project() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    (command,) = (
        step["run"]
        for step in workflow["jobs"]["versions"]["steps"]
        if step.get("if") == "matrix.dagster == 'lowest'"
    )
    done = subprocess.run(
        ["bash", "-c", command.replace(">> pins.txt", "")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lowest = {
        each.split(",")[0].replace(">=", "==") for each in needed if each.startswith("dagster")
    }
    assert set(done.stdout.split()) == lowest
    assert len(lowest) == 7


def test_images_have_versions_and_nothing_holds_a_secret() -> None:
    compose = read("celery/compose.yaml")
    images = [service["image"] for service in compose["services"].values()]
    values = read("kubernetes/values.yaml")
    for deployment in values["dagster-user-deployments"]["deployments"]:
        image = deployment["image"]
        images.append(f"{image['repository']}:{image['tag']}")
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(images) == 9
    for image in images:
        assert VERSION.search(image.rpartition(":")[2]), image
    for name, value in compose["services"]["worker"]["environment"].items():
        if "PASSWORD" in name or "KEY" in name:
            assert value.startswith("${"), name


def test_weights_and_the_variables_that_name_them_reach_the_containers() -> None:
    asked = {
        name
        for path in (ROOT / "configs").glob("**/*.yaml")
        for name in re.findall(r"^\s+env: (\w+)$", path.read_text(), re.MULTILINE)
    }
    assert len(asked) >= 3
    compose = read("celery/compose.yaml")["services"]["gpu_worker"]
    [deployment] = read("kubernetes/values.yaml")["dagster-user-deployments"]["deployments"]
    given = {each["name"]: each["value"] for each in deployment["env"]}
    for name in asked:
        assert compose["environment"][name].startswith("/opt/weights/"), name
        assert given[name].startswith("/opt/weights/"), name
    assert compose["volumes"][-1].endswith(":/opt/weights:ro")
    assert {"name": "weights", "mountPath": "/opt/weights", "readOnly": True} in deployment[
        "volumeMounts"
    ]


def test_nothing_runs_as_root() -> None:
    services = read("celery/compose.yaml")["services"]
    [account] = re.findall(r"^USER (\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert account == "1000"
    for name, service in services.items():
        assert "build" in service or service.get("user") not in (None, "root", "0"), name


def test_the_image_copies_what_there_is_and_installs_every_extra_that_a_cluster_needs() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+)$", dockerfile, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
    # Its processes are Dagster's, not the command's, which lets waiting threads sleep itself.
    assert "OMP_WAIT_POLICY=passive" in dockerfile
    extras = re.search(r"'\.\[(.+)\]'", dockerfile)
    assert extras is not None
    assert extras[1].split(",") == ["postgres", "celery", "kubernetes", "s3"]


def test_the_services_of_compose_belong_together() -> None:
    compose = read("celery/compose.yaml")
    services = compose["services"]
    assert {"postgresql", "redis", "code", "webserver", "daemon"} < services.keys()
    for service in services.values():
        assert set(service.get("depends_on", {})) <= services.keys()
        for mount in service.get("volumes", ()):
            # A folder of the machine's that a variable names, or else a volume.
            source = re.sub(r"^\$\{\w+:-(\w+)\}", r"\1", mount).split(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / "celery" / source).is_file()
            else:
                assert source in compose["volumes"]
    queues = {
        queue
        for service in services.values()
        if "celery" in service.get("command", ())
        for queue in service["command"][service["command"].index("--queues") + 1].split(",")
    }
    assert queues == {"dagster", "gpu"}
    server = read("celery/workspace.yaml")["load_from"][0]["grpc_server"]
    assert process_workspace_config(read("celery/workspace.yaml")).success
    assert server["host"] in services
    executor = build_executor({**services["code"]["environment"]})
    assert executor.name == "celery"
    assert (DEPLOY / "celery" / "dagster_celery_config.py").is_file()


def raw_settings(settings: Mapping[str, Any]) -> UserDefinedDagsterK8sConfig:
    made: UserDefinedDagsterK8sConfig = UserDefinedDagsterK8sConfig.from_dict(  # type: ignore[no-untyped-call]
        settings
    )
    return made


def step_pod(asset: str) -> Mapping[str, Any]:
    """Merge what the launcher, the executor and the step say, in the executor's order."""
    environment = {
        "TOURNAMENT_EXECUTOR": "kubernetes",
        "TOURNAMENT_EXECUTOR_CONFIG": str(DEPLOY / "kubernetes" / "executor.yaml"),
    }
    plan = load_plan(ROOT / "configs" / "examples" / "tournament1.yaml", environment)
    definitions = build_definitions([plan], ROOT, environment)
    config = read("kubernetes/executor.yaml")
    name = f"tournament1__{asset}"
    tags = definitions.resolve_assets_def(dg.AssetKey(["tournament1", asset])).op.tags
    context = K8sContainerContext(run_k8s_config=raw_settings(config["step_k8s_config"]))
    for layer in (
        get_user_defined_k8s_config(tags),
        raw_settings(config["per_step_k8s_config"].get(name, {})),
    ):
        context = context.merge(K8sContainerContext(run_k8s_config=layer))
    job = construct_dagster_k8s_job(
        job_config=DagsterK8sJobConfig(
            job_image="tournament-assets:0.1.0", dagster_home=None, instance_config_map=None
        ),
        args=["true"],
        job_name="step",
        user_defined_k8s_config=context.run_k8s_config,
    ).to_dict()
    spec: Mapping[str, Any] = job["spec"]["template"]["spec"]
    return spec


def test_a_step_with_weights_gets_a_large_pod_with_a_gpu_and_another_a_small_one() -> None:
    large = step_pod("entrant_responses")
    assert large["containers"][0]["resources"] == {
        "requests": {"cpu": "4", "memory": "24Gi"},
        "limits": {"memory": "48Gi", "nvidia.com/gpu": "1"},
        "claims": None,
    }
    assert [toleration["key"] for toleration in large["tolerations"]] == ["nvidia.com/gpu"]
    small = step_pod("elo_ratings")
    assert small["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"memory": "4Gi"},
        "claims": None,
    }
    assert not small["tolerations"]
    assert large["security_context"]["fs_group"] == small["security_context"]["fs_group"] == 1000


def test_the_values_of_the_chart_lead_to_what_is_there() -> None:
    values = read("kubernetes/values.yaml")
    pinned = (ROOT / "constraints.txt").read_text()
    comments = (DEPLOY / "kubernetes" / "values.yaml").read_text()
    chart = re.search(r"--version (\S+)", comments)
    assert chart is not None
    assert f"\ndagster=={chart[1]}\n" in pinned
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == image_tag(values)
    [deployment] = values["dagster-user-deployments"]["deployments"]
    environment = {variable["name"]: variable["value"] for variable in deployment["env"]}
    settings = environment["TOURNAMENT_EXECUTOR_CONFIG"].removeprefix("/opt/tournament/")
    environment["TOURNAMENT_EXECUTOR_CONFIG"] = str(ROOT / settings)
    assert build_executor(environment).name == "k8s"
    launcher = process_config(
        resolve_to_config_type(K8sRunLauncher.config_type()),  # type: ignore[no-untyped-call]
        {
            "service_account_name": "dagster",
            "job_image": f"{deployment['image']['repository']}:{deployment['image']['tag']}",
            "instance_config_map": "dagster-instance",
            "dagster_home": "/opt/dagster/dagster_home",
            "image_pull_policy": deployment["image"]["pullPolicy"],
            "env_secrets": [secret["name"] for secret in deployment["envSecrets"]],
            "volume_mounts": deployment["volumeMounts"],
            "volumes": deployment["volumes"],
        },
    )
    assert launcher.success, launcher.errors


def image_tag(values: Mapping[str, Any]) -> str:
    [deployment] = values["dagster-user-deployments"]["deployments"]
    return str(deployment["image"]["tag"])
