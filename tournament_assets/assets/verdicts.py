"""From what the judge wrote to settled pairs, at no cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.adapters.tables import table_rows
from tournament_assets.assets.judging import UNREAD
from tournament_assets.assets.outputs import (
    Table,
    markdown_table,
    table_asset,
    table_result,
)
from tournament_assets.assets.partitions import (
    TournamentPlan,
    partition_label,
    partition_values,
)
from tournament_assets.audits.outages import mostly_same_text, same_text_sentence
from tournament_assets.judging.pairing import PRESENTATIONS, Presentation
from tournament_assets.judging.reconciliation import (
    PresentedReply,
    settle_pairs,
    stored_outcome,
)
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.tournament.check_thresholds import CheckThresholds
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict


class JudgeVerdictsConfig(dg.Config):
    """Options of one run."""

    allow_partial: bool = False
    """Rate although some presentations have no reply yet; every result says so."""


def _presentation(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["prompt_id"], row["entrant_a"], row["entrant_b"], row["presentation"])


def judgments_of(frame: pd.DataFrame) -> list[Judgment]:
    """Return the rows of the table `judge_verdicts` as judgments."""
    return [
        Judgment(
            prompt_id=row["prompt_id"],
            dimension=row["dimension"],
            entrant_a=row["entrant_a"],
            entrant_b=row["entrant_b"],
            outcome=stored_outcome(row["outcome"], row["reason_ab"]),
        )
        for row in table_rows("judge_verdicts", frame)
    ]


def settled_rows(
    replies: Sequence[Mapping[str, Any]], *, reply_format: ReplyFormat
) -> list[dict[str, Any]]:
    """Settle the pairs of the table `judge_replies` into rows of the table `judge_verdicts`."""
    by_presentation = {
        (row["prompt_id"], row["entrant_a"], row["entrant_b"], row["presentation"]): row
        for row in replies
    }
    presented = (
        PresentedReply(
            prompt_id=row["prompt_id"],
            dimension=row["dimension"],
            entrant_a=row["entrant_a"],
            entrant_b=row["entrant_b"],
            presentation=Presentation(row["presentation"]),
            asking=row["asking"],
            result_type=row["result_type"],
            stop_reason=row["stop_reason"],
            text=row["reply"],
        )
        for row in replies
    )
    rows: list[dict[str, Any]] = []
    for pair in settle_pairs(presented, reply_format=reply_format):
        judgment = pair.judgment
        names = (judgment.prompt_id, judgment.entrant_a, judgment.entrant_b)
        ab, ba = (by_presentation[(*names, presentation)] for presentation in PRESENTATIONS)
        rows.append(
            {
                "prompt_id": judgment.prompt_id,
                "source": ab["source"],
                "dimension": judgment.dimension,
                "entrant_a": judgment.entrant_a,
                "entrant_b": judgment.entrant_b,
                "verdict_ab": pair.verdict_ab.value,
                "verdict_ba": pair.verdict_ba.value,
                "outcome": judgment.outcome.value,
                "winner": judgment.winner,
                "reason_ab": pair.reason_ab,
                "reason_ba": pair.reason_ba,
                "request_key_ab": ab["request_key"],
                "request_key_ba": ba["request_key"],
                "asking_ab": pair.asking_ab,
                "asking_ba": pair.asking_ba,
                "judge_model": ab["judge_model"],
            }
        )
    return rows


def _verdict_checks(
    outcomes: Counter[str], thresholds: CheckThresholds, *, where: str
) -> list[dg.AssetCheckResult]:
    same_text = outcomes[Outcome.SAME_TEXT]
    pairs = outcomes.total()
    asked = pairs - same_text
    unjudged = outcomes[Outcome.UNJUDGED]
    judged = asked - unjudged
    inconsistent = outcomes[Outcome.INCONSISTENT]
    unjudged_rate = unjudged / asked if asked else 0.0
    inconsistency_rate = inconsistent / judged if judged else 0.0
    return [
        dg.AssetCheckResult(
            check_name="unjudged_rate",
            passed=unjudged_rate <= thresholds.max_unjudged_rate,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{where}: {unjudged} of {asked} pairs asked have no two readable replies "
                f"({unjudged_rate:.1%}; at most {thresholds.max_unjudged_rate:.1%} expected); "
                "run again to ask for what is pending"
            ),
            metadata={"unjudged": unjudged, "asked": asked, "unjudged_rate": unjudged_rate},
        ),
        dg.AssetCheckResult(
            check_name="inconsistency_rate",
            passed=inconsistency_rate <= thresholds.max_inconsistency_rate,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{where}: {inconsistent} of {judged} judged pairs changed with the position of "
                f"the responses ({inconsistency_rate:.1%}; at most "
                f"{thresholds.max_inconsistency_rate:.1%} expected)"
            ),
            metadata={
                "inconsistent": inconsistent,
                "judged": judged,
                "inconsistency_rate": inconsistency_rate,
            },
        ),
        dg.AssetCheckResult(
            check_name="same_text_rate",
            passed=not mostly_same_text(same_text, pairs),
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{where}: {same_text_sentence(same_text, pairs)}",
            metadata={"same_text": same_text, "pairs": pairs, "same_text_rate": same_text / pairs},
        ),
    ]


def _accounting_check(
    readings: Counter[Verdict],
    *,
    planned: int,
    not_asked: int,
    unread: int,
    allows_partial: bool,
    where: str,
) -> dg.AssetCheckResult:
    """Check that every planned presentation is accounted for, and none of them is pending."""
    verdicts = sum(readings[verdict] for verdict in Verdict if verdict.is_decided)
    missing = {
        verdict.value: readings[verdict]
        for verdict in (Verdict.REFUSED, Verdict.UNREADABLE, Verdict.PERMANENT, Verdict.PENDING)
    }
    pending = missing[Verdict.PENDING]
    adds_up = planned == verdicts + not_asked + sum(missing.values())
    parts = {"verdicts": verdicts, "of one text, not asked": not_asked, **missing}
    sentence = f"{where}: {planned} presentations planned = " + " + ".join(
        f"{count} {name}" for name, count in parts.items()
    )
    if not adds_up:
        sentence += "; this does not add up: a presentation was lost on the way, please report it"
    elif pending and allows_partial:
        sentence += "; the ratings are PARTIAL: they were asked for without what is pending"
    elif pending and unread:
        sentence += (
            f"; the results of {unread} that are pending were paid and could not be read, and are "
            "not asked again: run again later to read them, with --pay-again to pay for them "
            "again, or with --partial to rate without them (pay_again, allow_partial in the UI)"
        )
    elif pending:
        sentence += (
            "; nothing is rated before every presentation has an answer: run again to ask for "
            "what is pending, or rate without it by --partial (allow_partial in the UI)"
        )
    return dg.AssetCheckResult(
        check_name="accounting",
        passed=adds_up and not pending,
        severity=(
            dg.AssetCheckSeverity.WARN
            if adds_up and allows_partial
            else dg.AssetCheckSeverity.ERROR
        ),
        description=sentence,
        metadata={
            "planned": planned,
            "verdicts": verdicts,
            "same_text": not_asked,
            **missing,
            "unread": unread,
        },
    )


def _nothing_to_judge(where: str) -> list[dg.AssetCheckResult]:
    return [
        dg.AssetCheckResult(
            check_name=name,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{where}: there is no pair to judge",
        )
        for name in ("unjudged_rate", "inconsistency_rate", "same_text_rate")
    ]


def build_verdict_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_verdicts` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "judge_verdicts",
        stage="3_judging",
        ins={"replies": dg.AssetIn(key=plan.key("judge_replies"))},
        partitions_def=plan.by_mode_and_dimension,
        checks={
            "unjudged_rate": "Few pairs lack two readable replies.",
            "inconsistency_rate": "Few pairs change their winner when the responses swap places.",
            "same_text_rate": "At least half of the pairs have two different responses.",
        },
        blocking_checks={
            "accounting": (
                "Every planned presentation has a verdict or a reason why there is none, and "
                "none is still pending."
            )
        },
    )
    def judge_verdicts(
        context: dg.AssetExecutionContext, config: JudgeVerdictsConfig, replies: pd.DataFrame
    ) -> Table:
        """Every pair settled from its two replies, at no cost.

        Both replies mean the same entrant: it wins. Both say tie: a tie. They disagree:
        inconsistent. One says nothing readable: unjudged, which is never counted as a tie. Both
        responses are the same text: the judge was not asked, and nobody won.
        """
        where = partition_label(partition_values(context))
        reply_rows = table_rows("judge_replies", replies)
        rows = settled_rows(reply_rows, reply_format=tournament.judge.reply_format)
        outcomes = Counter(row["outcome"] for row in rows)
        asked = [row for row in rows if row["outcome"] != Outcome.SAME_TEXT]
        readings = Counter(
            Verdict(row[name]) for row in asked for name in ("verdict_ab", "verdict_ba")
        )
        first_slot = readings[Verdict.A]
        decided = first_slot + readings[Verdict.B]
        return table_result(
            "judge_verdicts",
            rows,
            metadata={
                "pairs": len(rows),
                "is_partial": bool(readings[Verdict.PENDING]),
                **{f"pairs_{outcome.value}": outcomes[outcome] for outcome in Outcome},
                **{f"replies_{verdict.value}": readings[verdict] for verdict in Verdict},
                "first_slot_rate": first_slot / decided if decided else 0.0,
                "first_rows": markdown_table(
                    rows,
                    ("prompt_id", "entrant_a", "entrant_b", "verdict_ab", "verdict_ba", "winner"),
                ),
            },
            checks=[
                _accounting_check(
                    readings,
                    planned=len({_presentation(row) for row in reply_rows}),
                    unread=sum(
                        row["result_type"] == "pending" and row["error_type"] == UNREAD
                        for row in reply_rows
                    ),
                    not_asked=2 * (len(rows) - len(asked)),
                    allows_partial=config.allow_partial,
                    where=where,
                ),
                *(
                    _verdict_checks(outcomes, tournament.checks, where=where)
                    if rows
                    else _nothing_to_judge(where)
                ),
            ],
        )

    return [judge_verdicts]
