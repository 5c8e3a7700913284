"""Two Celery workers run one pilot together, over PostgreSQL, Redis and a folder."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
import redis
import yaml

from tests.graph.paid_projects import SECRET, PaidProject, paid_project
from tests.loopback.faults.accounts import read_accounts
from tests.machines.conftest import REDIS_PASSWORD
from tests.machines.databases import dagster_database
from tests.machines.runs import launcher, run_pilot, workers_by_asset
from tests.machines.workers import DEPLOY, celery_worker
from tests.postgresql import PostgresServer
from tests.projects import SmallProject

QUEUES = {"ada": ("dagster",), "bob": ("dagster", "gpu")}


@contextmanager
def project_with_weights(folder: Path) -> Iterator[PaidProject]:
    """Make a project of which one entrant is generated, and its judge."""
    with paid_project(folder) as paid:
        config = yaml.safe_load(paid.project.config_path.read_text())
        tiny = {
            "entrant_id": "tiny",
            "loader": "vanilla_hf",
            "weights": {"builtin": "tiny_olmo2"},
            "max_new_tokens": 8,
        }
        paid.project.edit_config(entrants=[*config["entrants"][:2], tiny])
        yield paid


def but_for_times(project: SmallProject) -> dict[str, object]:
    """Read what a run stores, but for how long its responses took: that is measured."""
    stored: dict[str, object] = dict(project.stored_files())
    responses = [name for name in stored if "/entrant_responses/" in name]
    assert responses
    for name in responses:
        rows = pq.read_table(project.folder / "storage" / name).to_pylist()
        for row in rows:
            row["diagnostics"] = json.loads(row["diagnostics"])
            assert row["diagnostics"].pop("seconds", 0) >= 0
        stored[name] = rows
    return stored


@pytest.mark.timeout(900)
def test_two_workers_run_one_pilot_together(
    tmp_path: Path, postgresql: PostgresServer, redis_url: str
) -> None:
    with ExitStack() as stack:
        alone = stack.enter_context(project_with_weights(tmp_path / "alone"))
        alone.run()
        paid = stack.enter_context(project_with_weights(tmp_path / "together"))
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
        with ExitStack() as workers:
            for name, queues in QUEUES.items():
                log = tmp_path / f"{name}.log"
                workers.enter_context(
                    celery_worker(name, *queues, environment=environment, log=log)
                )
            runs = run_pilot(paid.project, workers.enter_context(launcher()))
        with dg.DagsterInstance.from_config(str(home)) as instance:
            workers_of = workers_by_asset(instance, runs)
        results = redis.Redis.from_url(redis_url)
        written = [results.get(key) for key in results.keys("celery-task-meta-*")]
        results.close()
    assert workers_of["entrant_responses"] == {"bob"}
    assert set().union(*workers_of.values()) == {"ada", "bob"}
    assert len(workers_of) >= 16
    assert but_for_times(alone.project) == but_for_times(paid.project)
    expected = read_accounts(tmp_path / "alone" / "server")
    accounts = read_accounts(tmp_path / "together" / "server")
    assert accounts.billed == expected.billed
    assert accounts.n_requests == len(accounts.billed)
    database_password = dagster_database(dagster_url)["DAGSTER_POSTGRES_PASSWORD"]
    for secret in (database_password, REDIS_PASSWORD, SECRET):
        assert written
        assert not any(secret.encode() in value for value in written if isinstance(value, bytes))
        for path in (*home.rglob("*"), *tmp_path.glob("*.log")):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
