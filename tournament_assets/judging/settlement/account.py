"""The account of some requests: the state of each in the ledger, and what replies were like.

Whoever plans, prices, caps, asks, collects or shows requests reads their state here and nowhere
else, so that no request is both to be asked and under way.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tournament_assets.judging.requests.columns import (
    CountedRequests,
    KeyPositions,
    ModelRequest,
    Selection,
    columns_of,
)
from tournament_assets.judging.requests.verdict_parsing import (
    ReplyFormat,
    needs_second_question,
    read_reply,
)
from tournament_assets.judging.settlement.harvest import is_invalid
from tournament_assets.judging.settlement.records import (
    JudgingLedger,
    JudgingScope,
    OpenBatch,
    StoredReply,
)
from tournament_assets.judging.settlement.sessions import SeenReplies
from tournament_assets.judging.settlement.trial import Trial


class RequestState(IntEnum):
    """Where a request stands."""

    REPEATED = 0
    """It stands for one with the same key that comes earlier."""
    UNASKED = 1
    """It has no reply, and none is under way: it is to be asked."""
    UNDER_WAY = 2
    """It is in a batch that was begun and not closed: it is collected, and costs its reserve."""
    ANSWERED = 3
    """It has its reply, and is billed."""
    UNREADABLE = 4
    """Its only reply holds no verdict: it is to be asked once more."""
    REFUSED = 5
    """The service refused it for good, and billed nothing."""
    GIVEN_UP = 6
    """This run leaves it: it failed in its rounds, or was paid for and cannot be read."""


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """The states of some requests.

    Attributes:
        requests: All of them.
        states: A `RequestState` for each, (n_requests,).
        has_reply: Whether each has one, whatever its state, (n_requests,).
        cut_off: Positions of unreadable ones whose reply was cut off.
        open_batches: Batches of the scope that were begun and not closed.
        trial: What the last reply to each was like.
        seen: What their sizes were.
    """

    requests: Sequence[ModelRequest]
    states: NDArray[np.uint8]
    has_reply: NDArray[np.bool_]
    cut_off: frozenset[int]
    open_batches: tuple[OpenBatch, ...]
    trial: Trial
    seen: SeenReplies

    def count(self, *states: RequestState) -> int:
        """Count the requests in some states."""
        return int(np.isin(self.states, states).sum())

    @property
    def total(self) -> int:
        """Distinct requests."""
        return len(self.states) - self.count(RequestState.REPEATED)

    @property
    def answered(self) -> int:
        """Those with a final reply."""
        return int(self.has_reply.sum())

    def select(self, *states: RequestState) -> Selection:
        """Return the requests in some states; those that were cut off get more room."""
        chosen = np.flatnonzero(np.isin(self.states, states))
        return Selection(self.requests, chosen, self.cut_off)

    def counted(self, *, identical: int = 0) -> CountedRequests:
        """Return the distinct ones, beside some presentations that are settled without asking."""
        first = np.flatnonzero(self.states != RequestState.REPEATED)
        return CountedRequests(
            columns_of(self.requests).take(first),
            answered=self.has_reply[first],
            under_way=np.equal(self.states, RequestState.UNDER_WAY)[first] & ~self.has_reply[first],
            presentations=len(self.requests) + identical,
            identical=identical,
        )

    @property
    def first(self) -> Selection:
        """What is to be asked for the first time."""
        return self.select(RequestState.UNASKED)

    @property
    def second(self) -> Selection:
        """What is to be asked once more; nothing where so much is that it would be in vain."""
        return self.select(*([] if self.trial.has_failed else [RequestState.UNREADABLE]))

    @property
    def asks(self) -> bool:
        """Whether something is to be asked."""
        return bool(self.first or self.second)

    @property
    def is_done(self) -> bool:
        """Whether nothing is to be asked or collected."""
        return not (self.asks or self.open_batches)


def read_account(
    requests: Sequence[ModelRequest],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    reply_format: ReplyFormat | None,
    is_usable: Callable[[StoredReply], bool] = lambda _: True,
    left_out: AbstractSet[str] = frozenset(),
) -> Account:
    """Read the state of each request from the ledger; nothing is sent.

    Args:
        scope: Whose batches are looked at.
        reply_format: How a judge writes its verdict; None where replies are no verdicts.
        is_usable: Whether a reply that is no verdict holds what was asked for.
        left_out: Keys of requests that this run does not ask any more.
    """
    positions, columns = KeyPositions(requests), columns_of(requests)
    states = np.zeros(len(requests), dtype=np.uint8)
    states[positions.first] = RequestState.UNASKED
    has_reply = np.zeros(len(requests), dtype=bool)
    cut_off: set[int] = set()
    trial, seen = Trial(len(positions), reply_format), SeenReplies()
    replies = ledger.iterate_replies(positions)
    for key, attempts in groupby(replies, key=lambda reply: reply.request_key):
        *_, last = attempts
        position = positions[key]
        has_reply[position] = True
        characters = columns.characters[position] + columns.prefix_characters[position]
        seen.add(last, characters=int(characters))
        states[position] = _state_of(last, int(columns.caps[position]), trial, is_usable)
        if states[position] == RequestState.UNREADABLE and last.stop_reason == "max_tokens":
            cut_off.add(position)
    open_batches = tuple(ledger.open_batches(scope))
    under_way = [ledger.batch_keys(each.nonce) for each in open_batches if each.channel == "batch"]
    for state, keys in [
        (RequestState.GIVEN_UP, left_out),
        *((RequestState.UNDER_WAY, keys) for keys in under_way),
    ]:
        of_ours = (positions[key] for key in keys if key in positions)
        places = np.fromiter(of_ours, dtype=np.int64)
        is_open = np.isin(states[places], (RequestState.UNASKED, RequestState.UNREADABLE))
        states[places[is_open]] = state
    return Account(requests, states, has_reply, frozenset(cut_off), open_batches, trial, seen)


def _state_of(
    last: StoredReply, max_tokens: int, trial: Trial, is_usable: Callable[[StoredReply], bool]
) -> RequestState:
    """Return what the last reply to a request makes of it; the trial counts it."""
    if trial.reply_format is not None and _is_cut_early(last, max_tokens):
        # It says nothing about the judge, and is always asked for again.
        return RequestState.UNREADABLE
    verdict = trial.add(last)
    # One that was asked more often and has a readable reply needs nothing more, nor does one that
    # was unreadable twice.
    is_lacking = not is_usable(last) if verdict is None else needs_second_question(verdict)
    if is_invalid(last):
        return RequestState.REFUSED
    return RequestState.UNREADABLE if last.attempt == 1 and is_lacking else RequestState.ANSWERED


def _is_cut_early(reply: StoredReply, max_tokens: int) -> bool:
    """Whether a reply was cut off by a lower cap: of batches alone, and at first."""
    return (
        (reply.channel, reply.attempt, reply.stop_reason) == ("batch", 1, "max_tokens")
        and reply.usage is not None
        and reply.usage.output_tokens < max_tokens
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
