"""What the ledger says about money: what was spent, what may be, and whether a plan fits in."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.budgets import Budget, BudgetTerms, draw_up_budget
from tournament_assets.judging.estimating import (
    ASSUMED_OUTPUT_TOKENS,
    MIN_OBSERVED_REPLIES,
    Observation,
    Workload,
    mean_request_usd,
    measure_workload,
    observe_replies,
)
from tournament_assets.judging.pricing import is_free_model
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.service import Channel
from tournament_assets.judging.sessions import Approval

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def observe_ledger(
    ledger: "Ledger", judge_model: str, *, on_responses: bool = False
) -> tuple[Observation | None, float]:
    """Return what a model's replies were like, and the tokens to expect of one."""
    observation = observe_replies(ledger.spending_since(on_responses=on_responses), judge_model)
    if observation is None:
        return None, ASSUMED_OUTPUT_TOKENS
    return observation, observation.output_tokens_per_reply


def observe_run(
    ledger: "Ledger", judge_model: str, *, since: datetime, on_responses: bool = False
) -> float:
    """Return the tokens to expect of a reply, from what replies took since a run began.

    Too few of them are weighed with what was to be expected before.
    """
    _, expected = observe_ledger(ledger, judge_model, on_responses=on_responses)
    now = ledger.spending_since(since, on_responses=on_responses)
    fresh = [spending for spending in now if spending.judge_model == judge_model]
    n_fresh = sum(spending.n_replies for spending in fresh)
    tokens = sum(spending.usage.output_tokens for spending in fresh)
    n_old = max(0, MIN_OBSERVED_REPLIES - n_fresh)
    return (tokens + n_old * expected) / (n_fresh + n_old)


def judging_terms(plan: TournamentPlan, *, since: datetime) -> BudgetTerms:
    """Return what judging is paid from.

    Args:
        plan: The tournament.
        since: When the run began, for a budget that is for one run.
    """
    judge = plan.config.judge
    return BudgetTerms(
        prices=load_newest_prices(judge.prices),
        limit_usd=None if judge.service == "loopback" else judge.budget_usd,
        period=judge.budget_period,
        began_at=since,
        max_tokens=judge.max_tokens,
    )


def response_terms(plan: TournamentPlan, *, since: datetime) -> BudgetTerms:
    """Return what the responses of entrants behind an API are paid from.

    Args:
        plan: The tournament.
        since: When the run began, for a budget that is for one run.
    """
    generation = plan.config.generation
    return BudgetTerms(
        prices=load_newest_prices(plan.config.judge.prices),
        limit_usd=generation.budget_usd,
        period=generation.budget_period,
        began_at=since,
        on_responses=True,
        setting="generation.budget_usd",
    )


def find_budget(
    terms: BudgetTerms, workloads: Iterable[Workload], *, ledger: "Ledger"
) -> Budget | None:
    """Return what may be spent and what is gone of it by all that is known; None without a limit.

    Args:
        terms: What may be spent.
        workloads: What is to be asked; other open requests are taken to cost as much as these.
        ledger: Where all tournaments' bills are.
    """
    if terms.limit_usd is None:
        return None
    measured, prices = list(workloads), terms.prices

    def request_usd(model: str, channel: Channel) -> float | None:
        price = prices.models.get(model)
        if price is None:
            return None
        return mean_request_usd(measured, price, discount=prices.discount(channel))

    began = terms.counts_from
    return draw_up_budget(
        terms.limit_usd,
        period=terms.period,
        period_began=began,
        spendings=ledger.spending_since(began, on_responses=terms.on_responses),
        unbilled=ledger.unbilled_batches(on_responses=terms.on_responses),
        prices=prices,
        request_usd=request_usd,
        setting=terms.setting,
    )


def build_approval(terms: BudgetTerms, *, ledger: "Ledger", judge_model: str) -> Approval:
    """Return what is asked before a plan is begun, and before each part of it: whether it fits.

    Requests are priced as if the cache were never hit, and replies at the length that those of
    this run had, or else those in the ledger. This keeps a plan from being begun that cannot be
    ended; what keeps the limit is that each request must fit at its most when it is sent.

    Args:
        terms: What may be spent.
        ledger: Where all tournaments' bills are.
        judge_model: The model that is asked.
    """
    begun_at = datetime.now(UTC)

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        if terms.limit_usd is None or not requests:
            return  # nobody needs to know what it costs
        tokens_per_reply = observe_run(
            ledger, judge_model, since=begun_at, on_responses=terms.on_responses
        )
        most = max(request.params["max_tokens"] for request in requests)
        workload = measure_workload(
            requests, find_answered=_find_none, tokens_per_reply=min(tokens_per_reply, most)
        )
        budget = find_budget(terms, [workload], ledger=ledger)
        price = terms.prices.models.get(judge_model)
        planned = None
        if price is not None:
            planned = workload.dearest_usd(price, discount=terms.prices.discount(channel))
        noun = "request" if workload.to_ask == 1 else "requests"
        if budget is not None and not is_free_model(judge_model):
            what = f"asking {workload.to_ask:,} {noun} of {judge_model}"
            budget.check(planned, what=what, model=judge_model)

    return approve


def _find_none(_keys: Iterable[str]) -> frozenset[str]:
    return frozenset()
