"""Prompts as rows of the tables `prompt_bank` and `selected_prompts`, and back.

Between the audit and the tables: what is read of replies, and a row for each entrant.

Pairs, replies and verdicts, from the tables that hold them.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, islice
from typing import Any

import pandas as pd

from tournament_assets.audits.missingness import (
    INFRASTRUCTURE,
    EntrantCoverage,
    PairReading,
    ReplyReading,
)
from tournament_assets.judging.requests.pairs import PRESENTATIONS, PairToJudge, Presentation
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.requests.verdict_parsing import (
    PresentedReply,
    ReplyFormat,
    classify_reply,
    settle_pairs,
    stored_outcome,
)
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.storage.tables import (
    AnyTable,
    iterate_rows,
    join_pairs,
    pair_key,
    table_rows,
)
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.tournament.verdicts import Judgment, Verdict


def prompt_rows(prompts: list[Prompt]) -> list[dict[str, Any]]:
    """Return prompts as rows of the table `prompt_bank`."""
    return [
        {
            "prompt_id": prompt.prompt_id,
            "text": prompt.text,
            "source": prompt.source,
            "subject": prompt.subject,
            "gold_answer": prompt.gold_answer,
            "expected_behavior": prompt.expected_behavior,
            "category": prompt.category,
            "tags": list(prompt.tags),
            "extra": json.dumps(dict(prompt.extra), sort_keys=True, ensure_ascii=False),
        }
        for prompt in prompts
    ]


def prompts_of(table: str, frame: pd.DataFrame) -> list[Prompt]:
    """Return the rows of the table `prompt_bank` or `selected_prompts` as prompts."""
    return [
        Prompt(**{**row, "tags": tuple(row["tags"]), "extra": json.loads(row["extra"])})
        for row in table_rows(table, frame)
    ]


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
    verdict: Verdict, attempts: Sequence[Row], *, counted: int, reply_format: ReplyFormat
) -> ReplyReading:
    failures = {
        row["asking"]: classify_reply(
            result_type=row["result_type"],
            stop_reason=row["stop_reason"],
            text=row["reply"],
            reply_format=reply_format,
        )
        for row in attempts
        if row["result_type"] != "identical"
    }
    if not verdict.is_decided:
        return ReplyReading(verdict, failures.get(counted))
    earlier = {failure for attempt, failure in failures.items() if attempt < counted}
    # A request whose batch expired or errored in passing has no reply of its own in the table: it
    # shows in that the reply that counts was asked for directly, outside any batch.
    was_asked_directly = any(row["asking"] == counted and row["rejudged_at"] for row in attempts)
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


PairName = tuple[str, str, str]

_JUDGMENT_NAMES = ("prompt_id", "dimension", "entrant_a", "entrant_b")


UNREAD = "unread"


_PAIR_COLUMNS = PairToJudge.__slots__


def pairs_of(match_list: AnyTable) -> list[PairToJudge]:
    """Return the rows of the table `match_list` as pairs, which share their texts."""
    # A response stands in a pair with every other entrant, and a prompt in all of its pairs.
    texts: dict[Any, Any] = {}
    return [
        PairToJudge(**{key: texts.setdefault(value, value) for key, value in row.items()})
        for row in iterate_rows("match_list", match_list, _PAIR_COLUMNS)
    ]


FindReplies = Callable[[Iterable[str]], Iterable[StoredReply]]


_REQUESTS_AT_ONCE = 1_000


def reply_rows(
    requests: Iterable[JudgeRequest],
    pairs: Sequence[PairToJudge],
    find_replies: FindReplies,
    rubric: Rubric,
    *,
    identical: Iterable[PairToJudge] = (),
    withheld: AbstractSet[str] = frozenset(),
) -> Iterator[dict[str, Any]]:
    """Yield the table `judge_replies`: a row for each presentation and reply to it.

    A presentation without a reply has one row as well, which says so, and whether it is one of the
    `withheld` requests, whose reply was paid for and could not be read. Replies are looked for as
    the rows are taken, some requests at a time.
    """
    sources = {pair.prompt_id: pair.source for pair in pairs}
    not_asked = {(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in identical}
    remaining = iter(requests)
    while part := list(islice(remaining, _REQUESTS_AT_ONCE)):
        by_key: dict[str, list[StoredReply]] = {}
        for reply in find_replies(request.request_key for request in part):
            by_key.setdefault(reply.request_key, []).append(reply)
        yield from _rows_of(part, by_key, sources, rubric, not_asked, withheld)


def _rows_of(
    requests: Iterable[JudgeRequest],
    by_key: Mapping[str, Sequence[StoredReply]],
    sources: Mapping[str, str],
    rubric: Rubric,
    not_asked: Container[tuple[str, str, str]],
    withheld: Container[str],
) -> Iterator[dict[str, Any]]:
    for request in requests:
        common = {
            "prompt_id": request.prompt_id,
            "source": sources[request.prompt_id],
            "dimension": rubric.dimension,
            "entrant_a": request.entrant_a,
            "entrant_b": request.entrant_b,
            "presentation": request.presentation.value,
            "request_key": request.request_key,
            "judge_model": request.params["model"],
            "rubric_version": rubric.version,
            "rubric_hash": rubric.content_hash,
        }
        if (request.prompt_id, request.entrant_a, request.entrant_b) in not_asked:
            yield {**common, "asking": 1, "result_type": "identical"}
            continue
        held = by_key.get(request.request_key)
        if held is None:
            reason = UNREAD if request.request_key in withheld else None
            yield {**common, "asking": 1, "result_type": "pending", "error_type": reason}
            continue
        for reply in held:
            yield {**common, **_reply_values(reply)}


def _reply_values(reply: StoredReply) -> dict[str, Any]:
    usage = reply.usage
    is_direct = reply.channel == "direct"
    return {
        "asking": reply.attempt,
        "result_type": reply.result_type,
        "channel": reply.channel,
        "stop_reason": reply.stop_reason,
        "reply": reply.text,
        "error_type": reply.error_type,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens if usage else None,
        "cache_read_input_tokens": usage.cache_read_input_tokens if usage else None,
        "rejudged_at": reply.received_at.isoformat() if is_direct else None,
    }


def judgments_of(verdicts: AnyTable) -> list[Judgment]:
    """Return the rows of the table `judge_verdicts` as judgments, which share their names."""
    names: dict[str, str] = {}
    return [
        Judgment(
            **{name: names.setdefault(row[name], row[name]) for name in _JUDGMENT_NAMES},
            outcome=stored_outcome(row["outcome"], row["reason_ab"]),
        )
        for row in iterate_rows(
            "judge_verdicts", verdicts, (*_JUDGMENT_NAMES, "outcome", "reason_ab")
        )
    ]


def settled_rows(
    replies: Iterable[Mapping[str, Any]], *, reply_format: ReplyFormat
) -> Iterator[dict[str, Any]]:
    """Settle the pairs of the table `judge_replies` into rows of the table `judge_verdicts`.

    Args:
        replies: Rows of one dimension; those about one pair follow one another.
        reply_format: How the judge was told to write its verdict.
    """
    for _, about_one_pair in groupby(replies, key=pair_key):
        yield from _settled(list(about_one_pair), reply_format)


def _settled(
    replies: Iterable[Mapping[str, Any]], reply_format: ReplyFormat
) -> Iterator[dict[str, Any]]:
    by_presentation = {row["presentation"]: row for row in replies}
    presented = (
        PresentedReply(
            prompt_id=row["prompt_id"],
            dimension=row["dimension"],
            entrant_a=row["entrant_a"],
            entrant_b=row["entrant_b"],
            presentation=Presentation(row["presentation"]),
            attempt=row["asking"],
            result_type=row["result_type"],
            stop_reason=row["stop_reason"],
            text=row["reply"],
        )
        for row in replies
    )
    for pair in settle_pairs(presented, reply_format=reply_format):
        judgment = pair.judgment
        ab, ba = (by_presentation[presentation] for presentation in PRESENTATIONS)
        yield {
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


def verdicts_of(row: Mapping[str, Any]) -> tuple[Verdict, Verdict]:
    """Return what the two replies to a pair of the table `judge_verdicts` say."""
    return Verdict(row["verdict_ab"]), Verdict(row["verdict_ba"])
