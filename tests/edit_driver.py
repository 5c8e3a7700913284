"""Does what Dagster's daemon does after an edit, in one process, and tells what ran."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from tests.loopback.faults.accounts import read_accounts
from tournament_assets.definitions import build_definitions, build_resources
from tournament_assets.project.plan import load_plan


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@dataclass
class EditDriver:
    """A project, the instance its runs are in, and what the daemon remembers of its sensors."""

    config_path: Path
    environment: Mapping[str, str]
    instance: dg.DagsterInstance
    skipped: str = ""
    _cursor: str | None = None

    @property
    def project(self) -> Path:
        return self.config_path.parents[1]

    def definitions(self) -> dg.Definitions:
        """What a code location holds that was loaded this moment."""
        plan = load_plan(self.config_path, self.environment)
        return build_definitions([plan], self.project, self.environment)

    def tick(self, definitions: dg.Definitions) -> list[dg.RunRequest]:
        """Evaluate the sensor; keep its events, and return what it wants to run."""
        resources = build_resources(self.project, self.environment)
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self._cursor,
            definitions=definitions,
            resources={name: resources[name] for name in ("ledger", "judge")},
        )
        data = definitions.resolve_sensor_def("tournaments").evaluate_tick(context)
        for event in data.asset_events:
            self.instance.report_runless_asset_event(event)
        self._cursor, self.skipped = data.cursor, str(data.skip_message)
        return list(data.run_requests or [])

    def settle(self) -> dict[str, list[str]]:
        """Let the sensor do what it does after an edit, until it does no more.

        Returns:
            What was materialised, by partition, in order.
        """
        definitions = self.definitions()
        # The first look sees an edit, the second that the files were left alone since.
        requests = self.tick(definitions) or self.tick(definitions)
        ran: dict[str, list[str]] = {}
        while requests:
            for request in requests:
                self._run(request, definitions, ran)
            requests = self.tick(definitions)
        return ran

    def _run(
        self, request: dg.RunRequest, definitions: dg.Definitions, ran: dict[str, list[str]]
    ) -> None:
        assert request.job_name is not None
        assets = request.asset_selection
        result = definitions.resolve_job_def(request.job_name).execute_in_process(
            instance=self.instance,
            partition_key=request.partition_key,
            run_config=request.run_config,
            tags=dict(request.tags),
            asset_selection=None if assets is None else list(assets),
            raise_on_error=False,
        )
        for event in result.get_asset_materialization_events():
            made = event.step_materialization_data.materialization
            ran.setdefault(str(made.partition), []).append(made.asset_key.path[-1])

    def requests_seen(self) -> int:
        """How many requests the loopback judge of the project has accepted."""
        accounts = read_accounts(self.project / "ledger" / "loopback_judge")
        return accounts.n_requests + accounts.n_messages


@contextmanager
def edit_driver(config_path: Path, environment: Mapping[str, str]) -> Iterator[EditDriver]:
    with dg.DagsterInstance.from_config(environment["DAGSTER_HOME"]) as instance:
        yield EditDriver(config_path, environment, instance)
