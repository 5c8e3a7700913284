"""Can the tournament be trusted: what is missing for whom, and which prompts to look at."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.audits.missingness import PairReading, measure_coverage
from tournament_assets.audits.outages import asked
from tournament_assets.graph.assets.reports import outage_metadata, outages_of, sentence_list
from tournament_assets.graph.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.storage.tables import table_rows
from tournament_assets.tournament.prompts import GeneratedResponse
from tournament_assets.workflows.plan import TournamentPlan, by_partition, partition_label
from tournament_assets.workflows.provenance import Frames, LargeTables
from tournament_assets.workflows.report_sections import missingness_of
from tournament_assets.workflows.table_rows import (
    coverage_row,
    pair_readings,
)

_SHOWN_FINDINGS = 12


def build_audit_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `audit` and `prompt_audit` for one tournament."""
    config = plan.config

    def every_dimension(name: str) -> dg.AssetIn:
        return partitions_of(asset_key(plan, name), same_mode())

    def readings(
        verdicts: LargeTables, replies: LargeTables
    ) -> Iterator[tuple[str, list[PairReading]]]:
        asked = by_partition(replies, config.dimension_names)
        for dimension, settled in by_partition(verdicts, config.dimension_names).items():
            yield (
                dimension,
                pair_readings(
                    settled,
                    asked[dimension],
                    reply_format=config.judge.reply_format,
                ),
            )

    @table_asset(
        plan,
        "audit",
        stage="5_report",
        ins={
            "selected": dg.AssetIn(key=asset_key(plan, "selected_prompts")),
            "responses": every_dimension("entrant_responses"),
            "verdicts": every_dimension("judge_verdicts"),
            "replies": every_dimension("judge_replies"),
        },
        partitions_def=by_mode(),
        checks={
            "even_missingness": (
                "No entrant misses more verdicts or answers than the others, beyond chance."
            )
        },
    )
    def audit(
        context: dg.AssetExecutionContext,
        selected: pd.DataFrame,
        responses: Frames,
        verdicts: LargeTables,
        replies: LargeTables,
    ) -> Table:
        """What each entrant was planned for on each dimension, what became of it, and its score.

        Missing is counted by its reason and never as a tie or a zero; only the coverage-normalised
        score, which divides by what was planned, makes it cost something.
        """
        answers = {
            entrant: [
                GeneratedResponse(row["prompt_id"], row["response"], row["finish_reason"])
                for row in table_rows("entrant_responses", frame)
            ]
            for entrant, frame in by_partition(responses, config.entrant_ids).items()
        }
        answered = set.intersection(
            *({each.prompt_id for each in given} for given in answers.values())
        )
        unanswered = [
            row
            for row in table_rows("selected_prompts", selected)
            if row["prompt_id"] not in answered
        ]
        rows = [
            asdict(coverage_row(dimension, entrant))
            for dimension, pairs in readings(verdicts, replies)
            for entrant in measure_coverage(
                entrants=config.entrant_ids,
                prompts_selected=len(selected),
                responses=answers,
                pairs=pairs,
                prompts_unanswered=sum(
                    row["gold_answer"] is not None
                    or not config.dimensions[dimension].needs_gold_answer
                    for row in unanswered
                ),
            )
        ]
        check = missingness_of(plan, rows)
        return table_result(
            "audit",
            rows,
            metadata={
                **outage_metadata(outages_of(plan, rows)),
                "pairs_not_judged": sum(asked(row) - row["pairs_judged"] for row in rows) // 2,
                "pairs_same_text": sum(row["pairs_same_text"] for row in rows) // 2,
                "largest_missing_spread": check.largest_spread,
                "infra_failures_remaining": sum(row["infra_remaining"] for row in rows) // 2,
                "infra_failures_rejudged": sum(row["infra_rejudged"] for row in rows) // 2,
                "coverage": markdown_table(
                    rows,
                    (
                        "dimension",
                        "entrant_id",
                        "responses",
                        "pairs_planned",
                        "pairs_same_text",
                        "pairs_judged",
                        "pairs_clean",
                        "score_present",
                        "score_clean",
                        "score_normalised",
                    ),
                    limit=20,
                ),
            },
            checks=[
                dg.AssetCheckResult(
                    check_name="even_missingness",
                    passed=check.passed,
                    severity=dg.AssetCheckSeverity.WARN,
                    description=f"{partition_label(partition_values(context))}: {check.sentence}",
                    metadata={
                        "largest_spread": check.largest_spread,
                        "answers_p_value": check.answers.p_value,
                        **{
                            f"{dimension}_p_value": each.p_value
                            for dimension, each in check.verdicts.items()
                        },
                    },
                )
            ],
        )

    @table_asset(
        plan,
        "prompt_audit",
        stage="5_report",
        ins={
            "verdicts": every_dimension("judge_verdicts"),
            "replies": every_dimension("judge_replies"),
        },
        partitions_def=by_mode(),
    )
    def prompt_audit(verdicts: LargeTables, replies: LargeTables) -> Table:
        """Every prompt across all entrants: broken ones, noisy ones, and those that decide.

        Nobody wins, every judgment is inconsistent, the judge failed on it, an entrant fails in one
        stratum only; how much it tells the entrants apart; and what would be rated without it.
        """
        from tournament_assets.audits.prompt_audit import audit_prompts
        from tournament_assets.audits.prompt_findings import FindingKind
        from tournament_assets.reports.audit_tables import choose_findings, fold_findings

        rows: list[dict[str, Any]] = []
        for dimension, pairs in readings(verdicts, replies):
            rows.extend(
                {
                    "dimension": dimension,
                    "kind": found.kind.value,
                    "is_finding": found.is_finding,
                    "prompt_id": found.prompt_id,
                    "stratum": found.stratum,
                    "entrants": list(found.entrants),
                    "value": found.value,
                    "count": found.count,
                    "total": found.total,
                    "sentence": found.sentence,
                }
                for found in audit_prompts(pairs, dimension=dimension, entrants=config.entrant_ids)
            )
        # The sort is stable: within a kind and a dimension the worst stays first.
        kinds = [kind.value for kind in FindingKind]
        rows.sort(key=lambda row: (not row["is_finding"], kinds.index(row["kind"])))
        folded = fold_findings(rows)
        return table_result(
            "prompt_audit",
            rows,
            metadata={
                "findings": sum(len(each.rows) for each in folded),
                "worst_first": sentence_list(
                    f"{each.dimension}: {each.sentence}"
                    for each in choose_findings(folded, _SHOWN_FINDINGS)
                ),
            },
        )

    return [audit, prompt_audit]
