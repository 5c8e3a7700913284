"""What runs the steps of a run: one process, several, Celery workers or Kubernetes pods."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dagster as dg

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.yaml_files import read_yaml

EXECUTOR = "TOURNAMENT_EXECUTOR"
EXECUTOR_CONFIG = "TOURNAMENT_EXECUTOR_CONFIG"
CELERY_BROKER = "TOURNAMENT_CELERY_BROKER"
CELERY_BACKEND = "TOURNAMENT_CELERY_BACKEND"

# Redis hands a message that nobody has confirmed for an hour to a second worker, and a worker
# holds the next step unconfirmed while it runs one; a step that waits for a judge takes a day.
_REDELIVERY_SECONDS = 7 * 24 * 3600

GPU_STEP_TAGS: Mapping[str, Any] = {
    "dagster-celery/queue": "gpu",
    "dagster-k8s/config": {
        "container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
    },
}
"""Sends a step to the Celery workers that listen on `gpu`, or gives its pod a GPU.

Other executors do not look at them.
"""


def build_executor(environment: Mapping[str, str]) -> dg.ExecutorDefinition:
    """Return the executor that the environment asks for.

    Args:
        environment: `TOURNAMENT_EXECUTOR` names it, `in_process` unless given;
            `TOURNAMENT_EXECUTOR_CONFIG` is a YAML file with its settings.

    Raises:
        InputError: If the name is unknown, an extra is not installed, or the settings do not fit.
    """
    name = environment.get(EXECUTOR) or "in_process"
    if name not in _EXECUTORS:
        raise InputError(
            f"{EXECUTOR} is {name!r}; expected one of {', '.join(_EXECUTORS)}; "
            "unset it to run every step in the process of its run"
        )
    path = environment.get(EXECUTOR_CONFIG)
    what = f"the executor's settings ({EXECUTOR_CONFIG})"
    settings = read_yaml(Path(path), what=what).values if path else {}
    executor, fixed = _EXECUTORS[name](environment)
    return _configure(executor, {**fixed, **settings}, environment.get(EXECUTOR_CONFIG))


_Chosen = tuple[dg.ExecutorDefinition, dict[str, Any]]


def _in_process(environment: Mapping[str, str]) -> _Chosen:  # noqa: ARG001
    return dg.in_process_executor, {}


def _multiprocess(environment: Mapping[str, str]) -> _Chosen:  # noqa: ARG001
    # A fork of a server that has loaded the definitions already starts within a moment.
    return dg.multiprocess_executor, {"start_method": {"forkserver": {}}}


def _celery(environment: Mapping[str, str]) -> _Chosen:
    _require_extra("celery", "dagster_celery")
    from dagster_celery import celery_executor

    broker = environment.get(CELERY_BROKER)
    if not broker:
        raise InputError(
            f"{EXECUTOR} is 'celery' and {CELERY_BROKER} is not set; expected the URL of the "
            "broker that the workers listen to, such as redis://localhost:6379/0; export it here "
            "and where the workers run"
        )
    backend: Any = "rpc://"
    if environment.get(CELERY_BACKEND):
        backend = {"env": CELERY_BACKEND}
    elif broker.startswith(("redis://", "rediss://")):
        backend = {"env": CELERY_BROKER}
    return celery_executor, {
        # By name: the URLs may hold passwords.
        "broker": {"env": CELERY_BROKER},
        "backend": backend,
        "config_source": {"broker_transport_options": {"visibility_timeout": _REDELIVERY_SECONDS}},
    }


def _kubernetes(environment: Mapping[str, str]) -> _Chosen:  # noqa: ARG001
    _require_extra("kubernetes", "dagster_k8s")
    from dagster_k8s import k8s_job_executor

    return k8s_job_executor, {}


_EXECUTORS: Mapping[str, Callable[[Mapping[str, str]], _Chosen]] = {
    "in_process": _in_process,
    "multiprocess": _multiprocess,
    "celery": _celery,
    "kubernetes": _kubernetes,
}


def _require_extra(extra: str, module: str) -> None:
    if find_spec(module) is None:
        raise InputError(
            f"{EXECUTOR} is {extra!r} and the module {module} is not installed; expected it "
            f"wherever runs and steps start; run: pip install 'tournament-assets[{extra}]'"
        )


def _configure(
    executor: dg.ExecutorDefinition, config: dict[str, Any], path: str | None
) -> dg.ExecutorDefinition:
    from dagster._config import validate_config  # a run would find the mistake, but only later

    found = validate_config(executor.config_schema.config_type, config)
    if not found.success:
        problems = [error.message for error in found.errors or ()]
        raise InputError([f"{path or executor.name}: {problem}" for problem in problems])
    return executor.configured(config, name=executor.name) if config else executor
