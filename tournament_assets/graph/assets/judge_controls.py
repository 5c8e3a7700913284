"""Planted controls: pairs whose right outcome is known before the judge is asked."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from tournament_assets.graph.assets.judge_tests import judge_test_asset, settle_test
from tournament_assets.graph.outputs import Table, markdown_table, table_result
from tournament_assets.graph.partitions import asset_key, partition_values
from tournament_assets.graph.resources.services import JudgeResource, LedgerResource
from tournament_assets.judging.requests.controls import ControlPair, plant_controls
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import PairKey, StoredTable
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.judge_requests import requests_for_pairs
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.table_rows import pairs_of, verdicts_of

if TYPE_CHECKING:
    from tournament_assets.audits.judge_tests import SettledControl


class JudgeControlsConfig(dg.Config):
    """Options of one run."""

    wait_seconds: float | None = None
    """Wait this long for batches instead of judge.slot_seconds."""


def build_control_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_controls` for one tournament."""
    tournament = plan.config

    @judge_test_asset(
        plan, "judge_controls", {"pairs_to_judge": dg.AssetIn(key=asset_key(plan, "match_list"))}
    )
    def judge_controls(
        context: dg.AssetExecutionContext,
        config: JudgeControlsConfig,
        pairs_to_judge: StoredTable,
        ledger: LedgerResource,
        judge: JudgeResource,
    ) -> Table:
        """Pairs whose right outcome is known: two copies, a misplaced answer, an injected text.

        A judge to be trusted ties the copies, prefers the right answer, and is not moved by a
        response that claims to have won.
        """
        from tournament_assets.audits.judge_tests import measure_controls, measure_injection

        values = partition_values(context)
        mode, dimension = mode_of(values), values["dimension"]
        rubric = load_rubric(tournament, plan.project, dimension)
        controls = plant_controls(
            pairs_of(pairs_to_judge),
            sample=tournament.judge.control_pairs,
            seed=tournament.judge.test_seed,
        )
        pairs = _distinct(
            pair
            for control in controls
            for pair in (control.pair, control.baseline)
            if pair is not None
        )
        requests = requests_for_pairs(plan, pairs, rubric, judge_model=tournament.judge_model(mode))
        settled, bill = settle_test(
            plan,
            context,
            requests,
            pairs,
            rubric,
            purpose="controls",
            wait_seconds=config.wait_seconds,
            ledger=ledger,
            judge=judge,
        )
        results = [_settled_control(control, settled) for control in controls]
        measured = measure_controls(results, confidence=tournament.ratings.confidence)
        injection = measure_injection(results, confidence=tournament.ratings.confidence)
        meanings = [*(result.meaning for result in measured), injection.meaning]
        rows = [
            {
                "kind": result.kind.value,
                "control_id": result.control_id,
                "prompt_id": control.pair.prompt_id,
                "dimension": dimension,
                "entrant_a": control.pair.entrant_a,
                "entrant_b": control.pair.entrant_b,
                "expected": result.wanted.value if result.wanted else None,
                "outcome": result.outcome.value,
                "verdict_ab": result.verdicts[0].value,
                "verdict_ba": result.verdicts[1].value,
                "as_expected": result.outcome is result.wanted if result.is_judged else None,
                "judge_model": tournament.judge_model(mode),
                "rubric_hash": rubric.content_hash,
            }
            for control, result in zip(controls, results, strict=True)
        ]
        return table_result(
            "judge_controls",
            rows,
            metadata={
                **bill,
                **{
                    f"{result.kind.value}_as_expected": result.rate
                    for result in measured
                    if result.rate is not None
                },
                "what_it_means": dg.MetadataValue.md(
                    "\n".join(f"- {meaning}" for meaning in meanings)
                ),
                "first_rows": markdown_table(
                    rows, ("kind", "prompt_id", "entrant_a", "entrant_b", "expected", "outcome")
                ),
            },
        )

    return [judge_controls]


def _distinct(pairs: Iterable[PairToJudge]) -> list[PairToJudge]:
    return list({(pair.prompt_id, pair.entrant_a, pair.entrant_b): pair for pair in pairs}.values())


def _settled_control(
    control: ControlPair, settled: Mapping[PairKey, VerdictRow]
) -> "SettledControl":
    def row_of(pair: PairToJudge) -> VerdictRow:
        return settled[pair.prompt_id, pair.entrant_a, pair.entrant_b]

    from tournament_assets.audits.judge_tests import SettledControl

    row = row_of(control.pair)
    return SettledControl(
        kind=control.kind,
        control_id=control.control_id,
        expected=control.expected,
        outcome=Outcome(row.outcome),
        verdicts=verdicts_of(row),
        baseline=Outcome(row_of(control.baseline).outcome) if control.baseline else None,
    )
