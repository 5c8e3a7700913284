"""The drift sentinel: a fixed sample of pairs that the judge is asked about anew each time.

The test–retest of `judge_retest` measures the judge's own noise at one time. Here the time is what
counts: the same pairs again on every occasion, such as every scheduled rerun, against the verdicts
that the tournament is rated by. What is asked is paid for, and stored apart from those verdicts.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from tournament_assets.graph.assets.judge_tests import judge_test_asset, settle_test
from tournament_assets.graph.outputs import Table, markdown_table, table_result
from tournament_assets.graph.partitions import asset_key, partition_values
from tournament_assets.graph.resources.services import JudgeResource, LedgerResource
from tournament_assets.judging.requests.controls import (
    draw_anchors,
    drift_check_purpose,
    repeat_for_drift_check,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import StoredTable, pair_key, rows_of
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.drift_checks import (
    Rows,
    choose_drift_check,
    settle_earlier,
)
from tournament_assets.workflows.judge_requests import requests_for_pairs
from tournament_assets.workflows.plan import TournamentPlan, mode_of, partition_label
from tournament_assets.workflows.table_rows import pairs_of

if TYPE_CHECKING:
    from tournament_assets.audits.judge_tests import DriftResult

_CHECK = "judge_has_not_drifted"


class JudgeDriftConfig(dg.Config):
    """Options of one run."""

    occasion: str | None = None
    """Names this time of asking, such as a rerun's id: the same occasion goes on with what it
    began and pays for nothing twice, a new one asks anew. By default the occasion that is still
    waiting for a batch, or else today's date in UTC."""
    wait_seconds: float | None = None
    """Wait this long for batches instead of judge.slot_seconds."""


def build_drift_job(plan: TournamentPlan) -> Any:
    """Build the job that looks for a drift; Dagster has no public name for its type."""
    return dg.define_asset_job(
        f"{plan.tournament_id}_check_drift",
        selection=dg.AssetSelection.assets(asset_key(plan, "judge_drift")),
        description=(
            f"{plan.tournament_id}: judge the fixed anchor pairs again and see whether the judge "
            "still says the same; costs money once per occasion"
        ),
    )


