import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from dagster._utils.interrupts import capture_interrupts

from tests.projects import SmallProject, make_project
from tests.responses.builders import wait_until
from tournament_assets.graph.local_runs import noticed_interrupts


def patient_project(folder: Path) -> SmallProject:
    """A project whose judge takes long enough to be interrupted."""
    project = make_project(folder)
    project.edit_judges(waiting={"poll_initial_seconds": 600.0, "poll_max_seconds": 600.0})
    return project


def sent(project: SmallProject) -> int:
    """Return how many batches the judge was sent."""
    ledger = project.folder / "ledger" / "ledger.sqlite"
    if not ledger.exists():
        return 0
    with closing(sqlite3.connect(ledger)) as connection, suppress(sqlite3.OperationalError):
        return int(connection.execute("select count(batch_id) from judge_batches").fetchone()[0])
    return 0


@pytest.mark.parametrize("after", ["prompt bank and selection", "pairs to judge (calibration"])
def test_one_sentence_ends_a_run_that_is_interrupted(tmp_path: Path, after: str) -> None:
    project = patient_project(tmp_path / "project")
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tournament_assets", "run", "--mode", "pilot"),
                *("--config", str(project.config_path)),
            ],
            env={**os.environ, **project.environment},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            # Tests that a shell runs in the background ignore interrupts, and what they start does.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        try:
            wait_until(lambda: f"✓ {after}" in log.read_text() or process.poll() is not None)
            if after.startswith("pairs"):
                # The step that judges has begun, and its first wait lasts ten minutes.
                wait_until(lambda: sent(project) > 0 or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=120)
        finally:
            process.kill()
            process.wait()
    said = log.read_text()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert re.search("interrupted; what was .* run the (same )?command again", last), said


def test_an_interrupt_that_dagster_forgets_is_noticed() -> None:
    with noticed_interrupts() as was_interrupted, capture_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert was_interrupted()
    assert was_interrupted()
    with noticed_interrupts() as was_interrupted, capture_interrupts():
        pass
    assert not was_interrupted()


def test_an_interrupt_while_an_object_is_collected_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Collected:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __del__(self) -> None:
            raise self.error

    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: reported.append(one.exc_type))
    with noticed_interrupts():
        Collected(KeyboardInterrupt())
        Collected(ValueError())
    Collected(KeyboardInterrupt())
    assert reported == [ValueError, KeyboardInterrupt]


def test_an_interrupt_while_a_connection_closes_prints_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = sa.create_engine("sqlite://", poolclass=sa.NullPool)
    for error in (KeyboardInterrupt, ValueError):
        with (
            noticed_interrupts(),
            suppress(KeyboardInterrupt),
            patch.object(pool.dialect, "do_close", side_effect=error),
        ):
            pool.connect().close()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
