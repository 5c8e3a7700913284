"""Can the tournament be trusted: what is missing for whom, and which prompts to look at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.adapters.tables import table_rows
from tournament_assets.assets.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.assets.partitions import (
    TournamentPlan,
    by_partition,
    partition_label,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.assets.reports import (
    Frames,
    outage_metadata,
    outages_of,
    rows_by_dimension,
    sentence_list,
)
from tournament_assets.audits.coverage import (
    INFRASTRUCTURE,
    EntrantCoverage,
    PairReading,
    ReplyReading,
    measure_coverage,
)
from tournament_assets.audits.outages import MissingnessCheck, check_missingness
from tournament_assets.judging.infrastructure import classify_reply
from tournament_assets.judging.pairing import PRESENTATIONS
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.tournament.responses import GeneratedResponse
from tournament_assets.tournament.verdicts import Outcome, Verdict

Row = Mapping[str, Any]
_SHOWN_FINDINGS = 12


def pair_readings(
    verdicts: Iterable[Row], replies: Iterable[Row], *, reply_format: ReplyFormat
) -> list[PairReading]:
    """Join settled pairs with what became of every reply to them.

    Args:
        verdicts: Rows of table "judge_verdicts" of one dimension.
        replies: Rows of table "judge_replies" of the same dimension.
        reply_format: How the judge was told to write its verdict.
    """
    by_presentation: dict[tuple[str, ...], list[Row]] = {}
    for row in replies:
        name = (row["prompt_id"], row["entrant_a"], row["entrant_b"], row["presentation"])
        by_presentation.setdefault(name, []).append(row)
    return [
        PairReading(
            prompt_id=row["prompt_id"],
            stratum=row["source"],
            entrant_a=row["entrant_a"],
            entrant_b=row["entrant_b"],
            outcome=Outcome(row["outcome"]),
            replies=(
                _read_presentation(
                    Verdict(row[f"verdict_{ab}"]),
                    by_presentation[row["prompt_id"], row["entrant_a"], row["entrant_b"], ab],
                    counted=row[f"asking_{ab}"],
                    reply_format=reply_format,
                ),
                _read_presentation(
                    Verdict(row[f"verdict_{ba}"]),
                    by_presentation[row["prompt_id"], row["entrant_a"], row["entrant_b"], ba],
                    counted=row[f"asking_{ba}"],
                    reply_format=reply_format,
                ),
            ),
        )
        for row in verdicts
        for ab, ba in [PRESENTATIONS]
    ]


def _read_presentation(
    verdict: Verdict, askings: Sequence[Row], *, counted: int, reply_format: ReplyFormat
) -> ReplyReading:
    failures = {
        row["asking"]: classify_reply(
            result_type=row["result_type"],
            stop_reason=row["stop_reason"],
            text=row["reply"],
            reply_format=reply_format,
        )
        for row in askings
        if row["result_type"] != "identical"
    }
    if not verdict.is_decided:
        return ReplyReading(verdict, failures.get(counted))
    earlier = {failure for asking, failure in failures.items() if asking < counted}
    # A request whose batch expired or errored in passing has no reply of its own in the table: it
    # shows in that the reply that counts was asked for directly, outside any batch.
    was_asked_directly = any(row["asking"] == counted and row["rejudged_at"] for row in askings)
    return ReplyReading(
        verdict,
        was_rejudged=bool(earlier & INFRASTRUCTURE) or (was_asked_directly and not earlier),
    )


def coverage_row(dimension: str, entrant: EntrantCoverage) -> dict[str, Any]:
    """Return a row of table "audit"."""
    missing = entrant.missing_replies
    return {
        "dimension": dimension,
        "entrant_id": entrant.entrant_id,
        "prompts_selected": entrant.prompts_selected,
        "responses": entrant.responses,
        "empty_responses": entrant.empty_responses,
        "truncated_responses": entrant.truncated_responses,
        "pairs_planned": entrant.pairs_planned,
        "pairs_unanswered": entrant.pairs_unanswered,
        "pairs_judged": entrant.pairs_judged,
        "pairs_inconsistent": entrant.pairs_inconsistent,
        "pairs_clean": entrant.pairs_clean,
        "coverage": entrant.coverage,
        "score_present": entrant.score_present,
        "score_clean": entrant.score_clean,
        "score_normalised": entrant.score_normalised,
        "replies_refused": missing.get(Verdict.REFUSED, 0),
        "replies_unreadable": missing.get(Verdict.UNREADABLE, 0),
        "replies_permanent": missing.get(Verdict.PERMANENT, 0),
        "replies_pending": missing.get(Verdict.PENDING, 0),
        "infra_remaining": entrant.infra_remaining,
        "infra_rejudged": entrant.infra_rejudged,
    }


def missingness_of(plan: TournamentPlan, rows: Sequence[Row]) -> MissingnessCheck:
    """Return what the check `even_missingness` says of the rows of table "audit"."""
    return check_missingness(rows, max_spread=plan.config.checks.max_missing_spread)


def build_audit_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `audit` and `prompt_audit` for one tournament."""
    config = plan.config

    def every_dimension(name: str) -> dg.AssetIn:
        return partitions_of(plan.key(name), same_mode())

    def readings(verdicts: Frames, replies: Frames) -> dict[str, list[PairReading]]:
        asked = rows_by_dimension(plan, "judge_replies", replies)
        return {
            dimension: pair_readings(
                settled, asked[dimension], reply_format=config.judge.reply_format
            )
            for dimension, settled in rows_by_dimension(plan, "judge_verdicts", verdicts).items()
        }

    @table_asset(
        plan,
        "audit",
        stage="5_report",
        ins={
            "selected": dg.AssetIn(key=plan.key("selected_prompts")),
            "responses": every_dimension("entrant_responses"),
            "verdicts": every_dimension("judge_verdicts"),
            "replies": every_dimension("judge_replies"),
        },
        partitions_def=plan.by_mode,
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
        verdicts: Frames,
        replies: Frames,
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
            coverage_row(dimension, entrant)
            for dimension, pairs in readings(verdicts, replies).items()
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
                "pairs_not_judged": sum(row["pairs_planned"] - row["pairs_judged"] for row in rows)
                // 2,
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
        partitions_def=plan.by_mode,
    )
    def prompt_audit(verdicts: Frames, replies: Frames) -> Table:
        """Every prompt across all entrants: broken ones, noisy ones, and those that decide.

        Nobody wins, every judgment is inconsistent, the judge failed on it, an entrant fails in one
        stratum only; how much it tells the entrants apart; and what would be rated without it.
        """
        from tournament_assets.audits.prompts import audit_prompts
        from tournament_assets.audits.prompts_findings import FindingKind

        rows: list[dict[str, Any]] = []
        for dimension, pairs in readings(verdicts, replies).items():
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
        findings = [row for row in rows if row["is_finding"]]
        return table_result(
            "prompt_audit",
            rows,
            metadata={
                "findings": len(findings),
                "worst_first": sentence_list(
                    f"{row['dimension']}: {row['sentence']}" for row in findings[:_SHOWN_FINDINGS]
                ),
            },
        )

    return [audit, prompt_audit]
