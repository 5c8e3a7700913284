"""The price of judging some pairs, before they are judged."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.adapters.project_files import load_rubrics
from tournament_assets.assets.asking import requests_for_pairs
from tournament_assets.assets.estimating import find_budget, judging_terms, observe_ledger
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.budgets import month_start
from tournament_assets.judging.estimating import JudgingEstimate, Workload, measure_workload
from tournament_assets.judging.pairing import PRESENTATIONS, PairToJudge, split_identical
from tournament_assets.judging.records import JudgingScope
from tournament_assets.judging.service import TokenCounter
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def estimate_pairs(
    plan: TournamentPlan,
    mode: Mode,
    pairs_by_dimension: Iterable[tuple[str, Sequence[PairToJudge]]],
    *,
    ledger: "Ledger",
    judge_model: str,
    assumed_responses: int = 0,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that some pairs take, and price them.

    Args:
        plan: The tournament.
        mode: The mode.
        pairs_by_dimension: The pairs of each dimension; looked at one dimension at a time.
        ledger: What is in it is not asked again.
        judge_model: The model that would judge.
        assumed_responses: Responses among them that do not exist yet.
        counter: Counts the tokens of a sample of requests; None counts characters.

    Raises:
        InputError: If a rubric cannot be used.
        JudgeError: If the counter does not say.
    """
    judge = plan.config.judge
    rubrics = load_rubrics(plan.config, plan.project)
    prices = load_newest_prices(judge.prices)
    observation, tokens_per_reply = observe_ledger(ledger, judge_model)
    workloads: dict[str, Workload] = {}
    for dimension, pairs in pairs_by_dimension:
        to_ask, n_identical = pairs, 0
        if judge.identical_responses_tie:
            to_ask, identical = split_identical(pairs)
            n_identical = len(identical)
        workloads[dimension] = measure_workload(
            requests_for_pairs(plan, to_ask, rubrics[dimension], judge_model=judge_model),
            find_answered=ledger.answered_keys,
            under_way=_keys_under_way(ledger, JudgingScope(plan.tournament_id, mode, dimension)),
            identical=len(PRESENTATIONS) * n_identical,
            tokens_per_reply=tokens_per_reply,
            prices=prices,
            counter=counter,
        )
    now = datetime.now(UTC)
    return JudgingEstimate(
        mode=mode,
        judge_model=judge_model,
        prices_of=prices.date,
        price=prices.models.get(judge_model),
        price_source="judge.prices" if judge_model in prices.configured else prices.source,
        batch_discount=prices.batch_discount,
        workloads=workloads,
        assumed_responses=assumed_responses,
        is_free=judge.service == "loopback",
        observation=observation,
        month=prices.add_up(ledger.spending_since(month_start(now))),
        budget=find_budget(judging_terms(plan, since=now), workloads.values(), ledger=ledger),
    )


def _keys_under_way(ledger: "Ledger", scope: JudgingScope) -> set[str]:
    """Return what the next run collects; what was asked directly cannot be had any more."""
    keys: set[str] = set()
    for batch in ledger.open_batches(scope):
        if batch.channel == "batch":
            keys |= ledger.batch_keys(batch.nonce)
    return keys
