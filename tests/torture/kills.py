"""Killing a service's processes wherever they can be; `make torture` does at every boundary."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.torture.bench import Kill, Outcome
from tests.torture.conftest import Setup
from tests.torture.scenarios import CHUNK_ROWS, HIDING, SCENARIOS

EVERY = "TORTURE" in os.environ
TIMEOUT = 3600 if EVERY else 300
_SHORT = ("a little of all", "a little of all, OpenAI", "chat completions")


def scenarios_of(*services: str) -> list[str]:
    """Return the names of some services' scenarios: the short ones, or all of `make torture`."""
    names = [name for name in SCENARIOS if name != HIDING.name] if EVERY else _SHORT
    return [name for name in names if SCENARIOS[name].services[0] in services]


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of killing a scenario's processes everywhere.

    Attributes:
        places: The boundaries at which one process was killed.
        n_at_once: How many pieces of work are in flight at once.
        at_boundaries: What came of that, in their order, and last of two kills in a row.
        at_times: What came of kills at random times, and last of a judge that was restarted.
    """

    places: tuple[str, ...]
    n_at_once: int
    at_boundaries: tuple[Outcome, ...]
    at_times: tuple[Outcome, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All that came of it."""
        return self.at_boundaries + self.at_times

    @property
    def wrong(self) -> list[Outcome]:
        """Where something was lost, or paid for twice, or a process was not killed in its place."""
        expected = [1] * len(self.places) + [2]
        survived = [
            outcome
            for outcome, n_deaths in zip(self.at_boundaries, expected, strict=True)
            if len(outcome.deaths) != n_deaths
        ]
        # What is in flight at once looks more often or less: some runs have no place so late.
        if self.n_at_once > 1 and 5 * len(survived) <= len(self.places):
            survived = []
        return survived + [outcome for outcome in self.outcomes if outcome.is_wrong]


def measure(scenario: str, set_up: Setup) -> tuple[tuple[str, ...], float]:
    """Return the boundaries that a process passes that nobody kills, and its seconds."""
    with set_up(scenario) as bench:
        return bench.measure()


def run_killed(scenario: str, set_up: Setup, *kills: Kill) -> Outcome:
    """Kill processes, one after the other, and let the next one do what is left."""
    with set_up(scenario) as bench:
        for each in kills:
            bench.kill(each)
        return bench.finish()


def kill_everywhere(scenario: str, set_up: Setup) -> Killed:
    """Kill processes at boundaries, twice in a row and at random times, and restart the judge."""
    boundaries, seconds = measure(scenario, set_up)
    rng = Random(scenario)
    numbers = _pick_boundaries(boundaries, rng)
    at_boundaries = [run_killed(scenario, set_up, Kill(number)) for number in numbers]
    twice = [Kill(rng.randint(1, len(boundaries) // 2)) for _ in range(2)]
    at_boundaries.append(run_killed(scenario, set_up, *twice))
    at_times = [
        run_killed(scenario, set_up, Kill(seconds=rng.uniform(0.0, seconds)))
        for _ in range(20 if EVERY else 2)
    ]
    with set_up(scenario) as bench:
        bench.restart_judge(rng.uniform(0.0, seconds), rng.uniform(0.0, 1.0))
        at_times.append(bench.finish())
    places = tuple(boundaries[number - 1] for number in numbers)
    n_at_once = len(SCENARIOS[scenario].work)
    return Killed(places, n_at_once, tuple(at_boundaries), tuple(at_times))


def _pick_boundaries(names: Sequence[str], rng: Random) -> list[int]:
    """Return the numbers of all boundaries, or of one of each kind; the first is 1.

    Of each kind, those before a call are left out: nothing happens after the one before it.
    """
    if EVERY:
        return list(range(1, len(names) + 1))
    by_kind: dict[str, list[int]] = {}
    for number, name in enumerate(names, start=1):
        if name.startswith("before ") and not name.startswith("before a commit "):
            continue
        # The rows of one part are alike.
        kind = re.sub(r"row (\d+)", lambda row: f"part {(int(row[1]) - 1) // CHUNK_ROWS}", name)
        by_kind.setdefault(kind, []).append(number)
    return [rng.choice(numbers) for numbers in by_kind.values()]
