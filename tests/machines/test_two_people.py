"""Two people materialise the same partitions at once, each with a Dagster of their own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.graph.paid_projects import PaidProject, paid_project
from tests.loopback.faults.accounts import read_accounts
from tests.machines.workers import ROOT
from tournament_assets.graph.table import row_of
from tournament_assets.storage.tables import decode_npz, decode_parquet

DIMENSIONS = ("factuality", "calibration")


def start_run(paid: PaidProject, person: str) -> "subprocess.Popen[str]":
    """Start `tournament run` as somebody whose pools nobody else knows."""
    return subprocess.Popen(
        [
            *(sys.executable, "-c", "from tournament_assets.cli import main; main()", "run"),
            *("--config", str(paid.project.config_path), "--mode", "pilot"),
        ],
        env={
            **os.environ,
            **paid.environment,
            "PYTHONPATH": str(ROOT),
            "DAGSTER_HOME": str(paid.project.folder / f"home_of_{person}"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_every_file(storage: Path) -> int:
    """Read all there is meanwhile; a torn file would not decode."""
    read = 0
    for path in storage.rglob("*"):
        if path.suffix == ".parquet":
            name = path.relative_to(storage / "small").parts[0].removesuffix(".parquet")
            decode_parquet(row_of(name).row_type, path.read_bytes())
            read += 1
        elif path.suffix == ".npz":
            decode_npz(path.read_bytes())
            read += 1
    return read


@pytest.mark.timeout(900)
def test_two_people_who_run_the_same_pilot_at_once_pay_once_and_tear_no_file(
    tmp_path: Path,
) -> None:
    with (
        paid_project(tmp_path / "alone", dimensions=DIMENSIONS) as alone,
        paid_project(
            tmp_path / "together", dimensions=DIMENSIONS, processing_seconds=1.0
        ) as together,
    ):
        for paid in (alone, together):
            paid.project.edit_judges(
                waiting={"deadline_seconds": 240}
            )  # one may wait for the other
        alone.run()
        runs = {person: start_run(together, person) for person in ("ada", "bob")}
        reads = 0
        try:
            while any(run.poll() is None for run in runs.values()):
                reads += read_every_file(together.project.folder / "storage")
                time.sleep(0.25)
        finally:
            for run in runs.values():
                run.kill()
                output, _ = run.communicate()
                assert run.returncode == 0, output
    expected = read_accounts(tmp_path / "alone" / "server")
    accounts = read_accounts(tmp_path / "together" / "server")
    assert accounts.billed == expected.billed
    assert accounts.n_requests == expected.n_requests == len(expected.billed)
    assert accounts.n_messages == 0
    assert together.project.stored_files() == alone.project.stored_files()
    assert reads > len(alone.project.stored_files())
    assert len(list((together.project.folder / "runs").iterdir())) == 2
    assert not list(together.project.folder.rglob("*.partial"))
