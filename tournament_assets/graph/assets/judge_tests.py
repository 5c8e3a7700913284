"""Testing the judge, on request: what planted controls and pairs judged again have in common.

What is asked here is paid for like everything else, and stored apart: no rating ever sees it.

Test and retest: pairs judged a second time with the very same requests.

Agreement between judge models: the same pairs, judged in another mode by another model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from tournament_assets.graph.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode_and_dimension,
    if_there_is_one,
    partition_values,
    same_dimension,
    same_dimension_all_modes,
)
from tournament_assets.graph.resources.services import JudgeResource, LedgerResource
from tournament_assets.judging.requests.controls import draw_retest
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequest, ask_again
from tournament_assets.judging.requests.verdict_parsing import stored_outcome
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import (
    PairKey,
    StoredTable,
    iterate_rows,
    pair_key,
    rows_of,
)
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.config import MODES
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.judge_requests import (
    JudgingStep,
    ask_what_is_missing,
    requests_for_pairs,
)
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.provenance import bill_of
from tournament_assets.workflows.table_rows import (
    pairs_of,
    reply_rows,
    settled_rows,
    verdicts_of,
)

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
        kinds={"parquet", plan.config.judge.service},
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
) -> tuple[dict[PairKey, VerdictRow], dict[str, Any]]:
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
            step=JudgingStep(config.slot_seconds if wait_seconds is None else wait_seconds),
            log=context.log.info,
        )
        replies = list(reply_rows(requests, pairs, opened.iterate_replies, rubric))
    settled = {
        pair_key(row): row for row in settled_rows(replies, reply_format=config.reply_format)
    }
    bill = {"requests_submitted_now": tally.submitted, **bill_of(replies).metadata(plan.config)}
    return settled, bill


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
        from tournament_assets.audits.judge_tests import JudgedTwice, measure_retest

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
        first = {pair_key(row): row for row in rows_of(VerdictRow, verdicts)}
        names = [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in pairs]
        judged = [
            JudgedTwice(
                prompt_id=name[0],
                first=Outcome(first[name].outcome),
                second=Outcome(settled[name].outcome),
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
                "request_key_ab": first[name].request_key_ab,
                "request_key_ba": first[name].request_key_ba,
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


ByMode = Mapping[str, StoredTable]


def build_judge_agreement_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_agreement` for one tournament."""
    ratings = plan.config.ratings

    def of_every_mode(name: str) -> dg.AssetIn:
        return if_there_is_one(asset_key(plan, name), same_dimension_all_modes())

    @table_asset(
        plan,
        "judge_agreement",
        stage="3_judging_tests",
        ins={
            "pairs_to_judge": of_every_mode("match_list"),
            "replies": of_every_mode("judge_replies"),
            "verdicts": of_every_mode("judge_verdicts"),
        },
        partitions_def=by_mode_and_dimension(plan),
    )
    def judge_agreement(
        context: dg.AssetExecutionContext,
        pairs_to_judge: ByMode,
        replies: ByMode,
        verdicts: ByMode,
    ) -> Table:
        """How far the judges of two modes agree on pairs that both were shown, word for word.

        Nothing is asked. A mode that the same model judged, or by another rubric, says nothing
        here; run the other mode with another judge model to have something to compare.
        """
        from tournament_assets.audits.agreement import align_labels, measure_agreement

        values = partition_values(context)
        own = mode_of(values)
        tables = {
            mode: _Judged(
                pairs_to_judge.get(f"{values['dimension']}|{mode}"),
                replies.get(f"{values['dimension']}|{mode}"),
                verdicts.get(f"{values['dimension']}|{mode}"),
            )
            for mode in MODES
        }
        rows = []
        for mode, other in tables.items():
            mine = tables[own]
            if mode == own or not mine.models or not other.models or mine.models == other.models:
                continue
            if mine.rubrics != other.rubrics:
                context.log.info(f"{mode} was judged by another rubric")
                continue
            shared = mine.shown.items() & other.shown.items()
            found = measure_agreement(
                align_labels(
                    {name: mine.outcomes.get(name) for name, _ in shared},
                    {name: other.outcomes.get(name) for name, _ in shared},
                    prompt_of=lambda name: name[0],
                ),
                n_bootstraps=ratings.n_bootstraps,
                seed=ratings.bootstrap_seed,
                confidence=ratings.confidence,
            )
            rows.append(
                {
                    "dimension": values["dimension"],
                    "judge_model": ", ".join(sorted(mine.models)),
                    "other_judge_model": ", ".join(sorted(other.models)),
                    "other_mode": mode,
                    "n": found.n,
                    "n_left_out": found.n_left_out,
                    "agreement": found.agreement,
                    "agreement_low": found.agreement_low,
                    "agreement_high": found.agreement_high,
                    "kappa": found.kappa,
                    "kappa_low": found.kappa_low,
                    "kappa_high": found.kappa_high,
                    "note": found.note,
                }
            )
        return table_result(
            "judge_agreement",
            rows,
            metadata={
                "other_judges": len(rows),
                "agreement": markdown_table(
                    rows, ("other_judge_model", "n", "agreement", "kappa", "kappa_low", "note")
                ),
            },
        )

    return [judge_agreement]


_SHOWN_COLUMNS = (
    "prompt_text",
    "response_a",
    "response_b",
    "gold_answer",
    "expected_behavior",
)


class _Judged:
    """What one mode's judge was shown and what came of it; empty if the mode was not judged."""

    def __init__(
        self,
        pairs: StoredTable | None,
        replies: StoredTable | None,
        verdicts: StoredTable | None,
    ) -> None:
        self.models: set[str] = set()
        self.rubrics: set[str] = set()
        self.shown: dict[PairKey, str] = {}
        self.outcomes: dict[PairKey, str | None] = {}
        if pairs is None or replies is None or verdicts is None:
            return
        for row in iterate_rows("judge_replies", replies, ("rubric_hash",)):
            self.rubrics.add(row["rubric_hash"])
        for row in iterate_rows("match_list", pairs):
            name = (row["prompt_id"], row["entrant_a"], row["entrant_b"])
            self.shown[name] = fingerprint([row[field] for field in _SHOWN_COLUMNS])
        for row in iterate_rows("judge_verdicts", verdicts):
            self.models.add(row["judge_model"])
            name = (row["prompt_id"], row["entrant_a"], row["entrant_b"])
            outcome = stored_outcome(row["outcome"], row["reason_ab"])
            self.outcomes[name] = outcome.value if outcome.is_judged else None
