"""What the ledger says about money: what was spent, what may be, and whether a plan fits in."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.assets.partitions import TournamentPlan
from tournament_assets.judging.budgets import Budget, draw_up_budget, month_start
from tournament_assets.judging.estimating import (
    ASSUMED_OUTPUT_TOKENS,
    Observation,
    Workload,
    mean_request_usd,
    measure_workload,
    observe_replies,
)
from tournament_assets.judging.pricing import PriceList
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.service import Channel
from tournament_assets.judging.sessions import Approval
from tournament_assets.tournament.config import JudgeConfig

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def observe_ledger(ledger: "Ledger", judge_model: str) -> tuple[Observation | None, float]:
    """Return what a model's replies were like, and the tokens to expect of one."""
    observation = observe_replies(ledger.spending_since(), judge_model)
    if observation is None:
        return None, ASSUMED_OUTPUT_TOKENS
    return observation, observation.output_tokens_per_reply


def find_budget(
    plan: TournamentPlan,
    workloads: Iterable[Workload],
    *,
    ledger: "Ledger",
    prices: PriceList,
    since: datetime,
) -> Budget | None:
    """Return what may be spent on judging and what is gone of it; None if there is no limit.

    Args:
        plan: The tournament.
        workloads: What is to be asked; other open requests are taken to cost as much as these.
        ledger: Where all tournaments' bills are.
        prices: What prices them.
        since: When the run began, for a budget that is for one run.
    """
    config = plan.config.judge
    limit = _limit_usd(config)
    if limit is None:
        return None
    measured = list(workloads)
    began = month_start(datetime.now(UTC)) if config.budget_period == "month" else since

    def request_usd(model: str, channel: Channel) -> float | None:
        price = prices.models.get(model)
        if price is None:
            return None
        return mean_request_usd(measured, price, discount=prices.discount(channel))

    return draw_up_budget(
        limit,
        period=config.budget_period,
        period_began=began,
        spendings=ledger.spending_since(began),
        unbilled=ledger.unbilled_batches(),
        prices=prices,
        request_usd=request_usd,
    )


def build_approval(
    plan: TournamentPlan, *, ledger: "Ledger", judge_model: str, since: datetime
) -> Approval:
    """Return what is to be asked before anything is sent: whether the budget allows it.

    Requests are priced as if the cache were never hit. A judge that costs nothing, and a
    tournament without a budget, may ask whatever they like.

    Args:
        plan: The tournament.
        ledger: Where all tournaments' bills are.
        judge_model: The model that is asked.
        since: When the run began, for a budget that is for one run.
    """

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        if _limit_usd(plan.config.judge) is None:
            return  # nobody needs to know what it costs
        _, tokens_per_reply = observe_ledger(ledger, judge_model)
        workload = measure_workload(
            requests, find_answered=_find_none, tokens_per_reply=tokens_per_reply
        )
        prices = load_newest_prices()
        budget = find_budget(plan, [workload], ledger=ledger, prices=prices, since=since)
        price = prices.models.get(judge_model)
        planned = None
        if price is not None:
            planned = workload.dearest_usd(price, discount=prices.discount(channel))
        noun = "request" if workload.to_ask == 1 else "requests"
        if budget is not None:
            budget.check(planned, what=f"asking {workload.to_ask:,} {noun} of {judge_model}")

    return approve


def _limit_usd(judge: JudgeConfig) -> float | None:
    return None if judge.service == "loopback" else judge.budget_usd


def _find_none(_keys: Iterable[str]) -> frozenset[str]:
    return frozenset()
