"""Runs of a project's jobs as Dagster's daemon starts them: with the executor they are given."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository

from tests.projects import SmallProject
from tournament_assets.graph.automation.jobs import build_stages
from tournament_assets.project.plan import load_plan


@contextmanager
def launcher(at_once: int = 2) -> Iterator[ProcessPoolExecutor]:
    """Make processes that runs are started in; they take over what is exported by then."""
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as processes:
        yield processes


def run_pilot(project: SmallProject, processes: ProcessPoolExecutor) -> list[str]:
    """Run a pilot's stages in order, the partitions of each at once, and return the runs' ids."""
    plan = load_plan(project.config_path, os.environ)
    runs: list[str] = []
    for stage in build_stages(plan):
        keys = [str(key) for key in stage.partition_keys(plan, "pilot")]
        runs.extend(
            processes.map(
                _run_job, [str(project.folder)] * len(keys), [stage.job_name] * len(keys), keys
            )
        )
    return runs


def _run_job(folder: str, job: str, key: str) -> str:
    repository = ReconstructableRepository.for_module(
        "tournament_assets.definitions", "defs", folder
    )
    with dg.DagsterInstance.get() as instance:
        result = dg.execute_job(
            repository.get_reconstructable_job(job),
            instance=instance,
            tags={"dagster/partition": key},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=True,
        )
        assert result.success
        return result.run_id


def workers_by_asset(instance: dg.DagsterInstance, runs: Sequence[str]) -> dict[str, set[str]]:
    """Tell which Celery workers executed the steps of each asset."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for record in instance.all_logs(run):
            event = record.dagster_event
            if event is None or event.step_key is None:
                continue
            metadata: Any = getattr(event.event_specific_data, "metadata", {})
            if "Celery worker" in metadata:
                worker = str(metadata["Celery worker"].value).partition("@")[0]
                found.setdefault(event.step_key.partition("__")[2], set()).add(worker)
    return found
