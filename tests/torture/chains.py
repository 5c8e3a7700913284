"""Chains of launches under a budget: waits that run out, processes that are killed, batches late.

Each chain draws a tournament (protocol, dimensions, a jury, stopping early, a trial), a budget of
1.05 to 3 times what its judging is expected to cost, or one that is too small, and what becomes of
each launch. Whatever happens, what was paid is collected, nothing is bought twice in a batch,
nothing is spent beyond the budget, and the chain ends with every verdict, or with a sentence that
names a sum that is enough.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.graph.paid_projects import PaidProject
from tests.graph.test_budget_and_waits import (
    MODELS,
    PRICE,
    TRIALS,
    budget_trial,
    has_waited,
)
from tests.projects import SmallProject
from tests.torture.forking import Nursery
from tournament_assets.foundation.errors import WorkError
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.tournament.judges import ConfiguredPrice

_ENOUGH = re.compile(r"raise judging\.budget\.usd to \$([\d.,]*\d)")
_SHARE_OF_SHORT = 0.25
"""How many budgets are too small, so that they have to be raised."""
_MOST_HAZARDS, _MOST_LAUNCHES = 5, 14
_GRACE_SECONDS = 1.0
"""How long a batch whose creation was not confirmed is looked for."""
_LATE_SECONDS, _PATIENT_SECONDS, _LONGEST_SECONDS = 0.3, 30.0, 120.0
IN_FLIGHT = 4
"""How many direct replies, at the most, are lost with each process that is killed."""


def launch(*, folder: str, environment: dict[str, str]) -> int:
    """Run a project until its verdicts; the process that may be killed. Prints what it hears."""
    try:
        SmallProject(Path(folder)).tables("judge_verdicts", environment=environment)
    except WorkError as error:
        sys.stdout.write(f"heard: {error}\n")
    return 0


@dataclass
class Chain:
    """The launches of one chain.

    Attributes:
        limit: The budget in US dollars.
        kills: How many processes were killed.
        raised: How often the budget was raised to the sum that a refusal named.
    """

    paid: PaidProject
    nursery: Nursery
    limit: float
    kills: int = 0
    raised: int = 0

    def launch(self, deadline_seconds: float, *, kill_after: float | None = None) -> str | None:
        """Launch once; return what a person hears, or None from a process that was killed."""
        waiting = {"deadline_seconds": deadline_seconds, "adopt_grace_seconds": _GRACE_SECONDS}
        self.paid.project.edit_judges(waiting=waiting)
        log = self.paid.project.folder / "launch.log"
        log.unlink(missing_ok=True)
        pid = self.nursery.start(
            "launch",
            log,
            folder=str(self.paid.project.folder),
            environment=self.paid.environment,
        )
        end = self.nursery.wait(pid, seconds=_LONGEST_SECONDS, kill_after=kill_after)
        if end.was_killed:
            self.kills += 1
            return None
        text = log.read_text()
        assert end.status == 0, text
        return text.partition("heard: ")[2].strip()

    def raise_budget(self, heard: str) -> None:
        """Allow the sum that a refusal names, which has to be more than the present one."""
        named = _ENOUGH.search(heard)
        assert named, heard
        limit = float(named[1].replace(",", ""))
        assert limit > self.limit, heard
        self.limit, self.raised = limit, self.raised + 1
        self.paid.project.merge_config(judging={"budget": {"usd": limit}})

    def finish(self) -> None:
        """Launch until every verdict is there."""
        for _ in range(_MOST_LAUNCHES):
            self.paid.end_batches()
            heard = self.launch(_PATIENT_SECONDS)
            if heard == "":
                return
            assert heard is not None
            if not (has_waited(heard) or "was not confirmed" in heard):
                self.raise_budget(heard)
        raise AssertionError(f"{_MOST_LAUNCHES} launches did not finish: {heard}")

    def check(self) -> None:
        """Check what was kept and what it cost, and that the sum that was named was enough."""
        assert self.raised <= 1
        with self.paid.ledger() as ledger:
            spendings = ledger.spending_since()
            assert ledger.open_scopes("small") == {}
            assert ledger.waste_of("small", "pilot").replies_paid_twice == 0
        n_kept = sum(each.n_replies for each in spendings)
        assert n_kept <= self.paid.n_asked <= n_kept + IN_FLIGHT * self.kills
        configured = {**dict.fromkeys(MODELS, PRICE), "local": {"input": 0.0, "output": 0.0}}
        prices = load_newest_prices(
            {name: ConfiguredPrice.model_validate(each) for name, each in configured.items()}
        )
        assert prices.add_up(spendings).usd <= self.limit


def run_chain(folder: Path, nursery: Nursery, seed: int) -> Chain:
    """Run the chain of a seed to its end, and check it."""
    random = Random(seed)
    name = random.choice(sorted(TRIALS))
    is_short = random.random() < _SHARE_OF_SHORT
    share = random.uniform(0.2, 1.0) if is_short else random.uniform(1.05, 3.0)
    with budget_trial(folder, name, share) as (paid, limit):
        if random.random() < 0.3 and len(TRIALS[name][1]) > 1:
            paid.project.merge_config(modes={"pilot": {"channel": "auto"}})
        chain = Chain(paid, nursery, limit)
        for _ in range(random.randint(1, _MOST_HAZARDS)):
            is_killed = random.random() < 0.5
            chain.launch(
                _PATIENT_SECONDS if is_killed else _LATE_SECONDS,
                kill_after=random.uniform(0.05, 1.5) if is_killed else None,
            )
            if random.random() < 0.5:
                paid.server.end_batches()
        chain.finish()
        chain.check()
        return chain
