"""A ledger, a judge, and processes at work on them that are killed one after the other."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.auditing import AT_ONCE, Balance, draw_balance, find_unkept_rows
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
class Outcome:
    """What came of some kills.

    Attributes:
        deaths: Where the processes died; one that came to its end before that is not among them.
        balance: What was paid for, and what there is for it.
        adopted: Batches that nobody had confirmed and that were found.
    """

    deaths: tuple[str, ...]
    balance: Balance
    adopted: int = 0

    @property
    def is_wrong(self) -> bool:
        """Whether something was lost, or paid twice that could have been paid once."""
        balance = self.balance
        return bool(
            balance.verdicts_lost
            or balance.batches_twice
            or balance.requests_twice
            or balance.direct_twice > AT_ONCE * len(self.deaths)
            or balance.problems
        )


class Bench:
    """A ledger, a judge, and processes that are at work on them.

    Args:
        scenario: What they are at work on.
        ledger_url: An empty ledger.
        folder: An empty folder.
        nursery: Who starts them.
    """

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

    def measure(self) -> tuple[tuple[str, ...], float]:
        """Let a process come to its end; return the boundaries it passed, and its seconds."""
        ended = self.live(Kill())
        assert ended.status == 0, self.trouble()
        outcome = self.draw_balance()
        assert not outcome.is_wrong, outcome
        assert not outcome.balance.direct_twice, outcome
        return tuple(self.note()["passed"]), ended.seconds

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

    def lose_ledger(self, kept: float | None) -> None:
        """Delete the ledger, or leave a share of what was written to it last."""
        ledger = self._folder / "ledger.sqlite"
        log = ledger.with_name(f"{ledger.name}-wal")
        ledger.with_name(f"{ledger.name}-shm").unlink(missing_ok=True)
        if kept is None:
            ledger.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        elif log.exists():
            os.truncate(log, int(kept * log.stat().st_size))

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

    def finish(self) -> Outcome:
        """Let a process come to its end, kill the judge and look at what it wrote down."""
        end = self.live(Kill())
        if end.status:
            self._problems.append(f"the next process ended with {end.status}: {self.trouble()}")
        return self.draw_balance()

    def draw_balance(self) -> Outcome:
        """Kill the judge and look at what it wrote down."""
        self.judge.kill()
        balance = draw_balance(
            self._scenario,
            ledger_url=self._ledger_url,
            judge_directory=self.judge.directory,
            problems=self._problems,
        )
        return Outcome(tuple(self._deaths), balance, self._adopted)

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
