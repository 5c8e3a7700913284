"""What is still to be done before every request of a scope has its reply."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby

from tournament_assets.judging.parsing import needs_second_question, read_reply
from tournament_assets.judging.records import JudgingLedger, JudgingScope, OpenBatch, StoredReply
from tournament_assets.judging.structured import ReplyFormat


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """What is still to be done before every request has its reply.

    Attributes:
        total: Distinct requests that are wanted.
        answered: Those with a final reply.
        unanswered: Keys of those without a final reply.
        unreadable: The last reply to each request that is to be asked once more, by key.
        open_batches: Batches that were begun and not closed.
    """

    total: int
    answered: int
    unanswered: tuple[str, ...]
    unreadable: Mapping[str, StoredReply]
    open_batches: tuple[OpenBatch, ...]

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not (self.unanswered or self.unreadable or self.open_batches)

    def without(self, withheld: AbstractSet[str]) -> "WorkLeft":
        """Return the same work less the requests that are not to be asked."""
        return replace(
            self,
            unanswered=tuple(key for key in self.unanswered if key not in withheld),
            unreadable={
                key: reply for key, reply in self.unreadable.items() if key not in withheld
            },
        )


def find_work_left(
    request_keys: Iterable[str],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    reply_format: ReplyFormat | None,
) -> WorkLeft:
    """Look in the ledger for what a settlement would do; nothing is sent.

    Args:
        request_keys: What is wanted.
        scope: Whose work it is.
        ledger: Where everything is written down.
        reply_format: How a verdict is written; None where a reply is no verdict, so that none is
            asked for twice.
    """
    unanswered = dict.fromkeys(request_keys)
    total = len(unanswered)
    unreadable: dict[str, StoredReply] = {}
    replies = ledger.iterate_replies(unanswered.keys())
    for key, askings in groupby(replies, key=lambda reply: reply.request_key):
        *_, last = askings
        unanswered.pop(key, None)
        # One that was asked more often and has a readable reply needs nothing more, nor does one
        # that was unreadable twice.
        if reply_format is not None and last.asking == 1 and is_unreadable(last, reply_format):
            unreadable[key] = last
    return WorkLeft(
        total=total,
        answered=total - len(unanswered),
        unanswered=tuple(unanswered),
        unreadable=unreadable,
        open_batches=tuple(ledger.open_batches(scope)),
    )


def is_unreadable(reply: StoredReply, reply_format: ReplyFormat) -> bool:
    """Whether a reply holds no verdict and is worth asking for once more."""
    verdict, _ = read_reply(
        result_type=reply.result_type,
        stop_reason=reply.stop_reason,
        text=reply.text,
        reply_format=reply_format,
    )
    return needs_second_question(verdict)
