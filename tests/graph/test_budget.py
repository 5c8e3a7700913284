from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.foundation.errors import BudgetError
from tournament_assets.judging.batch_service import Channel, TokenUsage
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequests,
    RequestSettings,
)
from tournament_assets.judging.settlement.sessions import SeenReplies
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.judges import Rubric
from tournament_assets.verdicts.spending_plans import build_approval, judging_terms

from .bills import OPUS, begin, bill, ledger_of, make_priced_project, plan_of

RUBRIC = Rubric("factuality", "1", "# version: 1\nJudge.")
TEN_CENTS = TokenUsage(output_tokens=10_000)  # in a batch


def requests(count: int, model: str = OPUS) -> JudgeRequests:
    """Build an even number of different requests, all of the same length."""
    pairs = [
        PairToJudge(f"p{number}", "recall", f"Why {number:04d}?", "ada", "bob", "Because.", "So.")
        for number in range(count // 2)
    ]
    settings = RequestSettings(model, 2048, shows_gold_answer=False, shows_expected_behavior=False)
    return JudgeRequests(pairs, RUBRIC, settings)


class Treasurer:
    """A tournament's approval, and the ledger behind it."""

    def __init__(
        self, project: SmallProject, ledger: Ledger, *, since: datetime | None = None
    ) -> None:
        self.plan = plan_of(project)
        self.ledger = ledger
        self.since = since or datetime.now(UTC)

    def approve(
        self,
        count: int,
        *,
        model: str = OPUS,
        channel: Channel = "batch",
        limit: float | None = None,
    ) -> None:
        plan = self.plan
        if limit is not None:
            budget = plan.config.judging.budget.model_copy(update={"usd": limit})
            judging = plan.config.judging.model_copy(update={"budget": budget})
            plan = replace(plan, config=plan.config.model_copy(update={"judging": judging}))
        terms = judging_terms(plan, since=self.since, judges=plan.config.judges)
        approval = build_approval(terms, ledger=self.ledger)
        approval.check(requests(count, model), channel, SeenReplies())

    def smallest_budget(self, count: int = 100, *, channel: Channel = "batch") -> float:
        """Find the smallest budget that lets some requests pass."""
        low, high = 0.0, 100.0
        for _ in range(40):
            middle = (low + high) / 2
            try:
                self.approve(count, channel=channel, limit=middle)
                high = middle
            except BudgetError:
                low = middle
        return high


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    made = make_priced_project(tmp_path / "project")
    made.merge_config(judging={"budget": {"usd": 1.0}})
    return made


@pytest.fixture
def ledger(project: SmallProject) -> Iterator[Ledger]:
    with ledger_of(project) as opened:
        yield opened


@pytest.fixture
def treasurer(project: SmallProject, ledger: Ledger) -> Treasurer:
    return Treasurer(project, ledger)


def test_requests_are_approved_up_to_the_limit_and_refused_above_it(treasurer: Treasurer) -> None:
    affordable = int(1.0 / (treasurer.smallest_budget(100) / 100)) // 2 * 2
    treasurer.approve(affordable)
    with pytest.raises(BudgetError, match=f"asking {affordable + 2:,} requests of {OPUS} may cost"):
        treasurer.approve(affordable + 2)


def test_what_any_tournament_spent_and_what_is_under_way_counts(
    treasurer: Treasurer, ledger: Ledger
) -> None:
    alone = treasurer.smallest_budget(100)
    bill(ledger, "n1", [TEN_CENTS])
    spent = treasurer.smallest_budget(100)
    assert spent == pytest.approx(alone + 0.10, abs=1e-6)
    begin(ledger, "n2", [f"key {number}" for number in range(300)])
    assert treasurer.smallest_budget(100) == pytest.approx(spent + 3 * alone, rel=1e-6)


def test_replies_that_are_longer_than_assumed_take_more_of_the_budget(
    treasurer: Treasurer, ledger: Ledger
) -> None:
    alone = treasurer.smallest_budget(100)
    bill(ledger, "n1", [TokenUsage(output_tokens=2000)] * 30)
    # 30 replies at 2,000 tokens were paid, and 100 of 500 tokens more than assumed are to be.
    more = (30 * 2000 + 100 * 500) * 20 * 0.5 / 1e6
    assert treasurer.smallest_budget(100) == pytest.approx(alone + more, rel=1e-6)


def test_nothing_is_approved_whose_price_nobody_knows(treasurer: Treasurer, ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="claude-unheard-of"):
        treasurer.approve(2, model="claude-unheard-of")
    bill(ledger, "n1", [TokenUsage(output_tokens=1)], model="claude-forgotten")
    with pytest.raises(BudgetError, match="claude-forgotten"):
        treasurer.approve(2)


def test_without_a_budget_everything_is_approved(project: SmallProject, ledger: Ledger) -> None:
    project.merge_config(judging={"budget": {"usd": None}})
    Treasurer(project, ledger).approve(2, model="claude-unheard-of")


def test_the_loopback_judge_may_always_be_asked(tmp_path: Path, ledger: Ledger) -> None:
    free = make_project(tmp_path / "free")
    free.merge_config(judging={"budget": {"usd": 0.0}})
    Treasurer(free, ledger).approve(2, model="loopback-lexical")
