"""Test and retest: pairs judged a second time with the very same requests."""

import dagster as dg

from tournament_assets.adapters.project_files import load_rubric
from tournament_assets.adapters.tables import StoredTable, table_rows
from tournament_assets.assets.asking import requests_for_pairs
from tournament_assets.assets.judge_tests import judge_test_asset, settle_test
from tournament_assets.assets.outputs import Table, markdown_table, table_result
from tournament_assets.assets.partitions import asset_key, partition_values
from tournament_assets.assets.plan import TournamentPlan, mode_of
from tournament_assets.assets.reply_rows import pairs_of, verdicts_of
from tournament_assets.judging.requests import ask_again
from tournament_assets.judging.retest import draw_retest
from tournament_assets.resources.judge import JudgeResource
from tournament_assets.resources.ledger import LedgerResource
from tournament_assets.tournament.verdicts import Outcome


class JudgeRetestConfig(dg.Config):
    """Options of one run."""

    repetition: int = 1
    """Which time the same pairs are judged again; a new number asks anew."""
    wait_seconds: float | None = None
    """Wait this long for batches instead of judge.slot_seconds."""


def build_retest_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_retest` for one tournament."""
    tournament = plan.config

    @judge_test_asset(
        plan,
        "judge_retest",
        {
            "pairs_to_judge": dg.AssetIn(key=asset_key(plan, "match_list")),
            "verdicts": dg.AssetIn(key=asset_key(plan, "judge_verdicts")),
        },
    )
    def judge_retest(
        context: dg.AssetExecutionContext,
        config: JudgeRetestConfig,
        pairs_to_judge: StoredTable,
        verdicts: StoredTable,
        ledger: LedgerResource,
        judge: JudgeResource,
    ) -> Table:
        """Pairs judged a second time, with the very same requests: does the judge repeat itself?"""
        from tournament_assets.audits.retest import JudgedTwice, measure_retest

        values = partition_values(context)
        mode, dimension = mode_of(values), values["dimension"]
        rubric = load_rubric(tournament, plan.project, dimension)
        pairs = draw_retest(
            pairs_of(pairs_to_judge),
            sample=tournament.judge.retest_pairs,
            seed=tournament.judge.test_seed,
        )
        requests = [
            ask_again(request, repetition=config.repetition)
            for request in requests_for_pairs(
                plan, pairs, rubric, judge_model=tournament.judge_model(mode)
            )
        ]
        settled, bill = settle_test(
            plan,
            context,
            requests,
            pairs,
            rubric,
            purpose="retest",
            wait_seconds=config.wait_seconds,
            ledger=ledger,
            judge=judge,
        )
        first = {
            (row["prompt_id"], row["entrant_a"], row["entrant_b"]): row
            for row in table_rows("judge_verdicts", verdicts)
        }
        names = [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in pairs]
        judged = [
            JudgedTwice(
                prompt_id=name[0],
                first=Outcome(first[name]["outcome"]),
                second=Outcome(settled[name]["outcome"]),
                first_verdicts=verdicts_of(first[name]),
                second_verdicts=verdicts_of(settled[name]),
            )
            for name in names
        ]
        result = measure_retest(
            judged, seed=tournament.judge.test_seed, confidence=tournament.ratings.confidence
        )
        rows = [
            {
                "prompt_id": name[0],
                "dimension": dimension,
                "entrant_a": name[1],
                "entrant_b": name[2],
                "first_outcome": twice.first.value,
                "second_outcome": twice.second.value,
                "first_ab": twice.first_verdicts[0].value,
                "first_ba": twice.first_verdicts[1].value,
                "second_ab": twice.second_verdicts[0].value,
                "second_ba": twice.second_verdicts[1].value,
                "request_key_ab": first[name]["request_key_ab"],
                "request_key_ba": first[name]["request_key_ba"],
            }
            for name, twice in zip(names, judged, strict=True)
        ]
        agreement = {
            "agreement_of_pairs": result.pairs.agreement,
            "kappa_of_pairs": result.pairs.kappa,
            "agreement_of_replies": result.presentations.agreement,
            "kappa_of_replies": result.presentations.kappa,
        }
        return table_result(
            "judge_retest",
            rows,
            metadata={
                **bill,
                **{name: value for name, value in agreement.items() if value is not None},
                "what_it_means": dg.MetadataValue.md(f"- {result.meaning}"),
                "first_rows": markdown_table(
                    rows,
                    ("prompt_id", "entrant_a", "entrant_b", "first_outcome", "second_outcome"),
                ),
            },
        )

    return [judge_retest]
