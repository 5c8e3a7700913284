"""Two Celery workers run one pilot together, over PostgreSQL, Redis and a folder."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from tests.assets.paid_projects import SECRET, paid_project
from tests.machines.conftest import REDIS_PASSWORD
from tests.machines.databases import dagster_database
from tests.machines.runs import launcher, run_pilot, workers_by_asset
from tests.machines.workers import DEPLOY, celery_worker
from tests.postgresql import PostgresServer
from tournament_assets.loopback.accounts import read_accounts


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_run_one_pilot_together(
    tmp_path: Path, postgresql: PostgresServer, redis_url: str
) -> None:
    with ExitStack() as stack:
        alone = stack.enter_context(paid_project(tmp_path / "alone"))
        alone.run()
        paid = stack.enter_context(paid_project(tmp_path / "together"))
        dagster_url = stack.enter_context(postgresql.database())
        ledger_url = stack.enter_context(postgresql.database())
        home = paid.project.folder / ".dagster_home"
        home.mkdir()
        shutil.copy(DEPLOY / "celery" / "dagster.yaml", home)
        environment = {
            **paid.environment,
            **dagster_database(dagster_url),
            "TOURNAMENT_PROJECT": str(paid.project.folder),
            "TOURNAMENT_LEDGER_URL": ledger_url,
            "TOURNAMENT_EXECUTOR": "celery",
            "TOURNAMENT_CELERY_BROKER": redis_url,
        }
        exported = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in environment.items():
            exported.setenv(name, value)
        for name, queues in {"ada": ("dagster",), "bob": ("dagster", "gpu")}.items():
            log = tmp_path / f"{name}.log"
            stack.enter_context(celery_worker(name, *queues, environment=environment, log=log))
        runs = run_pilot(paid.project, stack.enter_context(launcher()))
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(home)))
        print(workers_by_asset(instance, runs))
        assert alone.project.stored_files() == paid.project.stored_files()
