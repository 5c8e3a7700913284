"""One trial: a process is killed, once or more often, and the next one does what is left."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.auditing import AT_ONCE, draw_balance, find_unkept_rows
from tests.torture.databases import Databases
from tests.torture.forking import End, Nursery
from tests.torture.judges import Judge
from tests.torture.scenarios import SCENARIOS
from tests.torture.worker import REFUSED

_SECONDS = 150.0


@dataclass(frozen=True, slots=True)
class Kill:
    """When a process is killed.

    Attributes:
        boundary: At that boundary; see `boundaries`.
        seconds: So long after its start, if not at a boundary.
    """

    boundary: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """Some processes that are killed, one after the other, at the same work.

    Attributes:
        part: Which part of the test it belongs to.
        scenario: What they are at work on.
        kills: When each of them is killed.
    """

    part: str
    scenario: str
    kills: tuple[Kill, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        part: Which part of the test it belongs to.
        deaths: Where the processes died; one that came to its end before that is not among them.
        verdicts_lost: See `auditing.Balance`.
        batches_twice: See `auditing.Balance`.
        requests_twice: See `auditing.Balance`.
        direct_twice: See `auditing.Balance`.
        adopted: Batches that nobody had confirmed and that were found.
        problems: What else is wrong.
    """

    part: str
    deaths: tuple[str, ...]
    verdicts_lost: int = 0
    batches_twice: int = 0
    requests_twice: int = 0
    direct_twice: int = 0
    adopted: int = 0
    problems: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether something was lost, or paid twice that could have been paid once."""
        return bool(
            self.verdicts_lost
            or self.batches_twice
            or self.requests_twice
            or self.direct_twice > AT_ONCE * len(self.deaths)
            or self.problems
        )


@dataclass(frozen=True, slots=True)
class Measure:
    """What a process does that nobody kills.

    Attributes:
        boundaries: The boundaries that it passes.
        seconds: How long it lives.
    """

    boundaries: tuple[str, ...]
    seconds: float


def measure(scenario: str, nursery: Nursery, *, databases: Databases) -> Measure:
    """Let two processes come to their end, and check that nothing is wrong even then."""
    first, second = (_measure_once(scenario, nursery, databases) for _ in range(2))
    # A machine that was busy once need not be so when somebody is to be killed.
    return Measure(first.boundaries, min(first.seconds, second.seconds))


def _measure_once(scenario: str, nursery: Nursery, databases: Databases) -> Measure:
    with _bench(scenario, nursery, databases) as bench:
        ended = bench.live(Kill())
        assert ended.status == 0, bench.trouble()
        outcome = bench.balance("nobody is killed")
        assert not outcome.is_wrong, outcome
        assert not outcome.direct_twice, outcome
        return Measure(tuple(bench.note()["passed"]), ended.seconds)


def run_trial(trial: Trial, nursery: Nursery, *, databases: Databases) -> Outcome:
    """Kill processes and see what is left of their work."""
    with _bench(trial.scenario, nursery, databases) as bench:
        for kill in trial.kills:
            bench.kill(kill)
        bench.finish()
        return bench.balance(trial.part)


def restart_judge(
    scenario: str, seconds: float, away_seconds: float, nursery: Nursery, *, databases: Databases
) -> Outcome:
    """Kill the judge instead of the process, and start it again after a while."""
    with _bench(scenario, nursery, databases) as bench:
        bench.restart_judge(seconds, away_seconds)
        bench.finish()
        return bench.balance("judge killed")


@dataclass(frozen=True, slots=True)
class Loss:
    """What is left of a ledger whose process was killed.

    Attributes:
        kept: The share of its write-ahead log that is left; None if all of the ledger is gone.
    """

    kept: float | None


def lose_ledger(
    scenario: str,
    settling: Kill,
    loss: Loss,
    recovering: Sequence[Kill],
    nursery: Nursery,
    *,
    databases: Databases,
    recovers: bool = True,
) -> Outcome:
    """Kill a process and lose its ledger, kill those that take back its replies, and go on.

    Args:
        scenario: What the process is at work on.
        settling: When it is killed.
        loss: What is left of its ledger then.
        recovering: When those are killed that take its replies back.
        nursery: Who starts them.
        databases: Where the ledger is made.
        recovers: Whether the replies are taken back at all.
    """
    with _bench(scenario, nursery, databases) as bench:
        bench.kill(settling)
        bench.lose_ledger(loss)
        if recovers:
            for kill in (*recovering, Kill()):
                bench.recover(kill)
        bench.finish()
        return bench.balance("ledger lost")


@contextmanager
def _bench(scenario: str, nursery: Nursery, databases: Databases) -> Iterator["_Bench"]:
    with (
        tempfile.TemporaryDirectory(prefix="tournament-torture-") as folder,
        databases.make(SCENARIOS[scenario].ledger, Path(folder)) as ledger_url,
    ):
        bench = _Bench(scenario, ledger_url, Path(folder), nursery)
        try:
            yield bench
        finally:
            bench.judge.kill()


class _Bench:
    """A ledger, a judge, and processes that are at work on them."""

    def __init__(self, scenario: str, ledger_url: str, folder: Path, nursery: Nursery) -> None:
        self._scenario = SCENARIOS[scenario]
        self._ledger_url = ledger_url
        self._folder = folder
        self._nursery = nursery
        self._deaths: list[str] = []
        self._problems: list[str] = []
        self._adopted = 0
        self._n_processes = 0
        self.judge = Judge(
            nursery,
            folder,
            processing_seconds=self._scenario.processing_seconds,
            faults=self._scenario.faults,
        )

    def live(self, kill: Kill) -> End:
        """Let one process work until it is killed or through."""
        return self._wait(self._start(kill), kill_after=kill.seconds)

    def kill(self, kill: Kill) -> None:
        """Let one process be killed, unless it is through before that."""
        end = self.live(kill)
        if not end.was_killed:
            if end.status:
                self._problems.append(f"exit code {end.status} before the kill: {self.trouble()}")
            return
        if kill.seconds is not None:
            self._deaths.append("at a random time")
            return
        note = self.note()
        self._deaths.append(note["boundary"])
        self._problems += find_unkept_rows(self._ledger_url, note["rows_read"])

    def lose_ledger(self, loss: Loss) -> None:
        """Delete the ledger, or cut off what was written to it last."""
        ledger = self._folder / "ledger.sqlite"
        log = ledger.with_name(f"{ledger.name}-wal")
        ledger.with_name(f"{ledger.name}-shm").unlink(missing_ok=True)
        if loss.kept is None:
            ledger.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        elif log.exists():
            os.truncate(log, int(loss.kept * log.stat().st_size))

    def recover(self, kill: Kill) -> None:
        """Let one process take back what the ledger has forgotten, until it is killed."""
        end = self._wait(self._start(kill, role="recovery"), kill_after=kill.seconds)
        if end.was_killed:
            self._deaths.append(f"recovery, {self.note()['boundary']}")
        elif end.status:
            self._problems.append(f"the recovery ended with {end.status}: {self.trouble()}")

    def restart_judge(self, seconds: float, away_seconds: float) -> None:
        """Let one process work while the judge is killed and comes back."""
        pid = self._start(Kill())
        time.sleep(seconds)
        is_at_work = self._nursery.is_alive(pid)
        self.judge.kill()
        time.sleep(away_seconds)
        self.judge.restart()
        end = self._wait(pid)
        if is_at_work:
            self._deaths.append("the process " + ("ended" if end.status else "went on"))
        if end.status not in (0, REFUSED):
            self._problems.append(f"exit code {end.status}: {self.trouble()}")

    def finish(self) -> None:
        """Let a process come to its end."""
        end = self.live(Kill())
        if end.status:
            self._problems.append(f"the next process ended with {end.status}: {self.trouble()}")

    def balance(self, part: str) -> Outcome:
        """Kill the judge and look at what it wrote down."""
        self.judge.kill()
        balance = draw_balance(
            self._scenario, ledger_url=self._ledger_url, judge_directory=self.judge.directory
        )
        return Outcome(
            part=part,
            deaths=tuple(self._deaths),
            verdicts_lost=balance.verdicts_lost,
            batches_twice=balance.batches_twice,
            requests_twice=balance.requests_twice,
            direct_twice=balance.direct_twice,
            adopted=self._adopted,
            problems=(*self._problems, *balance.problems),
        )

    def note(self) -> dict[str, Any]:
        """What the last process wrote down about itself."""
        note: dict[str, Any] = json.loads((self._folder / "note.json").read_text())
        return note

    def trouble(self) -> str:
        """What is known about the end of the last process."""
        note = self._folder / "note.json"
        log = self._folder / "worker.log"
        return "\n".join(path.read_text()[-1500:] for path in (note, log) if path.exists())

    def _wait(self, pid: int, *, kill_after: float | None = None) -> End:
        end = self._nursery.wait(pid, seconds=_SECONDS, kill_after=kill_after)
        if not end.status:
            self._adopted += self.note()["adopted"]
        return end

    def _start(self, kill: Kill, *, role: str = "worker") -> int:
        (self._folder / "note.json").unlink(missing_ok=True)
        self._n_processes += 1
        return self._nursery.start(
            role,
            self._folder / "worker.log",
            scenario=self._scenario.name,
            ledger_url=self._ledger_url,
            judge_url=self.judge.url,
            number=self._n_processes,
            dies_at=kill.boundary,
            note=str(self._folder / "note.json"),
        )
