"""Everything that a run writes down is in PostgreSQL: Dagster's runs and events, and the ledger."""

import shutil
from pathlib import Path

import pytest

from tests.ledger.builders import select
from tests.machines.databases import dagster_database
from tests.machines.workers import DEPLOY
from tests.postgresql import PostgresServer
from tests.projects import make_project


@pytest.mark.timeout(900)
def test_a_pilot_keeps_its_runs_and_its_ledger_in_postgresql(
    tmp_path: Path, postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project", dimensions=["factuality"])
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(DEPLOY / "postgresql" / "dagster.yaml", home)
    with postgresql.database() as dagster_url, postgresql.database() as ledger_url:
        environment = {"DAGSTER_HOME": str(home), "TOURNAMENT_LEDGER_URL": ledger_url}
        for name, value in {**environment, **dagster_database(dagster_url)}.items():
            monkeypatch.setenv(name, value)
        first = project.run_recorded(environment=environment)
        stored = project.stored_files()
        again = project.run(environment=environment)
        assert first.requests_submitted > 0
        assert (again.requests_submitted, again.responses_generated) == (0, 0)
        assert project.stored_files() == stored
        replies = select(ledger_url, "SELECT count(*) FROM judge_replies")
        assert replies == [(first.requests_submitted,)]
        statuses = select(dagster_url, "SELECT DISTINCT status FROM runs")
        assert statuses == [("SUCCESS",)]
        jobs = select(dagster_url, "SELECT pipeline_name, count(*) FROM runs GROUP BY 1 ORDER BY 1")
        assert jobs == [("small_pilot", 1)]
        materialised = select(
            dagster_url,
            "SELECT count(*) FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION' "
            'AND asset_key = \'["small", "leaderboard"]\'',
        )
        assert materialised == [(1,)]
        password = dagster_database(dagster_url)["DAGSTER_POSTGRES_PASSWORD"]
    for folder in (home, project.folder):
        for path in sorted(folder.rglob("*")):
            assert path.suffix not in (".db", ".sqlite"), path
            assert not path.is_file() or password.encode() not in path.read_bytes(), path
