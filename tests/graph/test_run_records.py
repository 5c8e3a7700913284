import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import Engine, event

from tournament_assets.graph.run_records import KeptOutput, open_instance


@dg.asset
def spoken() -> int:
    print("heard on the terminal")  # noqa: T201
    return 1


SPEAKING = dg.Definitions([spoken], jobs=[dg.define_asset_job("speak", [spoken])]).resolve_job_def(
    "speak"
)


def run_twice(instance: dg.DagsterInstance) -> list[str]:
    quietly = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return [
        SPEAKING.execute_in_process(instance=instance, run_config=quietly).run_id for _ in range(2)
    ]


def kinds_of_events(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> list[list[str]]:
    return [
        [str(each.dagster_event_type) for each in instance.all_logs(run_id) if each.dagster_event]
        for run_id in run_ids
    ]


@contextmanager
def opened_files() -> Iterator[Counter[str]]:
    names: Counter[str] = Counter()

    def connected(connection: sqlite3.Connection, _: object) -> None:
        (row,) = connection.execute("PRAGMA database_list").fetchall()
        names[Path(row[2]).name] += 1

    event.listen(Engine, "connect", connected)
    yield names
    event.remove(Engine, "connect", connected)


def test_dagster_reads_what_is_recorded_as_if_it_had_recorded_it(tmp_path: Path) -> None:
    with open_instance(tmp_path) as kept:
        run_ids = run_twice(kept)
    (tmp_path / "plain").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "plain")) as plain:
        expected = kinds_of_events(plain, run_twice(plain))
    with dg.DagsterInstance.from_config(str(tmp_path)) as read:
        assert [run.status.value for run in read.get_runs()] == ["SUCCESS", "SUCCESS"]
        assert kinds_of_events(read, run_ids) == expected
        assert read.get_latest_materialization_event(spoken.key) is not None


def test_a_file_of_records_is_opened_once(tmp_path: Path) -> None:
    with open_instance(tmp_path) as instance, opened_files() as opened:
        run_ids = run_twice(instance)
    assert opened["runs.db"] == opened[f"{run_ids[1]}.db"] == 1
    # Dagster itself asks it for its tables.
    assert opened["index.db"] <= 1 + len(run_ids)


def test_what_a_step_prints_is_kept_and_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_instance(tmp_path) as instance:
        run_twice(instance)
    kept = [path.read_text() for path in (tmp_path / "storage").rglob("*.out")]
    assert kept == ["heard on the terminal\n"] * 2
    assert capfd.readouterr().out == "heard on the terminal\n" * 2


def test_many_first_runs_at_once_share_a_fresh_home(tmp_path: Path) -> None:
    def count(_: int) -> int:
        with open_instance(tmp_path) as instance:
            return len(instance.get_runs())

    with ThreadPoolExecutor(6) as threads:
        assert [*threads.map(count, range(6))] == [0] * 6


def test_a_home_that_names_its_own_storage_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(
        "event_log_storage:\n"
        "  module: dagster._core.storage.event_log\n"
        "  class: ConsolidatedSqliteEventLogStorage\n"
        f"  config: {{base_dir: {tmp_path / 'events'}}}\n"
        "compute_logs:\n"
        "  module: dagster._core.storage.noop_compute_log_manager\n"
        "  class: NoOpComputeLogManager\n"
    )
    with open_instance(tmp_path) as instance:
        assert type(instance.event_log_storage).__name__ == "ConsolidatedSqliteEventLogStorage"
        assert not isinstance(instance.compute_log_manager, KeptOutput)
