"""Runs in this process: connections that are kept, and what a step prints."""

import gc
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psutil
import pytest
import sqlalchemy as sa
from alembic.script import Script, ScriptDirectory

from tournament_assets.graph import local_runs
from tournament_assets.graph.local_runs import kept_connections, rare_collections

PRINTED = "below Python\n" + "".join(f"line {number} of a step\n" for number in range(20_000))

PROGRAM = """
import json, os, sys
from pathlib import Path
import dagster as dg
import psutil
from tournament_assets.graph.local_runs import output_repeated_by_threads

@dg.asset
def talkative():
    os.write(1, b"below Python\\n")
    for number in range(20_000):
        print(f"line {number} of a step")
    print("a warning", file=sys.stderr)
    yield dg.MaterializeResult(metadata={"children": len(psutil.Process().children())})

home = Path(sys.argv[1])
with dg.DagsterInstance.from_config(str(home)) as instance, output_repeated_by_threads():
    result = dg.materialize([talkative], instance=instance)
    (captured,) = [
        event.logs_captured_data
        for event in result.all_events
        if event.event_type is dg.DagsterEventType.LOGS_CAPTURED
    ]
    log_key = [result.run_id, "compute_logs", captured.file_key]
    data = instance.compute_log_manager.get_log_data(log_key)
    (made,) = result.asset_materializations_for_node("talkative")
found = {
    "out": data.stdout.decode(),
    "err": data.stderr.decode(),
    "children": made.metadata["children"].value,
}
(home / "found.json").write_text(json.dumps(found))
"""


@dg.asset
def number() -> int:
    return 1


def run(instance: dg.DagsterInstance) -> str:
    return dg.materialize([number], instance=instance).run_id


def kinds_of(home: Path, run_id: str) -> list[str | None]:
    """Read a run's events as another process would."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return [each.dagster_event_type for each in instance.all_logs(run_id)]


def open_databases(home: Path) -> set[str]:
    return {
        Path(each.path).name
        for each in psutil.Process().open_files()
        if each.path.startswith(str(home)) and each.path.endswith(".db")
    }


def test_what_is_written_over_kept_connections_is_what_others_read_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The runs, the events of all runs, and those of one.
    monkeypatch.setattr(local_runs, "_KEPT_DATABASES", 3)
    (tmp_path / "dagster.yaml").touch()
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        expected = kinds_of(tmp_path, run(instance))
        assert expected[-1] is dg.DagsterEventType.RUN_SUCCESS
        opened: list[object] = []
        sa.event.listen(sa.Engine, "connect", lambda *given: opened.append(given))
        with kept_connections(instance):
            run_ids = [run(instance) for _ in range(3)]
            n_opened = len(opened)
            assert all(kinds_of(tmp_path, run_id) == expected for run_id in run_ids)
            record = instance.get_latest_materialization_event(number.key)
            assert record is not None
            assert record.run_id == run_ids[-1]
            # A run has a database of its own, and most are done with.
            assert len(open_databases(tmp_path)) <= 3
        assert not open_databases(tmp_path)
        assert kinds_of(tmp_path, run(instance)) == expected
    # Dagster makes a new run's database over connections of its own.
    assert n_opened < 3 * len(expected)


def shape_of(home: Path, run_id: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what a run's database is apart from the run's events."""
    path = home / "history" / "runs" / f"{run_id}.db"
    with closing(sqlite3.connect(path)) as connection:
        return {
            asked: connection.execute(asked).fetchall()
            for asked in (
                "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name",
                "SELECT version_num FROM alembic_version",
                "PRAGMA journal_mode",
            )
        }


def test_migrations_are_read_once_and_leave_the_databases_as_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dagster.yaml").touch()
    read: list[ScriptDirectory] = []
    load = ScriptDirectory._load_revisions

    def count(directory: ScriptDirectory) -> Iterator[Script]:
        read.append(directory)
        return load(directory)

    monkeypatch.setattr(ScriptDirectory, "_load_revisions", count)
    before = vars(ScriptDirectory)["from_config"]
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        expected = shape_of(tmp_path, run(instance))
        read.clear()
        with kept_connections(instance):
            run_ids = [run(instance) for _ in range(3)]
        assert len(read) == 1
        assert vars(ScriptDirectory)["from_config"] is before
        assert [shape_of(tmp_path, run_id) for run_id in run_ids] == [expected] * 3
    tables, versions, _ = expected.values()
    assert "event_logs" in {name for _, name, *_ in tables}
    assert len(versions) == 1


def test_an_event_log_that_is_not_in_sqlite_is_left_alone() -> None:
    with dg.DagsterInstance.ephemeral() as instance, kept_connections(instance):
        assert run(instance) in {each.run_id for each in instance.get_runs()}


@dataclass(frozen=True)
class Shown:
    """What the UI shows of a step's output, and how many processes its process had started."""

    out: str
    err: str
    children: int


def run_step(home: Path, stdout: int) -> tuple[Shown, subprocess.CompletedProcess[bytes]]:
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(home)]
    ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False)
    return Shown(**json.loads((home / "found.json").read_text())), ended


def test_what_a_step_prints_stands_in_the_ui_and_on_the_terminal_without_another_process(
    tmp_path: Path,
) -> None:
    shown, ended = run_step(tmp_path, subprocess.PIPE)
    assert shown.out == PRINTED
    assert ended.stdout.decode() == PRINTED
    assert "a warning\n" in shown.err
    assert ended.stderr.count(b"a warning\n") == 1
    assert shown.children == 0


def test_output_goes_on_to_the_file_where_nobody_listens_any_more(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        shown, ended = run_step(tmp_path, writer)
    finally:
        os.close(writer)
    assert shown.out == PRINTED
    assert b"Traceback" not in ended.stderr


def test_cycles_are_collected_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
