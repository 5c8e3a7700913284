"""How often the judge writes about length."""

import re

from tournament_assets.extension import (
    Estimate,
    JudgeEvidence,
    JudgeReplyRow,
    Measure,
    measure_by_prompt,
    rows_of,
)

_LENGTH = re.compile(r"\b(length|long(er)?|short(er)?|words?)\b", re.IGNORECASE)


def mentions_of_length(evidence: JudgeEvidence) -> Estimate:
    """Measure how many replies mention length."""
    replies = rows_of(JudgeReplyRow, evidence.replies)
    return measure_by_prompt(
        (row.prompt_id, bool(_LENGTH.search(row.reply))) for row in replies if row.reply
    )


ROWS = (
    Measure(
        "length_mentions",
        "mentions of length",
        "Of the replies, this share mentions length.",
        "Read some of them.",
        "share",
        "reply",
        find=mentions_of_length,
    ),
)
