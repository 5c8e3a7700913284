"""The price of a mode's judging as a part of the graph, and whether the budget allows it."""

from typing import Any

import dagster as dg

from tournament_assets.graph.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.graph.resources.services import LedgerResource
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.cost_estimate import (
    budget_sentence,
    caching_problems,
    caching_sentence,
    estimate_rows,
    estimate_totals,
    price_rows,
)
from tournament_assets.workflows.estimates import estimate_pairs
from tournament_assets.workflows.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.workflows.provenance import LargeTables
from tournament_assets.workflows.table_rows import pairs_of


class JudgingEstimateConfig(dg.Config):
    """Options of one run."""

    judge_model: str | None = None
    """Price this model instead of the configured one."""


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
        ins={"pairs_to_judge": partitions_of(asset_key(plan, "match_list"), same_mode())},
        deps=[
            dg.AssetDep(asset_key(plan, "rubrics"), partition_mapping=dg.AllPartitionMapping()),
            dg.AssetDep(asset_key(plan, "price_list")),
        ],
        partitions_def=by_mode(),
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
