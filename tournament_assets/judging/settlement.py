"""Getting every planned request answered: resume, submit, wait, harvest, close.

Written against two protocols, a ledger and a batch service, so that it is tested without either.
The order of writes is what makes paid work safe: the intent is in the ledger before a batch is
created, the batch's id right after, every row as it is read, and the close comes last.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tournament_assets.judging.adoption import adopt_batch
from tournament_assets.judging.budgets import BudgetTerms
from tournament_assets.judging.collecting import collect_batches, give_up, harvest_ended
from tournament_assets.judging.direct import ask_directly
from tournament_assets.judging.harvesting import withhold_unparsable
from tournament_assets.judging.leasing import hold_lease
from tournament_assets.judging.records import (
    JudgingLedger,
    JudgingScope,
    OpenBatch,
    StoredReply,
    SubmittedBatch,
)
from tournament_assets.judging.remaining import WorkLeft, find_work_left
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.selections import Selection
from tournament_assets.judging.service import BatchService, Channel
from tournament_assets.judging.sessions import (
    JUDGE_REMEDY,
    Approval,
    JudgingProgress,
    JudgingSession,
    Listener,
    Tally,
    WaitingPolicy,
    tell_nobody,
)
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.judging.submission import create_batches, cut_batches, wait_for_room
from tournament_assets.tournament.errors import JudgeError, JudgeFailure

_FIRST, _SECOND = 1, 2


def approve_anything(_requests: Sequence[ModelRequest], _channel: Channel) -> None:
    """Let everything pass: there is no budget."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """How a settlement goes about its work.

    Attributes:
        policy: How long is waited for what.
        approve: Asked whether a plan can be paid before anything of it is sent.
        terms: What every single request is paid from; None sets no limit and knows no price.
        may_pay_again: Whether requests whose results are lost or unread may be asked again.
        reply_format: How the judge writes its verdict; None where a reply is no verdict, and is
            never asked for twice.
        on_final: Told of every final row once it is in the ledger.
        remedy: What a person can do if every request is refused as invalid.
    """

    policy: WaitingPolicy
    approve: Approval = approve_anything
    may_pay_again: bool = False
    reply_format: ReplyFormat | None = "line"
    on_final: Listener = tell_nobody
    remedy: str = JUDGE_REMEDY
    terms: BudgetTerms | None = None


def settle_requests(
    requests: Sequence[ModelRequest],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    service: BatchService,
    progress: JudgingProgress,
    options: JudgingOptions,
) -> Tally:
    """Ask for every reply that the ledger does not hold yet, and wait for it.

    A request that two pairs share is asked once. One that failed in passing is asked again in a
    few more batches, then by itself; one whose reply holds no verdict is asked once more. What
    still has no reply then is asked again by the next run. One whose result the service counts and
    does not hand out is not asked again without leave to pay again.

    Args:
        requests: What is wanted; each is built when it is looked at, several times.
        scope: Whose work it is.
        ledger: Where everything is written down.
        service: Who is asked.
        progress: Who is told.
        options: How.

    Raises:
        JudgeWaitingError: If a batch has not ended by the deadline, or somebody else is at work;
            what was received is in the ledger, and the next run goes on from there.
        JudgeError: If the service refuses; what was received is in the ledger.
        BudgetError: If asking would cost more than may be spent; what was received is in the
            ledger, and nothing was ever sent that the budget had no room for at `max_tokens`.
    """
    with hold_lease(ledger, scope, policy=options.policy, progress=progress) as lease:
        session = JudgingSession(
            lease=lease,
            ledger=ledger,
            service=service,
            policy=options.policy,
            progress=progress,
            approve=options.approve,
            may_pay_again=options.may_pay_again,
            reply_format=options.reply_format,
            on_final=options.on_final,
            remedy=options.remedy,
            terms=options.terms,
        )
        _Settlement(session, requests).run()
        return session.tally


class _Settlement:
    def __init__(self, session: JudgingSession, requests: Sequence[ModelRequest]) -> None:
        self._session = session
        self._requests = requests
        self._positions: dict[str, int] = {}
        for position, request in enumerate(requests):
            self._positions.setdefault(request.request_key, position)

    def run(self) -> None:
        session = self._session
        left = self._find_work_left()
        session.tally.total = left.total
        session.tally.answered = left.answered
        session.progress.advance(session.tally.answered, session.tally.total)
        if not session.may_pay_again:
            withhold_unparsable(session, {*left.unanswered, *left.unreadable})
            left = left.without(session.tally.withheld)
        if left.open_batches:
            self._resume(left.open_batches)
            left = self._find_work_left()
            session.tally.answered = left.answered
        if left.unanswered:
            self._ask(self._select(left.unanswered), asking=_FIRST)
            left = self._find_work_left()
        if left.unreadable:
            session.progress.note(f"{len(left.unreadable)} replies are unreadable; asking again")
            session.tally.second_questions += len(left.unreadable)
            self._ask(self._select(left.unreadable, left.unreadable), asking=_SECOND)

    def _find_work_left(self) -> WorkLeft:
        left = find_work_left(
            self._positions,
            scope=self._session.scope,
            ledger=self._session.ledger,
            reply_format=self._session.reply_format,
        )
        return left.without(self._session.tally.withheld)

    def _select(
        self, keys: Iterable[str], replies: Mapping[str, StoredReply] = MappingProxyType({})
    ) -> Selection:
        positions = [self._positions[key] for key in keys]
        cut_off = {
            self._positions[key]
            for key, reply in replies.items()
            if reply.stop_reason == "max_tokens"
        }
        return Selection(self._requests, positions, cut_off)

    def _resume(self, open_batches: Iterable[OpenBatch]) -> None:
        session = self._session
        batches: list[SubmittedBatch] = []
        unconfirmed: list[OpenBatch] = []
        for begun in open_batches:
            if begun.channel == "direct":
                # There is no name under which replies that were under way could be asked for.
                session.ledger.record_closed(begun.nonce, state="abandoned")
            elif begun.batch_id is None:
                unconfirmed.append(begun)
            else:
                session.progress.note(
                    f"taking up batch {begun.batch_id} ({begun.n_requests} requests)"
                )
                session.tally.resumed += 1
                batches.append(SubmittedBatch(begun.nonce, begun.batch_id, begun.begun_at))
        # What can be read now does not wait for what cannot be told yet.
        left = harvest_ended(session, batches, deadline_seconds=0.0)
        for begun in unconfirmed:
            adopted = self._adopt(begun)
            if adopted is not None:
                session.tally.resumed += 1
                left.append(adopted)
        collect_batches(session, left)

    def _adopt(self, begun: OpenBatch) -> SubmittedBatch | None:
        session = self._session
        try:
            adopted = adopt_batch(session, begun)
        except JudgeError as error:
            if error.failure is not JudgeFailure.LOST:
                raise
            give_up(session, begun.nonce, error)
            return None
        if adopted is None:
            session.tally.abandoned += begun.n_requests
            session.progress.note(
                f"batch {begun.nonce} never reached the service; its requests are asked again"
            )
            session.ledger.record_closed(begun.nonce, state="abandoned")
        return adopted

    def _ask(self, requests: Selection, *, asking: int) -> None:
        session = self._session
        session.approve(requests, "batch")
        session.check_model(requests[0].params["model"])
        for round_number in range(session.policy.max_rounds):
            if round_number:
                session.progress.note(f"asking {len(requests)} requests that failed again")
            self._submit(requests, asking=asking, may_prewarm=asking == _FIRST and not round_number)
            requests = self._unanswered(requests, asking=asking)
            if not requests:
                return
        if len(requests) > session.policy.max_direct:
            session.progress.note(
                f"{len(requests)} requests failed {session.policy.max_rounds} times; they stay "
                "without a reply until the next run"
            )
            return
        session.approve(requests, "direct")
        ask_directly(session, requests, asking=asking)

    def _submit(self, requests: Selection, *, asking: int, may_prewarm: bool) -> None:
        session = self._session
        prewarm_wait = session.policy.prewarm_wait_seconds
        uncollected: list[SubmittedBatch] = []
        if may_prewarm and prewarm_wait is not None and len(requests) > 1:
            session.progress.note("pre-warming the judge's prompt cache with one request")
            first = create_batches(session, requests[:1], asking=asking)
            uncollected = harvest_ended(session, first.batches, deadline_seconds=prewarm_wait)
            if uncollected:
                session.progress.note("the pre-warm batch is slow; the bulk goes out without it")
            requests = requests[first.n_requests :]
            # Others may have spent something while this one waited.
            session.approve(requests, "batch")
        waits = session.waits()
        while requests:
            part = next(cut_batches(requests))
            created = create_batches(session, part, asking=asking)
            uncollected += created.batches
            requests = requests[created.n_requests :]
            if created.n_requests == len(part):
                continue
            if uncollected:
                session.progress.note(
                    f"the budget has no room for {len(requests)} more requests at max_tokens; they "
                    "go out when it is known what those before them cost"
                )
                collect_batches(session, uncollected)
                uncollected = []
                waits = session.waits()
                session.approve(requests, "batch")
            elif not created.n_requests:
                wait_for_room(session, part[0], "batch", waits)
        collect_batches(session, uncollected)

    def _unanswered(self, requests: Selection, *, asking: int) -> Selection:
        keys = (request.request_key for request in requests)
        answered = self._session.ledger.answered_keys(keys, asking=asking)
        return requests.without(answered | self._session.tally.withheld)