def build_drift_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_drift` for one tournament."""
    tournament = plan.config

    @judge_test_asset(
        plan,
        "judge_drift",
        {
            "pairs_to_judge": dg.AssetIn(key=asset_key(plan, "match_list")),
            "verdicts": dg.AssetIn(key=asset_key(plan, "judge_verdicts")),
        },
        checks={_CHECK: "The judge settles the anchor pairs as it did for the tournament."},
    )
    def judge_drift(
        context: dg.AssetExecutionContext,
        config: JudgeDriftConfig,
        pairs_to_judge: StoredTable,
        verdicts: StoredTable,
        ledger: LedgerResource,
        judge: JudgeResource,
    ) -> Table:
        """A fixed sample of pairs, judged again on every occasion: has the judge changed?

        Compares with the verdicts that the tournament is rated by, and with the occasion before.
        """
        from tournament_assets.audits.judge_tests import JudgedAnchor, measure_drift

        values = partition_values(context)
        dimension = values["dimension"]
        rubric = load_rubric(tournament, plan.project, dimension)
        settled = {
            pair_key(row): row
            for row in rows_of(VerdictRow, verdicts)
            if row.outcome != Outcome.UNJUDGED
        }
        judge_model = _judge_model(plan, settled) or tournament.judge_model(mode_of(values))
        anchors = draw_anchors(
            pairs_of(pairs_to_judge),
            can_serve=_is_settled_as_it_is(plan, rubric, settled, judge_model),
            sample=tournament.judge.anchor_pairs,
            seed=tournament.judge.test_seed,
        )
        asked = requests_for_pairs(plan, anchors, rubric, judge_model=judge_model)
        with ledger.open() as opened:
            occasion = choose_drift_check(
                config.occasion,
                tournament_id=plan.tournament_id,
                values=values,
                ledger=opened,
                now=datetime.now(UTC),
            )
        now, bill = settle_test(
            plan,
            context,
            [repeat_for_drift_check(request, occasion) for request in asked],
            anchors,
            rubric,
            purpose=drift_check_purpose(occasion),
            wait_seconds=config.wait_seconds,
            ledger=ledger,
            judge=judge,
        )
        with ledger.open() as opened:
            earlier_occasion, earlier = settle_earlier(
                plan, values, asked, anchors, rubric, occasion=occasion, ledger=opened
            )
        names = [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in anchors]
        judged = [
            JudgedAnchor(
                tournament=Outcome(settled[name].outcome),
                now=Outcome(now[name].outcome),
                earlier=Outcome(earlier[name].outcome) if name in earlier else None,
            )
            for name in names
        ]
        rows = [
            {
                "occasion": occasion,
                "prompt_id": name[0],
                "dimension": dimension,
                "entrant_a": name[1],
                "entrant_b": name[2],
                "tournament_outcome": anchor.tournament.value,
                "outcome": anchor.now.value,
                "flipped": anchor.flipped,
                "earlier_occasion": earlier_occasion,
                "earlier_outcome": anchor.earlier.value if anchor.earlier else None,
                "flipped_since": anchor.flipped_since,
                "verdict_ab": now[name].verdict_ab,
                "verdict_ba": now[name].verdict_ba,
                "judge_model": judge_model,
            }
            for name, anchor in zip(names, judged, strict=True)
        ]
        result = measure_drift(
            judged,
            max_rate=tournament.checks.max_drift_rate,
            confidence=tournament.ratings.confidence,
        )
        description = f"{partition_label(values)}: " + _describe(
            plan, result, n_settled=len(settled), earlier_occasion=earlier_occasion
        )
        numbers = _numbers(result)
        return table_result(
            "judge_drift",
            rows,
            metadata={
                "what_it_means": description,
                "occasion": occasion,
                "earlier_occasion": earlier_occasion or "none",
                "judge_model": judge_model,
                **numbers,
                **bill,
                "flipped_pairs": markdown_table(
                    [row for row in rows if row["flipped"]],
                    ("prompt_id", "entrant_a", "entrant_b", "tournament_outcome", "outcome"),
                ),
            },
            checks=[
                dg.AssetCheckResult(
                    check_name=_CHECK,
                    passed=bool(result.flips.n) and not result.has_drifted,
                    severity=dg.AssetCheckSeverity.WARN,
                    description=description,
                    metadata={**numbers, "max_drift_rate": result.max_rate, "occasion": occasion},
                )
            ],
        )

    return [judge_drift]


def _judge_model(plan: TournamentPlan, settled: Rows) -> str | None:
    """Return the model that judged the tournament, which need not be the configured one.

    Raises:
        InputError: If it is a model of another service than the config names.
    """
    # One run of judge_replies asks one model, so whichever row is looked at says it.
    judge_model: str | None = next((row.judge_model for row in settled.values()), None)
    problem = judge_model and plan.config.judge.model_problem(judge_model)
    if problem:
        raise InputError(problem)
    return judge_model


def _is_settled_as_it_is(
    plan: TournamentPlan, rubric: Rubric, settled: Rows, judge_model: str
) -> Callable[[PairToJudge], bool]:
    """Tell the pairs whose verdicts answer the very requests that would be sent today.

    Otherwise an edit of the rubric or of a response would be taken for a drift of the judge.
    """

    def is_settled_as_it_is(pair: PairToJudge) -> bool:
        row = settled.get((pair.prompt_id, pair.entrant_a, pair.entrant_b))
        if row is None:
            return False
        requests = requests_for_pairs(plan, [pair], rubric, judge_model=judge_model)
        return [request.request_key for request in requests] == [
            row.request_key_ab,
            row.request_key_ba,
        ]

    return is_settled_as_it_is


def _numbers(result: "DriftResult") -> dict[str, Any]:
    """Return numbers whose names stay from time to time, so that the UI plots them."""
    rates = {
        "flip_rate": result.flips.rate,
        "flip_rate_low": result.flips.low,
        "flip_rate_high": result.flips.high,
        "flip_rate_since_earlier": result.flips_since.rate,
    }
    return {
        **{name: rate for name, rate in rates.items() if rate is not None},
        "anchors": result.asked,
        "anchors_judged": result.flips.n,
        "anchors_unjudged": result.unjudged,
        "anchors_flipped": result.flips.count,
        "anchors_reversed": result.reversals,
    }


def _describe(
    plan: TournamentPlan, result: "DriftResult", *, n_settled: int, earlier_occasion: str | None
) -> str:
    from tournament_assets.audits.judge_tests import explain_drift

    if not result.asked and plan.config.judge.anchor_pairs:
        return (
            f"there is no anchor pair, so nothing is known of a drift: {n_settled} pairs are "
            "settled, none of them by the rubric and the texts as they are now; judge them first"
        )
    return explain_drift(
        result, confidence=plan.config.ratings.confidence, earlier_occasion=earlier_occasion
    )
