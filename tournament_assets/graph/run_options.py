"""What a person may ask of one run, and what of it each asset is told; without Dagster."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.judges import Rubric

BEFORE_REPLIES = frozenset({"judging_estimate", "judge_requests"})
"""What is made so that replies can be: the price is looked at, and everybody is asked at once."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person may ask of one run.

    Attributes:
        judge_model: Ask this model instead of the configured one.
        n_perms: Rate this many orderings instead of the configured number.
        limit_pairs: Keep only the first pairs of each dimension.
        skip_judging: Rate what the ledger holds, ask nothing.
        partial: Rate although some presentations have no reply yet.
        rejudge: Ask what failed again, one by one, instead of what was never answered.
        pay_again: Ask again for paid results that the service no longer keeps or does not hand out.
        no_budget: Let a headline be paid for without a budget.
        output_dir: Where the run directory goes.
        everything: Run also what is fresh.
    """

    config_path: Path
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

    @property
    def passed_over(self) -> frozenset[str]:
        """The assets that do not run: the budget is for asking what was never answered.

        Asking again what failed is approved by itself.
        """
        return BEFORE_REPLIES if self.skip_judging or self.rejudge else frozenset()


def options_by_asset(
    plan: TournamentPlan, options: RunOptions, started_at: datetime
) -> Mapping[str, Mapping[str, Any]]:
    """Return what was asked of a run, by asset; what was not asked is left out."""
    asked = {
        "judge_model": options.judge_model,
        # Nothing else waits for the place of a run that somebody watches.
        "wait_seconds": max(
            each.waiting.deadline_seconds for each in plan.config.judges_of(options.mode)
        ),
        "run_began_at": started_at.isoformat(),
    }
    by_asset: dict[str, dict[str, Any]] = {
        "match_list": {"limit_pairs": options.limit_pairs},
        "entrant_requests": {
            "pay_again": options.pay_again,
            "run_began_at": started_at.isoformat(),
        },
        "entrant_responses": {"run_began_at": started_at.isoformat()},
        "judging_estimate": {"judge_model": options.judge_model},
        "judge_requests": {**asked, "pay_again": options.pay_again},
        # What was paid for again when all were asked is not to be paid for a third time.
        "judge_replies": {
            **asked,
            "skip_judging": options.skip_judging,
            "rejudge": options.rejudge,
        },
        "judge_verdicts": {"allow_partial": options.partial or options.skip_judging},
        "elo_traces": {"n_permutations": options.n_perms},
        "run_artifacts": {
            "output_dir": str(options.output_dir.resolve()) if options.output_dir else None,
            "started_at": started_at.isoformat(),
        },
    }
    return {
        name: {key: value for key, value in asked.items() if value is not None}
        for name, asked in by_asset.items()
    }


def texts_told(rubrics: Mapping[str, Rubric]) -> Mapping[str, Mapping[str, Any]]:
    """Return by asset what the judge is told, as it was when the run began.

    Args:
        rubrics: The rubrics by dimension.
    """
    texts = {name: rubric.text for name, rubric in rubrics.items()}
    own = {rubric.instructions for rubric in rubrics.values()} - {None}
    instructions = {"instructions": own.pop()} if own else {}
    told = {"rubrics": texts, **instructions}
    return {"judge_requests": told, "judge_replies": told}
