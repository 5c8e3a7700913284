"""Pairs, replies and verdicts, from the tables that hold them."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby, islice
from typing import Any

from tournament_assets.adapters.tables import (
    AnyTable,
    iterate_rows,
    pair_key,
)
from tournament_assets.judging.pairing import PRESENTATIONS, PairToJudge, Presentation
from tournament_assets.judging.reconciliation import (
    PresentedReply,
    settle_pairs,
    stored_outcome,
)
from tournament_assets.judging.records import StoredReply
from tournament_assets.judging.requests import JudgeRequest
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.tournament.verdicts import Judgment, Verdict

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
        "asking": reply.asking,
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
            asking=row["asking"],
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
