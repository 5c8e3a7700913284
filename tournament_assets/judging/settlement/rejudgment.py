"""Asking again what failed for reasons that lie with the judge: one by one, answered at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tournament_assets.judging.batch_service import BatchService
from tournament_assets.judging.requests.requests import JudgeRequest, Selection, first_positions
from tournament_assets.judging.requests.verdict_parsing import (
    FailureClass,
    ReplyFormat,
    classify_reply,
)
from tournament_assets.judging.settlement.records import JudgingLedger, JudgingScope
from tournament_assets.judging.settlement.sessions import (
    JudgingOptions,
    JudgingProgress,
    Tally,
    open_session,
)
from tournament_assets.judging.settlement.settlement import ask_directly

_BY_RESULT = {kind.value: kind for kind in FailureClass}


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that was asked and has no verdict.

    Attributes:
        request_key: The request.
        failure: Why.
        attempt: Which attempt would be the next one.
    """

    request_key: str
    failure: FailureClass
    attempt: int


def find_failed_requests(
    request_keys: Iterable[str],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    reply_format: ReplyFormat,
) -> dict[str, FailedRequest]:
    """Return the requests whose every attempt failed, by key; nothing is sent.

    A request that was never sent has not failed, nor has one that is in a batch under way.
    """
    keys = list(dict.fromkeys(request_keys))
    failed = {
        key: FailedRequest(key, _failure_of(words), attempt=1)
        for key, words in ledger.failed_keys(keys).items()
    }
    replies = ledger.iterate_replies(keys)
    for key, attempts in groupby(replies, key=lambda reply: reply.request_key):
        of_key = list(attempts)
        found = [
            classify_reply(
                result_type=reply.result_type,
                stop_reason=reply.stop_reason,
                text=reply.text,
                reply_format=reply_format,
            )
            for reply in of_key
        ]
        if None in found:
            failed.pop(key, None)
        elif found[-1] is not None:
            failed[key] = FailedRequest(key, found[-1], of_key[-1].attempt + 1)
    under_way: set[str] = set()
    for batch in ledger.open_batches(scope):
        under_way |= ledger.batch_keys(batch.nonce)
    return {key: failed[key] for key in keys if key in failed and key not in under_way}


def rejudge_requests(
    requests: Sequence[JudgeRequest],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    service: BatchService,
    progress: JudgingProgress,
    options: JudgingOptions,
) -> Tally:
    """Ask every request that failed once more, outside any batch.

    A reply that is kept already stays; the new one is kept beside it, and counts if it is the
    first that holds a verdict.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
        JudgeError: If the service refuses; what was received is in the ledger.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
        ValueError: If the replies are no verdicts.
    """
    if options.reply_format is None:
        raise ValueError("these replies are not verdicts; expected a format to read them in")
    positions = first_positions(requests)
    with open_session(
        scope, ledger=ledger, service=service, progress=progress, options=options
    ) as session:
        session.tally.total = len(positions)
        failed = find_failed_requests(
            positions, scope=scope, ledger=ledger, reply_format=options.reply_format
        ).values()
        session.tally.answered = len(positions) - len(failed)
        if failed:
            selected = Selection(requests, [positions[each.request_key] for each in failed])
            options.approve(selected, "direct")
            session.check_model(selected[0].params["model"])
        in_turn = sorted(failed, key=lambda each: each.attempt)
        for attempt, group in groupby(in_turn, key=lambda each: each.attempt):
            members = list(group)
            cut_off = {
                positions[each.request_key]
                for each in members
                if each.failure is FailureClass.CUT_OFF
            }
            selected = Selection(
                requests, [positions[each.request_key] for each in members], cut_off
            )
            ask_directly(session, selected, attempt=attempt)
        return session.tally


def _failure_of(words: str) -> FailureClass:
    """Read how a request failed in passing: the result's type, or the name of its error."""
    return _BY_RESULT.get(words, FailureClass.ERRORED)
