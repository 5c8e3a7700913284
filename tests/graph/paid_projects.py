"""Small projects that are judged through the real SDK by a loopback server with faults."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.loopback.faults.servers import FaultyServer
from tests.projects import SmallProject, make_project, recorded_responses, write_json_lines
from tests.rows import stored_rows
from tournament_assets.definitions import build_definitions, default_ledger_url
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.ledger import Ledger
from tournament_assets.project.plan import load_plan
from tournament_assets.project.project_files import prepare_dagster_home

SECRET = "sk-test-8b1f2c"
UNTIL_ENDED = 86_400.0
"""Seconds that a batch takes which a test lets end."""


@dataclass(frozen=True)
class PaidProject:
    """A project and the server that judges it."""

    project: SmallProject
    server: FaultyServer

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.project.environment,
            "ANTHROPIC_API_KEY": SECRET,
            "ANTHROPIC_BASE_URL": self.server.url,
        }

    @property
    def n_asked(self) -> int:
        """How many requests the judge was sent, in batches and directly."""
        return self.server.log.requests + self.server.log.messages

    def run(self, **options: Any) -> RunSummary:
        return self.project.run(environment=self.environment, **options)

    def tables(self, until: str | None = None, **options: Any) -> PlainRun:
        return self.project.tables(until, environment=self.environment, **options)

    def let_length_win(self) -> None:
        """Take no offence at the length of responses: the better are the longer ones here."""
        self.project.edit_config(checks={"max_length_effect": None})

    def definitions(self) -> dg.Definitions:
        plan = load_plan(self.project.config_path, self.environment)
        return build_definitions([plan], self.project.folder, self.environment)

    def ledger(self) -> closing[Ledger]:
        return closing(Ledger(default_ledger_url(self.project.folder)))

    def rows(self, name: str, dimension: str = "factuality") -> list[dict[str, Any]]:
        """The rows of a table of the pilot."""
        folder = self.project.folder / "storage" / "small" / name / dimension
        return stored_rows(name, folder / "pilot.parquet")

    def end_batches(self) -> None:
        """Let every batch the server was given end now, and every later one at once."""
        self.server.end_batches(at_once=True)

    def events(self, job: str) -> dg.ExecuteInProcessResult:
        """Run a job on the pilot's factuality, as the UI would."""
        home = prepare_dagster_home(self.project.folder, self.environment["DAGSTER_HOME"])
        with dg.DagsterInstance.from_config(str(home)) as instance:
            return (
                self.definitions()
                .resolve_job_def(job)
                .execute_in_process(
                    instance=instance,
                    partition_key=dg.MultiPartitionKey(
                        {"mode": "pilot", "dimension": "factuality"}
                    ),
                    raise_on_error=False,
                )
            )

    def make_alike(self, first: str, second: str) -> None:
        """Let two entrants say the very same."""
        rows = recorded_responses(first)
        write_json_lines(self.project.folder / f"responses_{second}.jsonl", rows)


@contextmanager
def paid_project(
    folder: Path,
    *faults: str,
    dimensions: tuple[str, ...] = ("factuality",),
    processing_seconds: float = 0,
) -> Iterator[PaidProject]:
    with (
        FaultyServer(
            folder / "server", processing_seconds=processing_seconds, faults=faults
        ) as server,
        pytest.MonkeyPatch.context() as environment,
    ):
        # Dagster is told the name of the variable, not what is in it.
        environment.setenv("ANTHROPIC_API_KEY", SECRET)
        project = make_project(folder / "project", service="anthropic", dimensions=dimensions)
        yield PaidProject(project, server)
