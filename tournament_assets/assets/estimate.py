"""The price of a mode's judging as a part of the graph, and whether the budget allows it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.adapters.project_files import load_rubrics
from tournament_assets.assets.asking import requests_for_pairs
from tournament_assets.assets.estimating import find_budget, judging_terms, observe_ledger
from tournament_assets.assets.judging import pairs_of
from tournament_assets.assets.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.assets.partitions import (
    TournamentPlan,
    by_partition,
    mode_of,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.assets.reports import LargeTables
from tournament_assets.judging.budgets import month_start
from tournament_assets.judging.estimating import JudgingEstimate, Workload, measure_workload
from tournament_assets.judging.pairing import PRESENTATIONS, PairToJudge, split_identical
from tournament_assets.judging.pricing import format_usd
from tournament_assets.judging.records import JudgingScope
from tournament_assets.judging.service import TokenCounter
from tournament_assets.reports.estimate import (
    budget_sentence,
    caching_problems,
    caching_sentence,
    estimate_rows,
    estimate_totals,
    price_rows,
)
from tournament_assets.resources.ledger import LedgerResource
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


class JudgingEstimateConfig(dg.Config):
    """Options of one run."""

    judge_model: str | None = None
    """Price this model instead of the configured one."""


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


def _estimate_checks(estimate: JudgingEstimate) -> list[dg.AssetCheckResult]:
    problem, planned = estimate.budget_problem, estimate.planned_usd
    fits = budget_sentence(estimate)
    if planned is not None and not estimate.is_free:
        fits = f"judging may cost up to {format_usd(planned)}. {fits}"
    problems = caching_problems(estimate)
    return [
        dg.AssetCheckResult(
            check_name="within_budget",
            passed=problem is None,
            severity=dg.AssetCheckSeverity.ERROR,
            description=f"{estimate.mode}: {problem or fits}",
        ),
        dg.AssetCheckResult(
            check_name="caching_pays",
            passed=not problems,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{estimate.mode}: {'; '.join(problems) or caching_sentence(estimate)}",
        ),
    ]


def build_estimate_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judging_estimate` for one tournament.

    `judge_replies` does not depend on it: another list of prices, or a reply more in the ledger,
    must not make replies out of date that were paid for.
    """
    tournament = plan.config

    @table_asset(
        plan,
        "judging_estimate",
        stage="3_judging",
        ins={"pairs_to_judge": partitions_of(plan.key("match_list"), same_mode())},
        deps=[
            dg.AssetDep(plan.key("rubrics"), partition_mapping=dg.AllPartitionMapping()),
            dg.AssetDep(plan.key("price_list")),
        ],
        partitions_def=plan.by_mode,
        checks={"caching_pays": "The judge's prompt cache saves more than it costs."},
        blocking_checks={
            "within_budget": "What is still to be asked costs no more than may be spent."
        },
    )
    def judging_estimate(
        context: dg.AssetExecutionContext,
        config: JudgingEstimateConfig,
        pairs_to_judge: LargeTables,
        ledger: LedgerResource,
    ) -> Table:
        """What is still to be asked of the judge on each dimension, and what it will cost.

        Nothing is sent. What the ledger holds costs nothing; the rest is priced without caching
        and for several shares of cache hits, which nobody can promise.
        """
        mode = mode_of(partition_values(context))
        tables = by_partition(pairs_to_judge, tournament.dimension_names)
        with ledger.open() as opened:
            estimate = estimate_pairs(
                plan,
                mode,
                ((dimension, pairs_of(table)) for dimension, table in tables.items()),
                ledger=opened,
                judge_model=config.judge_model or tournament.judge_model(mode),
            )
        rates = price_rows(estimate)
        return table_result(
            "judging_estimate",
            estimate_rows(estimate),
            metadata={
                **_numbers(estimate),
                "judge_model": estimate.judge_model,
                "prices_of": estimate.prices_of,
                "budget": budget_sentence(estimate),
                "prices": markdown_table(
                    [{"prompt cache": words, "US dollars": usd} for words, usd in rates],
                    ("prompt cache", "US dollars"),
                ),
            },
            checks=_estimate_checks(estimate),
        )

    return [judging_estimate]


def _numbers(estimate: JudgingEstimate) -> dict[str, Any]:
    """Return the totals that are known, under the same names from run to run."""
    return {
        name: round(value, 6)
        for name, value in estimate_totals(estimate).items()
        if value is not None
    }
