"""Killing processes as planned, several at a time, and counting what came of it."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.postgresql import PostgresServer
from tests.torture.databases import Databases
from tests.torture.lanes import Lanes
from tests.torture.planning import Sizes, plan_run_tasks, plan_worker_tasks
from tests.torture.real_runs import run_unkilled
from tests.torture.scenarios import SCENARIOS
from tests.torture.trials import Outcome, measure

Listener = Callable[[int, int, "Report"], None]
"""Told how many trials are through, of how many, and what came of them."""

_COUNTED = ("kills", "adopted", "verdicts_lost", "batches_twice", "requests_twice", "direct_twice")


@dataclass(slots=True)
class Report:
    """What came of some trials.

    Attributes:
        outcomes: Of every trial.
        rows: By part and place of death: kills, and what the trials with them led to.
        skipped: Scenarios that could not be had.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    rows: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def totals(self) -> Counter[str]:
        """The sums of what is counted, and of the problems."""
        totals: Counter[str] = Counter(dict.fromkeys((*_COUNTED, "wrong"), 0))
        for outcome in self.outcomes:
            totals.update(_count(outcome))
            totals["kills"] += len(outcome.deaths)
            totals["wrong"] += outcome.is_wrong
        return totals

    @property
    def wrong(self) -> list[Outcome]:
        """The trials in which something was lost or paid twice that need not be."""
        return [outcome for outcome in self.outcomes if outcome.is_wrong]

    @property
    def most_at_once(self) -> float:
        """The most direct replies that were paid for twice, for a kill."""
        return max(
            (each.direct_twice / len(each.deaths) for each in self.outcomes if each.deaths),
            default=0.0,
        )

    def of(self, part: str) -> list[Outcome]:
        """The outcomes of the parts whose name begins in a certain way."""
        return [outcome for outcome in self.outcomes if outcome.part.startswith(part)]

    def add(self, outcome: Outcome) -> None:
        """Count a trial; one of several deaths is counted at the last one's place."""
        self.outcomes.append(outcome)
        for place in outcome.deaths:
            place = re.sub(r"row \d+", "a row", place)
            row = self.rows.setdefault((outcome.part, place), Counter())
            row["kills"] += 1
        if outcome.deaths:
            row.update(_count(outcome))


def _count(outcome: Outcome) -> dict[str, int]:
    return {name: getattr(outcome, name) for name in _COUNTED if name != "kills"}


def torture(
    sizes: Sizes,
    *,
    seed: str,
    jobs: int,
    at_most: int | None = None,
    postgresql: PostgresServer | None = None,
    listen: Listener = lambda done, total, report: None,
) -> Report:
    """Kill processes as planned and see what is left of their work.

    Args:
        sizes: How much is killed.
        seed: The same seed kills at the same boundaries and times.
        jobs: How many trials are under way at a time.
        at_most: Draw so many of the planned trials.
        postgresql: A server for the scenarios that want one; otherwise one is started.
        listen: Told of every trial that is through.
    """
    rng = Random(seed)
    report = Report()
    wants_postgresql = any(SCENARIOS[name].ledger == "postgresql" for name in sizes.scenarios)
    with (
        Databases(postgresql, wants_postgresql=wants_postgresql) as databases,
        Lanes(jobs) as lanes,
    ):
        scenarios = [
            name
            for name in sizes.scenarios
            if SCENARIOS[name].ledger == "sqlite" or databases.has_postgresql
        ]
        report.skipped = [name for name in sizes.scenarios if name not in scenarios]
        reference = lanes.submit(run_unkilled) if sizes.has_runs else None
        measuring = {
            name: lanes.submit(partial(measure, name, databases=databases)) for name in scenarios
        }
        measures = {name: future.result() for name, future in measuring.items()}
        # The longest are begun first.
        tasks = plan_run_tasks(sizes, reference.result, rng=rng) if reference else []
        tasks += plan_worker_tasks(sizes, measures, rng=rng, databases=databases)
        if at_most is not None:
            tasks = rng.sample(tasks, min(at_most, len(tasks)))
        for outcome in lanes.run(tasks):
            report.add(outcome)
            listen(len(report.outcomes), len(tasks), report)
    return report
