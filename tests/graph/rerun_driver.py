"""Does what Dagster's daemon does with a tournament's schedule and sensors, in one process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.test_utils import create_run_for_test

from tests.graph.paid_projects import PaidProject
from tournament_assets.definitions import build_resources
from tournament_assets.graph.automation.reruns import Rerun, find_reruns
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.project.project_files import prepare_dagster_home

TICK = datetime(2026, 11, 23, 5, 0, tzinfo=UTC)
FIRST_RERUN = "small_headline_20261123T050000Z"


@dataclass
class Driver:
    """A project, the instance its runs are in, and what the daemon remembers."""

    paid: PaidProject
    instance: dg.DagsterInstance
    cursor: str | None = None
    _loaded: tuple[str, dg.Definitions] | None = None

    @property
    def definitions(self) -> dg.Definitions:
        """What the code server has loaded; it is loaded again when the config has changed."""
        config = self.paid.project.config_path.read_text()
        if self._loaded is None or self._loaded[0] != config:
            self._loaded = (config, self.paid.definitions())
        return self._loaded[1]

    @property
    def plan(self) -> TournamentPlan:
        return load_plan(self.paid.project.config_path, self.paid.environment)

    def tick_schedule(self, moment: datetime = TICK) -> tuple[str | None, list[dg.RunRequest]]:
        """Evaluate the schedule; return why it does nothing, or what it wants to run."""
        definitions = self.definitions
        context = dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=moment,
            repository_def=definitions.get_repository_def(),
        )
        schedule = definitions.resolve_schedule_def("small_headline_schedule")
        data = schedule.evaluate_tick(context)
        return data.skip_message, list(data.run_requests or [])

    def tick_sensor(self) -> tuple[str | None, list[dg.RunRequest]]:
        """Evaluate the sensor; return why it does nothing, or what it wants to run."""
        definitions = self.definitions
        resources = build_resources(self.paid.project.folder, self.paid.environment)
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            definitions=definitions,
            resources={each: resources[each] for each in ("ledger", "judge")},
        )
        data = definitions.resolve_sensor_def("tournaments").evaluate_tick(context)
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor = data.cursor
        return data.skip_message, list(data.run_requests or [])

    def run(self, request: dg.RunRequest) -> bool:
        """Execute a requested run; return whether it succeeded."""
        assert request.job_name is not None
        definitions = self.definitions
        job = definitions.resolve_job_def(request.job_name)
        assets = list(request.asset_selection or [])
        return job.execute_in_process(
            instance=self.instance,
            partition_key=request.partition_key,
            run_config=request.run_config,
            tags=dict(request.tags),
            asset_selection=assets or None,
            raise_on_error=False,
        ).success

    def note(self, request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
        """Note a run as one that has come so far."""
        tags = {**request.tags, "dagster/partition": str(request.partition_key)}
        create_run_for_test(self.instance, str(request.job_name), status=status, tags=tags)

    def rerun(self, moment: datetime = TICK) -> bool:
        """Run what the schedule wants; return whether it succeeded."""
        reason, (request,) = self.tick_schedule(moment)
        assert reason is None
        return self.run(request)

    def reruns(self) -> list[Rerun]:
        return find_reruns(self.instance, self.plan)

    def execute_again(self, run: dg.DagsterRun) -> bool:
        """Execute a run again with its tags, as the UI does."""
        definitions = self.definitions
        return (
            definitions.resolve_job_def(run.job_name)
            .execute_in_process(
                instance=self.instance,
                run_config=run.run_config,
                tags={**run.tags, "dagster/parent_run_id": run.run_id},
                partition_key=run.tags.get("dagster/partition"),
                raise_on_error=False,
            )
            .success
        )

    def manifests(self) -> list[dict[str, Any]]:
        folder = self.paid.project.folder / "runs"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*/manifest.json"))]


@contextmanager
def driver(paid: PaidProject, *, anchor_pairs: int = 0) -> Iterator[Driver]:
    """Configure a headline schedule and stand in for the daemon."""
    paid.project.merge_config(judging={"tests": {"anchor_pairs": anchor_pairs}})
    schedule = {"cron": "0 6 * * 1", "time_zone": "Europe/Berlin"}
    paid.project.merge_config(modes={"headline": {"schedule": schedule}})
    home: Path = prepare_dagster_home(paid.project.folder, paid.environment["DAGSTER_HOME"])
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield Driver(paid, instance)
