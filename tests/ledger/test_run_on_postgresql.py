"""A tournament whose paid work is kept in PostgreSQL, as a user sets it up."""

from pathlib import Path

import pytest

from tests.postgresql import PostgresServer
from tests.projects import make_project

from .builders import select


@pytest.mark.slow
def test_a_tournament_runs_on_postgresql_and_a_second_run_asks_nothing(
    tmp_path: Path, postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project", dimensions=["factuality"])
    with postgresql.database() as url:
        monkeypatch.setenv("TOURNAMENT_LEDGER_URL", url)
        environment = {"TOURNAMENT_LEDGER_URL": url}
        first = project.run(environment=environment)
        again = project.run(environment=environment)
        assert first.requests_submitted > 0
        assert again.requests_submitted == 0
        assert again.responses_generated == 0
        assert first.leaderboard.equals(again.leaderboard)
        assert select(url, "SELECT count(*) FROM judge_replies") == [(first.requests_submitted,)]
        assert select(url, "SELECT DISTINCT state FROM judge_batches") == [("harvested",)]
        assert select(url, "SELECT count(*) FROM judge_leases") == [(0,)]
    assert not list((project.folder / "ledger").glob("*.sqlite"))
    password = url.split(":")[2].split("@")[0]
    for path in sorted(project.folder.rglob("*")):
        assert not path.is_file() or password.encode() not in path.read_bytes(), path
