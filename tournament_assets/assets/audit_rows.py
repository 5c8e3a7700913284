"""Between the audit and the tables: what is read of replies, and a row for each entrant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tournament_assets.adapters.tables import join_pairs
from tournament_assets.audits.coverage import (
    INFRASTRUCTURE,
    EntrantCoverage,
    PairReading,
    ReplyReading,
)
from tournament_assets.judging.infrastructure import classify_reply
from tournament_assets.judging.pairing import PRESENTATIONS
from tournament_assets.judging.reconciliation import stored_outcome
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.tournament.verdicts import Verdict

Row = Mapping[str, Any]

_PAIR = ("prompt_id", "entrant_a", "entrant_b")
VERDICT_COLUMNS = (
    *_PAIR,
    "source",
    "outcome",
    "reason_ab",
    "verdict_ab",
    "verdict_ba",
    "asking_ab",
    "asking_ba",
)
"""What `pair_readings` reads of the table `judge_verdicts`."""
REPLY_COLUMNS = (
    *_PAIR,
    "presentation",
    "asking",
    "result_type",
    "stop_reason",
    "reply",
    "rejudged_at",
)
"""What it reads of the table `judge_replies`."""


def pair_readings(
    verdicts: Iterable[Row], replies: Iterable[Row], *, reply_format: ReplyFormat
) -> list[PairReading]:
    """Join settled pairs with what became of every reply to them.

    Args:
        verdicts: Rows of table "judge_verdicts" of one dimension.
        replies: Rows of table "judge_replies" of the same dimension, in the same order of pairs.
        reply_format: How the judge was told to write its verdict.
    """
    names: dict[str, str] = {}
    return [
        PairReading(
            prompt_id=names.setdefault(row["prompt_id"], row["prompt_id"]),
            stratum=names.setdefault(row["source"], row["source"]),
            entrant_a=names.setdefault(row["entrant_a"], row["entrant_a"]),
            entrant_b=names.setdefault(row["entrant_b"], row["entrant_b"]),
            outcome=stored_outcome(row["outcome"], row["reason_ab"]),
            replies=(first, second),
        )
        for row, answers in join_pairs(verdicts, replies)
        for first, second in [
            tuple(
                _read_presentation(
                    Verdict(row[f"verdict_{shown}"]),
                    [each for each in answers if each["presentation"] == shown],
                    counted=row[f"asking_{shown}"],
                    reply_format=reply_format,
                )
                for shown in PRESENTATIONS
            )
        ]
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
        "pairs_same_text": entrant.pairs_same_text,
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
