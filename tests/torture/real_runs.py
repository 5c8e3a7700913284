"""Runs of the command line that are killed, with everything that belongs to them."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ledger.builders import select
from tests.loopback.faults.accounts import Accounts, read_accounts
from tests.projects import SmallProject, make_project
from tests.torture.forking import ROOT, Nursery
from tests.torture.judges import Judge
from tournament_assets.definitions import default_ledger_url

RUN = ("-c", "from tournament_assets.cli import main; main()", "run")
_PROCESSING_SECONDS = 0.5
_FAULTS = ("no_verdict:2", "row_overloaded_error:3")
_SECONDS = 400.0


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run leaves that nobody kills.

    Attributes:
        stored: Every stored file.
        billed: How often each question is billed.
    """

    stored: Mapping[str, bytes]
    billed: Mapping[str, int]


class RealProject:
    """A project, the judge that its runs ask, and the runs.

    Args:
        folder: An empty folder.
        nursery: Who runs the judge.

    Attributes:
        judge: The judge.
    """

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self.judge = Judge(nursery, folder, processing_seconds=_PROCESSING_SECONDS, faults=_FAULTS)
        self._log = folder / "run.log"
        self._project = make_project(
            folder / "project", service="anthropic", dimensions=("factuality",)
        )
        self._project.edit_judges(waiting={"adopt_grace_seconds": 2, "deadline_seconds": 120})
        self._began: list[subprocess.Popen[bytes]] = []

    @property
    def project(self) -> SmallProject:
        return self._project

    @property
    def accounts(self) -> Accounts:
        """What the judge accepted."""
        return read_accounts(self.judge.directory)

    @property
    def said(self) -> str:
        """What the runs have printed."""
        return self._log.read_text()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start a run of the command line in a session of its own."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *self._run_command()],
                cwd=self._project.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._began.append(process)
        return process

    def finish(self) -> list[str]:
        """Run again until the end; return what is wrong with that."""
        process = self.start()
        status = process.wait(_SECONDS)
        if status:
            return [f"the next run ended with {status}: {self.said[-2000:]}"]
        return []

    def wait_for_batch(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the judge has accepted a batch."""
        deadline = time.monotonic() + _SECONDS
        while not any(self.judge.directory.glob("msgbatch_*.jsonl")):
            assert process.poll() is None, f"the run ended before it asked: {self.said}"
            assert time.monotonic() < deadline, "the run asked nothing"
            time.sleep(0.005)

    def stop(self) -> None:
        """Kill everything that is left."""
        for process in self._began:
            kill(process)
        self.judge.kill()

    def compare(
        self, reference: Reference, *, may_differ: Sequence[str] = ()
    ) -> tuple[int, int, int, list[str]]:
        """Hold what there is against what an unkilled run leaves.

        Args:
            reference: What that is.
            may_differ: Assets that hold what something cost, if that may be something else.

        Returns:
            Tables of verdicts that differ, batches submitted twice, replies paid for twice, and
            what else is wrong.
        """
        stored = self._project.stored_files()
        problems = [
            f"{name} is not what an unkilled run leaves"
            for name in sorted(reference.stored.keys() | stored.keys())
            if reference.stored.get(name) != stored.get(name)
            and not any(f"/{asset}/" in name for asset in may_differ)
        ]
        lost = sum("judge_verdicts/" in problem for problem in problems)
        url = default_ledger_url(self._project.folder)
        harvested = {
            batch_id
            for (batch_id,) in select(
                url, "SELECT batch_id FROM judge_batches WHERE state = 'harvested'"
            )
        }
        if select(url, "SELECT request_key FROM judge_paid_twice"):
            problems.append("the ledger itself says that replies were paid twice")
        accounts = self.accounts
        twice = sum(
            max(0, times - reference.billed.get(question, 0))
            for question, times in accounts.billed.items()
        )
        if accounts.billed != reference.billed and not twice:
            problems.append("less is billed than in an unkilled run")
        in_vain = sum(batch.batch_id not in harvested for batch in accounts.batches)
        return lost, in_vain, twice, problems

    def _run_command(self) -> tuple[str, ...]:
        return (*RUN, "--config", str(self._project.config_path), "--mode", "pilot")

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ANTHROPIC_", "DAGSTER_", "TOURNAMENT_"))
        }
        return {
            **inherited,
            **self._project.environment,
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": self.judge.url,
            "PYTHONPATH": str(ROOT),
            "TOURNAMENT_DEVICE": "cpu",
            "TOURNAMENT_PROJECT": str(self._project.folder),
        }


@contextmanager
def real_project(nursery: Nursery) -> Iterator[RealProject]:
    """Make a project; nothing of it is left afterwards, no process either."""
    with tempfile.TemporaryDirectory(prefix="tournament-torture-") as folder:
        project = RealProject(Path(folder), nursery)
        try:
            yield project
        finally:
            project.stop()


def run_unkilled(nursery: Nursery) -> Reference:
    """Let a run come to its end."""
    with real_project(nursery) as project:
        problems = project.finish()
        assert not problems, problems
        return Reference(project.project.stored_files(), project.accounts.billed)


def kill(process: "subprocess.Popen[bytes]") -> bool:
    """Kill a process and all that it has started; False if it had ended."""
    is_alive = process.poll() is None
    if is_alive:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    while session := _find_session(process.pid):
        for left in session:
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        time.sleep(0.01)
    return is_alive


def _find_session(leader: int) -> list[int]:
    """Return the living processes of a session; they may have outlived the one that began it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    found.append(int(entry.name))
    return found
