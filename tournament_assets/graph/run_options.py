"""The options of a run, independent of Dagster.

Every asset gets those of a run's options that its function has, by name (`AssetRow.told`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.graph.rows import AssetRow
from tournament_assets.preparing.preflight import refuse_bad_input
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.judges import Rubric


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run.

    Attributes:
        mode: A mode of the tournament, such as `pilot`.
        judge_model: Ask this model instead of the configured one.
        n_perms: Rate this many orderings instead of the configured number.
        limit_pairs: Keep only the first pairs of each dimension.
        skip_judging: Rate what the ledger holds, ask nothing.
        partial: Rate although some presentations have no reply yet.
        rejudge: Resend failed requests, one by one, instead of those never answered.
        pay_again: Ask again for paid results that the service no longer keeps or does not hand out.
        no_budget: Let a headline be paid for without a budget.
        output_dir: Where the run directory goes.
        everything: Also run what is fresh.
    """

    mode: Mode
    judge_model: str | None = None
    n_perms: int | None = None
    limit_pairs: int | None = None
    skip_judging: bool = False
    partial: bool = False
    rejudge: bool = False
    pay_again: bool = False
    no_budget: bool = False
    output_dir: Path | None = None
    everything: bool = False

    def passes_over(self, prepares: str) -> bool:
        """Whether a job does not run: the budget is for asking what was never answered.

        Asking again what failed is approved by itself.

        Args:
            prepares: The asset that the job is for; empty unless it prepares one.
        """
        return bool(prepares) and (self.skip_judging or self.rejudge)

    def refuse_bad_input(self, plan: TournamentPlan) -> None:
        """Read every input of the run, spend nothing, and refuse with every problem found."""
        refuse_bad_input(
            plan,
            self.mode,
            skip_judging=self.skip_judging,
            judge_model=self.judge_model,
            needs_no_budget=self.no_budget or self.rejudge,
            allows_partial=self.partial,
        )

    def told(
        self, plan: TournamentPlan, rubrics: Mapping[str, Rubric], began_at: datetime
    ) -> JsonObject:
        """Return the options that the run passes to its assets, by name.

        Unset options are left out.

        Args:
            rubrics: What the judge is told, by dimension, as it was when the run began.
            began_at: When the run began.
        """
        own = {rubric.instructions for rubric in rubrics.values()} - {None}
        judges = plan.config.judges_of(self.mode)
        told = {
            "judge_model": self.judge_model,
            "n_permutations": self.n_perms,
            "limit_pairs": self.limit_pairs,
            "skip_judging": self.skip_judging,
            "rejudge": self.rejudge,
            "pay_again": self.pay_again,
            "allow_partial": self.partial or self.skip_judging,
            "output_dir": None if self.output_dir is None else str(self.output_dir.resolve()),
            # Nothing else waits for the place of a run that somebody watches.
            "wait_seconds": max(each.waiting.deadline_seconds for each in judges),
            "run_began_at": began_at.isoformat(),
            "rubrics": {name: rubric.text for name, rubric in rubrics.items()},
            "instructions": own.pop() if own else None,
        }
        return {name: value for name, value in told.items() if value is not None}


def asks_again(row: AssetRow, told: JsonObject) -> bool:
    """Whether a run asks for another attempt at an asset, whatever is stored."""
    return any(told.get(name) for name in _ASK_AGAIN & row.options.keys())


OF_ONE_RUN = frozenset(
    {"run_began_at", "wait_seconds", "rejudge", "pay_again", "rubrics", "instructions"}
)
"""The moment, the patience, and other ways to the same replies; rubrics are observed inputs."""
_ASK_AGAIN = frozenset({"skip_judging", "rejudge", "pay_again"})
