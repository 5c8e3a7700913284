"""Testing the judge, on request: what planted controls and pairs judged again have in common.

What is asked here is paid for like everything else, and stored apart: no rating ever sees it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from tournament_assets.assets.asking import Asking, ask_what_is_missing
from tournament_assets.assets.billing import bill_of
from tournament_assets.assets.outputs import Table, table_asset
from tournament_assets.assets.partitions import (
    asset_key,
    by_mode_and_dimension,
    partition_values,
    same_dimension,
)
from tournament_assets.assets.plan import TournamentPlan, mode_of
from tournament_assets.assets.reply_rows import PairName, reply_rows, settled_rows
from tournament_assets.judging.pairing import PairToJudge
from tournament_assets.judging.records import JudgingScope
from tournament_assets.judging.requests import JudgeRequest
from tournament_assets.resources.judge import JudgeResource
from tournament_assets.resources.ledger import LedgerResource
from tournament_assets.tournament.rubrics import Rubric

"""Prompt, first entrant and second entrant of a pair."""


def build_judge_test_job(plan: TournamentPlan) -> Any:
    """Build the job that tests the judge; Dagster has no public name for its type."""
    return dg.define_asset_job(
        f"{plan.tournament_id}_test_judge",
        selection=dg.AssetSelection.assets(
            *(
                asset_key(plan, name)
                for name in ("judge_controls", "judge_retest", "judge_agreement")
            )
        ),
        description=(
            f"{plan.tournament_id}: planted controls, test–retest, and agreement with the judge of "
            "another mode; costs money, and is stored apart from the tournament's verdicts"
        ),
    )


def judge_test_asset(
    plan: TournamentPlan,
    name: str,
    ins: Mapping[str, dg.AssetIn],
    *,
    checks: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Table]], dg.AssetsDefinition]:
    """Make an asset of a function that asks the judge something besides the tournament."""
    return table_asset(
        plan,
        name,
        stage="3_judging_tests",
        ins=ins,
        deps=[dg.AssetDep(asset_key(plan, "rubrics"), partition_mapping=same_dimension())],
        partitions_def=by_mode_and_dimension(plan),
        kinds={"parquet", "anthropic"},
        pool="judge",
        checks=checks,
    )


def settle_test(
    plan: TournamentPlan,
    context: dg.AssetExecutionContext,
    requests: Sequence[JudgeRequest],
    pairs: Sequence[PairToJudge],
    rubric: Rubric,
    *,
    purpose: str,
    wait_seconds: float | None,
    ledger: LedgerResource,
    judge: JudgeResource,
) -> tuple[dict[PairName, dict[str, Any]], dict[str, Any]]:
    """Ask what has not been asked; return the settled pairs by name, and metadata on the bill."""
    values = partition_values(context)
    config = plan.config.judge
    with ledger.open() as opened:
        tally = ask_what_is_missing(
            requests,
            plan=plan,
            scope=JudgingScope(plan.tournament_id, mode_of(values), values["dimension"], purpose),
            ledger=opened,
            judge=judge,
            asking=Asking(config.slot_seconds if wait_seconds is None else wait_seconds),
            log=context.log.info,
        )
        replies = list(reply_rows(requests, pairs, opened.iterate_replies, rubric))
    settled = {
        (row["prompt_id"], row["entrant_a"], row["entrant_b"]): row
        for row in settled_rows(replies, reply_format=config.reply_format)
    }
    bill = {"requests_submitted_now": tally.submitted, **bill_of(replies).metadata(plan.config)}
    return settled, bill
