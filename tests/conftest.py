import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.demo import DemoRun, copy_project, run_demo
from tests.postgresql import PostgresServer, running_server


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """Run the demo's pilot once for all tests that look at it."""
    project = copy_project(tmp_path_factory.mktemp("demo") / "project")
    return DemoRun(project=project, output=run_demo(project))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server for all tests that write to one."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let Dagster's records wait for no disk; a ledger asks for it anew, after this.

    A commit that waits takes a hundred times as long, a run has a thousand, and no test cuts power.
    """

    def connected(connection: object, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", connected)
    yield
    event.remove(Engine, "connect", connected)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep what a developer has exported out of the tests."""
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "DAGSTER_HOME",
        "TOURNAMENT_CELERY_BACKEND",
        "TOURNAMENT_CELERY_BROKER",
        "TOURNAMENT_EXECUTOR",
        "TOURNAMENT_EXECUTOR_CONFIG",
        "TOURNAMENT_LEDGER_URL",
        "TOURNAMENT_PROJECT",
        "TOURNAMENT_STORAGE",
    ):
        monkeypatch.delenv(name, raising=False)
