"""Conversion between the tables of pairs, replies and verdicts and their objects.

Rows are written and read as their classes (`tournament.asset_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import groupby, islice
from typing import Any

from tournament_assets.audits.missingness import (
    INFRASTRUCTURE,
    PairReading,
    ReplyReading,
)
from tournament_assets.judging.batch_service import TOKEN_NAMES
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import ShownPair
from tournament_assets.judging.requests.verdict_parsing import (
    ReplyFormat,
    classify_reply,
    settle_pairs,
)
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.storage.tables import AnyTable, PairKey, join_pairs, pair_key, rows_of
from tournament_assets.tournament.asset_rows import (
    JudgeReplyRow,
    VerdictRow,
)
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.verdicts import Judgment, Verdict


def pair_readings(
    verdicts: AnyTable,
    replies: AnyTable,
    *,
    reply_format: ReplyFormat,
    in_batches: Container[str],
) -> list[PairReading]:
    """Join settled pairs with the readings of all replies to them.

    Args:
        verdicts: The table `judge_verdicts` of one dimension.
        replies: The table `judge_replies` of the same dimension, in the same order of pairs.
        reply_format: How the judge was told to write its verdict.
        in_batches: The judges that are asked in batches: their direct replies are second tries.
    """
    return [
        PairReading.of(
            row,
            stratum=row.source,
            replies=tuple(
                _read_presentation(answers, key, verdict, attempt, reply_format, in_batches)
                for own in _of_each_judge(row, answers, reply_format)
                for key, verdict, attempt in (
                    (own.request_key_ab, own.verdict_ab, own.attempt_ab),
                    (own.request_key_ba, own.verdict_ba, own.attempt_ba),
                )
            ),
        )
        for row, answers in join_pairs(
            rows_of(VerdictRow, verdicts), rows_of(JudgeReplyRow, replies)
        )
    ]


def _of_each_judge(
    row: VerdictRow, answers: Sequence[JudgeReplyRow], reply_format: ReplyFormat
) -> Sequence[VerdictRow]:
    """Return how each judge settled a pair; replies are only read again if there are several."""
    if len({each.judge_model for each in answers}) < 2:
        return [row]
    return settle_pairs(answers, reply_format=reply_format)


def _read_presentation(
    answers: Sequence[JudgeReplyRow],
    request_key: str,
    verdict: Verdict,
    counted: int,
    reply_format: ReplyFormat,
    in_batches: Container[str],
) -> ReplyReading:
    attempts = [each for each in answers if each.request_key == request_key]
    # A reply that holds its verdict is not read again.
    failures = {
        row.attempt: classify_reply(
            result_type=row.result_type,
            stop_reason=row.stop_reason,
            text=row.reply,
            reply_format=reply_format,
        )
        for row in attempts
        if row.result_type != "identical" and not (verdict.is_decided and row.attempt == counted)
    }
    if not verdict.is_decided:
        return ReplyReading(verdict, failures.get(counted))
    earlier = {failure for attempt, failure in failures.items() if attempt < counted}
    # A request whose batch expired or failed transiently has no reply of its own in the table: it
    # is recognised by the reply that counts, which was asked for directly, outside any batch.
    was_asked_again = any(
        row.attempt == counted and row.channel == "direct" and row.judge_model in in_batches
        for row in attempts
    )
    return ReplyReading(
        verdict,
        was_rejudged=bool(earlier & INFRASTRUCTURE) or (was_asked_again and not earlier),
    )


UNREAD = "unread"


def pairs_of(match_list: AnyTable) -> list[PairToJudge]:
    """Return the rows of the table `match_list` as pairs, which share their texts."""
    # A response occurs in a pair with every other entrant, and a prompt in all of its pairs.
    return list(rows_of(PairToJudge, match_list, shares_texts=True))


FindReplies = Callable[[Iterable[str]], Iterable[StoredReply]]
NoteModel = Callable[[str, str | None], None]


_REQUESTS_AT_ONCE = 1_000


def reply_rows(
    requests: Iterable[ShownPair],
    pairs: Sequence[PairToJudge],
    find_replies: FindReplies,
    rubric: Rubric,
    *,
    identical: Iterable[PairToJudge] = (),
    withheld: AbstractSet[str] = frozenset(),
    note_model: NoteModel = lambda _asked, _answering: None,
) -> Iterator[JudgeReplyRow]:
    """Yield the table `judge_replies`: a row for each presentation and reply to it.

    A presentation without a reply has one row too, which says so, and whether it is one of the
    `withheld` requests, whose reply was paid for and could not be read. Replies are looked up
    lazily, some requests at a time; `note_model` takes the model that each was asked of, and the
    one that it names.
    """
    sources = {pair.prompt_id: pair.source for pair in pairs}
    not_asked = {pair_key(pair) for pair in identical}
    remaining = iter(requests)
    while part := list(islice(remaining, _REQUESTS_AT_ONCE)):
        by_key: dict[str, list[StoredReply]] = {}
        for reply in find_replies(request.request_key for request in part):
            by_key.setdefault(reply.request_key, []).append(reply)
        yield from _rows_of(part, by_key, sources, rubric, not_asked, withheld, note_model)


def _rows_of(
    requests: Iterable[ShownPair],
    by_key: Mapping[str, Sequence[StoredReply]],
    sources: Mapping[str, str],
    rubric: Rubric,
    not_asked: Container[PairKey],
    withheld: Container[str],
    note_model: NoteModel,
) -> Iterator[JudgeReplyRow]:
    for request in requests:
        row = partial(
            JudgeReplyRow,
            prompt_id=request.prompt_id,
            sample=request.sample,
            source=sources[request.prompt_id],
            dimension=rubric.dimension,
            entrant_a=request.entrant_a,
            entrant_b=request.entrant_b,
            presentation=request.presentation.value,
            request_key=request.request_key,
            judge_model=request.model,
            rubric_version=rubric.version,
            rubric_hash=rubric.content_hash,
        )
        if pair_key(request) in not_asked:
            yield row(attempt=1, result_type="identical")
            continue
        held = by_key.get(request.request_key)
        if held is None:
            reason = UNREAD if request.request_key in withheld else None
            yield row(attempt=1, result_type="pending", error_type=reason)
            continue
        for reply in held:
            tokens: dict[str, Any] = {
                name: getattr(reply.usage, name, None) for name in TOKEN_NAMES
            }
            if reply.result_type == "succeeded":
                note_model(request.model, reply.model)
            yield row(
                **tokens,
                attempt=reply.attempt,
                result_type=reply.result_type,
                channel=reply.channel,
                stop_reason=reply.stop_reason,
                reply=reply.text,
                error_type=reply.error_type,
            )


def judgments_of(verdicts: AnyTable) -> list[Judgment]:
    """Return the rows of the table `judge_verdicts` as judgments, which share their names."""
    return [*rows_of(Judgment, verdicts, shares_texts=True)]


def settled_rows(
    replies: Iterable[JudgeReplyRow], *, reply_format: ReplyFormat
) -> Iterator[VerdictRow]:
    """Settle the pairs of the table `judge_replies` into rows of the table `judge_verdicts`.

    Args:
        replies: Rows of one dimension; those about one pair follow one another.
        reply_format: How the judges were told to write their verdicts.

    Yields:
        A row for each pair and judge, in the order of the replies.
    """
    for _, about_one_pair in groupby(replies, key=pair_key):
        yield from settle_pairs(about_one_pair, reply_format=reply_format)
