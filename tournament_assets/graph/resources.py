"""Dagster's resources, IO managers and executors for the steps of a run.

The judging service, the generation device and the ledger are resources. An asset's file is named
after the asset and its partition and is written atomically; a stream (`AssetRow.stored_as`) is
passed on as a file, and never loaded as a whole.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import upath
from pydantic import Field

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.yaml_files import read_yaml
from tournament_assets.graph.outputs import read_stored, write_stored
from tournament_assets.graph.table import row_of
from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.tournament.judges import Judge
from tournament_assets.verdicts.judge_requests import open_ledger

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


class JudgeResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Connects to the judging service that a tournament names.

    Attributes:
        loopback_folder: Where the loopback judge keeps its batches.
        variables: Environment variables with the keys of services, and addresses that override
            those of a config.
    """

    loopback_folder: str
    variables: dict[str, str]

    def service(self, config: Judge) -> AbstractContextManager[AsksDirectly]:
        """Connect to the service; the loopback judge is started, and stopped afterwards."""
        return JudgeConnection(Path(self.loopback_folder), self.variables).service(config)


class GeneratorResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Generates responses on the GPU if there is one, else on the CPU; satisfies `GeneratorAccess`.

    Settings that are left out follow the tournament's config and the device.

    Attributes:
        device: `auto`, or a torch device such as `cuda:1` or `cpu`.
        dtype: The weights' precision.
        batch_size: Prompts decoded together.
        memory_share: The share of the free memory that a batch may fill.
    """

    device: str = Field(
        default="auto",
        description="auto takes a CUDA card that no other process has leased, else the CPU; or "
        "cpu, cuda, or one card such as cuda:1.",
    )
    dtype: str = Field(
        default="auto",
        description="auto is bfloat16 on CUDA (float16 where the card has none) and float32 on the "
        "CPU; or bfloat16, float16, float32. Of entrants that name no dtype of their own; it is in "
        "every response's diagnostics, and one entrant's responses all have the same.",
    )
    batch_size: int | None = Field(
        default=None,
        description="Prompts decoded together; by default generation.batch_size of the config.",
    )
    memory_share: float = Field(
        default=0.7,
        description="Of the device's free memory that a batch may fill, where the config says "
        "batch_size: auto.",
    )


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """The database of paid work.

    Attributes:
        url: SQLAlchemy URL of a SQLite or PostgreSQL database.
    """

    url: str

    def open(self) -> "AbstractContextManager[Ledger]":
        """Open the ledger and close it again."""
        return open_ledger(self.url)


class _Files(dg.UPathIOManager):
    def dump_to_path(self, context: dg.OutputContext, obj: Any, path: upath.UPath) -> None:
        write_stored(row_of(context.asset_key.path[-1]), obj, path)

    def load_from_path(self, context: dg.InputContext, path: upath.UPath) -> Any:
        return read_stored(row_of(context.asset_key.path[-1]), path)


class _ParquetFiles(_Files):
    extension = ".parquet"


class _NpzFiles(_Files):
    extension = ".npz"


class ParquetIOManager(dg.ConfigurableIOManagerFactory[_ParquetFiles]):
    """Stores tables as Parquet files with the schema declared for the asset.

    Attributes:
        base_path: A folder, or a URL such as `s3://bucket/folder`.
    """

    base_path: str

    def create_io_manager(self, context: dg.InitResourceContext) -> _ParquetFiles:  # noqa: ARG002
        """Return the manager that Dagster calls."""
        return _ParquetFiles(base_path=upath.UPath(self.base_path))


class NpzIOManager(dg.ConfigurableIOManagerFactory[_NpzFiles]):
    """Stores rating traces as npz archives.

    Attributes:
        base_path: A folder, or a URL such as `s3://bucket/folder`.
    """

    base_path: str

    def create_io_manager(self, context: dg.InitResourceContext) -> _NpzFiles:  # noqa: ARG002
        """Return the manager that Dagster calls."""
        return _NpzFiles(base_path=upath.UPath(self.base_path))


EXECUTOR = "TOURNAMENT_EXECUTOR"
EXECUTOR_CONFIG = "TOURNAMENT_EXECUTOR_CONFIG"
CELERY_BROKER = "TOURNAMENT_CELERY_BROKER"
CELERY_BACKEND = "TOURNAMENT_CELERY_BACKEND"

# Redis redelivers a message that is unacknowledged for an hour to a second worker. While a worker
# runs a step, it holds the next one unacknowledged; a step that waits for a judge takes a day.
_REDELIVERY_SECONDS = 7 * 24 * 3600


def build_executor(environment: Mapping[str, str]) -> dg.ExecutorDefinition:
    """Return the executor that the environment asks for.

    Args:
        environment: `TOURNAMENT_EXECUTOR` names it, by default `in_process`;
            `TOURNAMENT_EXECUTOR_CONFIG` is a YAML file with its settings.
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
    config = {**fixed, **settings}
    if path:
        _check_settings(executor, config, path)
    return executor.configured(config, name=executor.name) if config else executor


_UNSET = "FAILED_POST_PROCESSING"
"""How Dagster marks a setting whose environment variable is not set."""
_Chosen = tuple[dg.ExecutorDefinition, dict[str, Any]]


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
    "in_process": lambda _: (dg.in_process_executor, {}),
    # A process forked from a server that has already loaded the definitions starts at once.
    "multiprocess": lambda _: (dg.multiprocess_executor, {"start_method": {"forkserver": {}}}),
    "celery": _celery,
    "kubernetes": _kubernetes,
}


def _require_extra(extra: str, module: str) -> None:
    if find_spec(module) is None:
        raise InputError(
            f"{EXECUTOR} is {extra!r} and the module {module} is not installed; expected it "
            f"wherever runs and steps start; run: pip install 'tournament-assets[{extra}]'"
        )


def _check_settings(executor: dg.ExecutorDefinition, settings: dict[str, Any], path: str) -> None:
    """Refuse settings that an executor does not have, which would otherwise fail in a run."""

    @dg.job(executor_def=executor)
    def probe() -> None:
        """Hold the executor."""

    try:
        dg.validate_run_config(probe, {"execution": {"config": settings}})
    except dg.DagsterInvalidConfigError as error:
        # A variable may be set only where runs start.
        problems = [each.message for each in error.errors if each.reason.name != _UNSET]
        if problems:
            raise InputError(f"{path}: {each}" for each in problems) from error
