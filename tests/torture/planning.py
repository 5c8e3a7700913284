"""Which kills there are: every boundary or some of them, random times, whole runs."""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.torture import real_trials
from tests.torture.databases import Databases
from tests.torture.lanes import Task
from tests.torture.real_runs import Reference
from tests.torture.real_trials import Moment
from tests.torture.scenarios import CHUNK_ROWS, FORGOTTEN
from tests.torture.trials import (
    Kill,
    Loss,
    Measure,
    Trial,
    lose_ledger,
    restart_judge,
    run_trial,
)

_RECOVERY_BOUNDARIES = 120
"""About as many boundaries as a recovery passes that has everything to take back."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is killed.

    Attributes:
        scenarios: What the processes are at work on.
        every_boundary: Whether to kill at each boundary, or at one of each kind.
        doubles: Pairs of kills, at random boundaries.
        random_times: Kills at random times.
        runs: Kills of whole runs.
        steps: Kills of steps and of the runs that they belong to, of each.
        interrupts: Whether to interrupt a run with each of two signals.
        judge_kills: Kills of the judge under a process.
        judge_kills_of_runs: Kills of the judge under a run.
        lost_ledgers: Ledgers that are lost or torn, with kills of those that take replies back.
    """

    scenarios: tuple[str, ...]
    every_boundary: bool
    doubles: int
    random_times: int
    runs: int
    steps: int
    interrupts: bool
    judge_kills: int
    judge_kills_of_runs: int
    lost_ledgers: int

    @property
    def has_runs(self) -> bool:
        """Whether there are whole runs."""
        return bool(self.runs or self.steps or self.interrupts or self.judge_kills_of_runs)


LONG = Sizes(
    scenarios=(
        "fair weather",
        "slow batches",
        "failing rows",
        "lost answers",
        "all dimensions in flight",
        "slow ledger",
        "failing rows, PostgreSQL",
        FORGOTTEN.name,
    ),
    every_boundary=True,
    doubles=60,
    random_times=100,
    runs=24,
    steps=3,
    interrupts=True,
    judge_kills=12,
    judge_kills_of_runs=2,
    lost_ledgers=60,
)
LONG_OPENAI = replace(
    LONG,
    scenarios=(
        "failing rows, OpenAI",
        "lost answers, OpenAI",
        "all in flight, OpenAI",
        "chat completions",
    ),
    doubles=20,
    random_times=40,
    runs=0,
    steps=0,
    interrupts=False,
    judge_kills=8,
    judge_kills_of_runs=0,
    lost_ledgers=0,
)
"""The same through OpenAI's protocol; what knows nothing of the protocol is killed once only."""
SHORT = Sizes(
    scenarios=("a little of all", FORGOTTEN.name),
    every_boundary=False,
    doubles=2,
    random_times=5,
    runs=1,
    steps=0,
    interrupts=False,
    judge_kills=1,
    judge_kills_of_runs=0,
    lost_ledgers=2,
)
SHORT_OPENAI = replace(
    SHORT, scenarios=("a little of all, OpenAI", "chat completions"), runs=0, lost_ledgers=0
)


def plan_worker_tasks(
    sizes: Sizes, measures: Mapping[str, Measure], *, rng: Random, databases: Databases
) -> list[Task]:
    """Plan the kills of processes that settle a scenario's requests, and the losses of ledgers."""
    names = [name for name in measures if name != FORGOTTEN.name]
    trials = [
        Trial(f"boundaries, {scenario}", scenario, (Kill(boundary),))
        for scenario in names
        for boundary in _pick_boundaries(measures[scenario].boundaries, sizes.every_boundary, rng)
    ]
    for number in range(sizes.doubles):
        scenario = names[number % len(names)]
        n_boundaries = len(measures[scenario].boundaries)
        first, second = (Kill(rng.randint(1, n_boundaries)) for _ in range(2))
        trials.append(Trial("two kills", scenario, (first, second)))
    for number in range(sizes.random_times):
        scenario = names[number % len(names)]
        seconds = rng.uniform(0.0, measures[scenario].seconds)
        trials.append(Trial("random times", scenario, (Kill(seconds=seconds),)))
    tasks: list[Task] = [partial(run_trial, trial, databases=databases) for trial in trials]
    for number in range(sizes.judge_kills):
        scenario = names[number % len(names)]
        tasks.append(
            partial(
                restart_judge,
                scenario,
                rng.uniform(0.0, measures[scenario].seconds),
                rng.uniform(0.0, 1.0),
                databases=databases,
            )
        )
    for number in range(sizes.lost_ledgers):
        # The more is done, the more is there to be taken back.
        n_boundaries = len(measures[FORGOTTEN.name].boundaries)
        settling = Kill(rng.randint(n_boundaries // 3, n_boundaries))
        loss = Loss(rng.uniform(0.3, 1.0) if number % 2 else None)
        recovering = [Kill(rng.randint(1, _RECOVERY_BOUNDARIES)) for _ in range(rng.randint(1, 2))]
        tasks.append(
            partial(lose_ledger, FORGOTTEN.name, settling, loss, recovering, databases=databases)
        )
    return tasks


def plan_run_tasks(sizes: Sizes, reference: Callable[[], Reference], *, rng: Random) -> list[Task]:
    """Plan the kills of whole runs, which are held against what an unkilled one leaves."""
    moments = [
        Moment(share=rng.random()) if number % 2 else Moment(after_asking=rng.uniform(0.0, 2.5))
        for number in range(sizes.runs)
    ]
    tasks: list[Task] = [partial(real_trials.kill_run, moment, reference) for moment in moments]
    tasks += [
        partial(kill, rng.uniform(0.0, 3.0), reference)
        for kill in (real_trials.kill_step, real_trials.kill_run_of_step)
        for _ in range(sizes.steps)
    ]
    if sizes.interrupts:
        tasks += [
            partial(real_trials.interrupt_run, number, reference)
            for number in (signal.SIGINT, signal.SIGTERM)
        ]
    for _ in range(sizes.judge_kills_of_runs):
        after_asking, away = rng.uniform(0.0, 2.0), rng.uniform(0.0, 2.0)
        tasks.append(partial(real_trials.kill_judge_of_run, after_asking, away, reference))
    return tasks


def _pick_boundaries(names: Sequence[str], every: bool, rng: Random) -> list[int]:
    """Return the numbers of all boundaries, or of one of each kind; the first is 1.

    Of each kind, those before a call are left out: nothing happens after the one before it.
    """
    if every:
        return list(range(1, len(names) + 1))
    by_kind: dict[str, list[int]] = {}
    for number, name in enumerate(names, start=1):
        if name.startswith("before ") and not name.startswith("before a commit "):
            continue
        # The rows of one part are alike.
        kind = re.sub(r"row (\d+)", lambda row: f"part {(int(row[1]) - 1) // CHUNK_ROWS}", name)
        by_kind.setdefault(kind, []).append(number)
    return [rng.choice(numbers) for numbers in by_kind.values()]
