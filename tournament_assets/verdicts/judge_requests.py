"""What all steps that ask the judge share: access to the services, the budget, and asking."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tournament_assets.foundation.errors import BudgetError, JudgeError
from tournament_assets.foundation.formatting import format_plural, format_usd
from tournament_assets.judging.batch_service import AsksDirectly, Channel
from tournament_assets.judging.costs.prices import BudgetTerms, judge_prices
from tournament_assets.judging.requests.columns import keys_of
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.settlement.account import Account, RequestState, read_account
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.recovery import refuse_to_repay, rejudge_requests
from tournament_assets.judging.settlement.sessions import (
    Clock,
    JudgingSession,
    Piece,
    SettlementTerms,
    Sleep,
    Tally,
    one_at_a_time,
    run_together,
)
from tournament_assets.judging.settlement.settlement import collect_ended, settle_requests, try_out
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.judges import Judge
from tournament_assets.verdicts.spending_plans import ScopeApproval, SpendingPlan, judging_terms

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


class JudgeAccess(Protocol):
    """Access to the judging service: a `JudgeConnection`, or Dagster's resource around one."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables for services."""

    def service(self, config: Judge) -> AbstractContextManager[AsksDirectly]:
        """Connect to the service that a config names."""


class LedgerAccess(Protocol):
    """Access to the ledger, such as Dagster's resource."""

    def open(self) -> "AbstractContextManager[Ledger]":
        """Open the ledger and close it again."""


@contextmanager
def open_ledger(url: str) -> "Iterator[Ledger]":
    """Open a ledger and close it again.

    Args:
        url: Its SQLAlchemy URL.

    Raises:
        LedgerError: If it cannot be opened.
    """
    # SQLAlchemy takes a third as long to load as Dagster.
    from tournament_assets.ledger import Ledger

    with closing(Ledger(url)) as ledger:
        yield ledger


@dataclass(frozen=True)
class AskingOptions:
    """Options of one run.

    Attributes:
        judge_model: Ask this model instead of the configured one.
        skip_judging: Ask nothing: use only what the ledger holds.
        rejudge: Ask what failed again, one by one, instead of what was never answered.
        pay_again: Ask again for paid results that the service no longer keeps or does not hand out.
        allow_partial: Go on without those of several judges whose service fails; a later run asks
            them.
        wait_seconds: Wait this long for batches instead of the judge's waiting.slot_seconds.
        rubrics: The rubrics' texts by dimension when the run began, so that an edit meanwhile is
            the next run's; the files' unless given.
        instructions: The project's own instructions when the run began, where there are any.
        run_began_at: When the run that this step is a part of began, for a budget that is for one
            run.
    """

    judge_model: str | None = None
    skip_judging: bool = False
    rejudge: bool = False
    pay_again: bool = False
    allow_partial: bool = False
    wait_seconds: float | None = None
    rubrics: dict[str, str] | None = None
    instructions: str | None = None
    run_began_at: str | None = None

    @property
    def began_at(self) -> datetime | None:
        """When the run began; None if unknown."""
        return None if self.run_began_at is None else datetime.fromisoformat(self.run_began_at)


def missing_budget_problem(plan: TournamentPlan, mode: Mode, *, is_allowed: bool) -> str | None:
    """Return a message that a mode would be paid for without any limit, or None.

    A pilot needs no limit: it is cheap, and begun by hand.

    Args:
        mode: The mode that is judged.
        is_allowed: Whether the run allows judging without a budget.
    """
    if mode == "pilot" or is_allowed or plan.config.judging.budget.usd is not None:
        return None
    paid = [
        judge
        for judge in plan.config.judges_of(mode)
        if not (judge.row.is_free or judge_prices(plan.config).is_zero(judge.model))
    ]
    if not paid:
        return None
    return (
        f"the {mode} is judged by {paid[0].service!r}, which costs money, and judging.budget.usd "
        "is not set; expected the most dollars that may be spent; set it, or say that there is to "
        "be no limit: judging: {budget: {usd: unlimited}} in the config, or for one run "
        "--no-budget on the command line; "
        "ta.compare_answers takes budget=…"
    )


MOST_DIRECT = 500
"""The most requests left that `channel: auto` asks directly."""


@dataclass(frozen=True, slots=True)
class JudgeWork:
    """The requests to a judge as one scope's work.

    Attributes:
        scope: Whose work it is.
        judge: Who is asked, and how.
    """

    scope: JudgingScope
    requests: Sequence[JudgeRequest]
    judge: Judge


def ask_together(
    work: Sequence[JudgeWork],
    *,
    plan: TournamentPlan,
    ledger: "Ledger",
    judge: JudgeAccess,
    options: AskingOptions,
    log: Callable[[str], None],
    failed_since: datetime | None = None,
    allows_unbudgeted: bool = False,
) -> dict[JudgingScope, Tally]:
    """Get all unanswered requests of all scopes answered.

    What has ended is collected before anything is priced, refused or sent. Everything is sent
    before anything is waited for, and second attempts as soon as the first replies are read, so the
    wall-clock time is that of the slowest scope, not the sum of all. Each scope has its own lease;
    all share one ledger and one budget. A judge is only contacted if there is something to ask it.

    Args:
        work: What is asked, scope by scope.
        ledger: Where replies are kept.
        judge: Access to the services.
        options: The run's options.
        failed_since: Requests that failed since then have had their rounds in this run, and are
            not asked again.
        allows_unbudgeted: Whether a headline may be paid for without a budget.

    Raises:
        JudgeWaitingError: If a batch has not ended in time; it is kept.
        JudgeError: If a service refuses; what the other scopes were paid for is in the ledger.
        BudgetError: If asking would cost more than may be spent.
    """
    goes_on = options.allow_partial and len({part.judge.model for part in work}) > 1
    asking = _Asking(plan, ledger, options, one_at_a_time(log), goes_on, failed_since)
    accounts = {part.scope: asking.look(part) for part in work}
    totals = {
        scope: Tally(total=account.total, answered=account.total)
        for scope, account in accounts.items()
    }
    parts = [
        part
        for part in work
        if part.requests and (options.rejudge or not accounts[part.scope].is_done)
    ]
    if not parts:
        return totals
    with ExitStack() as stack:
        sessions = asking.open(parts, accounts, judge, stack)
        failures: dict[JudgingScope, JudgeError] = {}
        if options.rejudge:
            accounts.clear()  # keys are held for hours otherwise
            failures = asking.settle(rejudge_requests, parts, sessions)
        else:
            asking.collect(parts, accounts, sessions)
            # Judge checks and repeated requests are small, and approved by whoever begins them.
            for scope in accounts if not allows_unbudgeted else ():
                if scope.is_of_verdicts and accounts[scope].asks:
                    problem = missing_budget_problem(plan, scope.mode, is_allowed=False)
                    if problem is not None:
                        raise BudgetError(problem)
            asking.refuse_to_repay(parts, accounts, sessions)
            failures = asking.try_out(parts, accounts, sessions)
            ready = [part for part in parts if part.scope not in failures]
            sessions = asking.choose_channels(ready, accounts, sessions)
            asking.afford(ready, accounts, sessions)
            accounts.clear()
            failures |= asking.settle(settle_requests, ready, sessions)
    if failures and (not goes_on or len(failures) == len(totals)):
        raise next(iter(failures.values()))
    return totals | {scope: session.tally for scope, session in sessions.items()}


Accounts = dict[JudgingScope, Account]
Sessions = dict[JudgingScope, JudgingSession]


class _Asking:
    """The steps of asking several judges together.

    Args:
        log: Takes messages of several threads.
        goes_on: Whether the others are asked if a judge's service fails.
    """

    def __init__(
        self,
        plan: TournamentPlan,
        ledger: "Ledger",
        options: AskingOptions,
        log: Callable[[str], None],
        goes_on: bool,
        failed_since: datetime | None,
    ) -> None:
        self._plan, self._ledger, self._options = plan, ledger, options
        self._log, self._goes_on, self._failed_since = log, goes_on, failed_since

    def look(self, part: JudgeWork) -> Account:
        """Return what the ledger says of a scope's requests."""
        return read_account(
            part.requests,
            scope=part.scope,
            ledger=self._ledger,
            reply_format=self._plan.config.judging.reply_format,
        )

    def open(
        self, parts: Sequence[JudgeWork], accounts: Accounts, access: JudgeAccess, stack: ExitStack
    ) -> Sessions:
        """Connect to every service once, and begin a session for each scope."""
        judges = [part.judge for part in parts]
        places = share_places(judges)
        by_door: dict[object, Judge] = {judge.door: judge for judge in reversed(judges)}
        services = {door: stack.enter_context(access.service(by_door[door])) for door in places}
        since = self._options.began_at or datetime.now(UTC)
        budget = judging_terms(self._plan, since=since, judges=judges)
        self._spending = SpendingPlan(budget, ledger=self._ledger)
        sessions: Sessions = {}
        for part in parts:
            scope, door, account = part.scope, part.judge.door, accounts[part.scope]
            bar = JudgingBar(f"{scope.title} is judged", total=account.total, log=self._log)
            sessions[scope] = JudgingSession(
                scope=scope,
                ledger=self._ledger,
                service=services[door],
                progress=stack.enter_context(bar),
                terms=self._terms(scope, part.judge, budget),
                approval=ScopeApproval(self._spending, scope),
                places=places[door],
                tally=Tally(total=account.total, answered=account.answered),
                seen=account.seen,
            )
        return sessions

    def _terms(self, scope: JudgingScope, judge: Judge, budget: BudgetTerms) -> SettlementTerms:
        seconds = self._options.wait_seconds
        deadline = judge.waiting.slot_seconds if seconds is None else seconds
        return SettlementTerms(
            waiting=judge.waiting.model_copy(update={"deadline_seconds": deadline}),
            grace_seconds=judge.grace_seconds,
            prewarms=scope.is_of_verdicts and self._plan.config.mode(scope.mode).prewarm,
            may_pay_again=self._options.pay_again,
            failed_since=self._failed_since,
            reply_format=self._plan.config.judging.reply_format,
            budget=budget,
            max_batch_requests=judge.row.max_batch_requests,
            max_batch_bytes=judge.row.max_batch_bytes,
            max_in_flight=judge.max_in_flight,
        )

    def collect(self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions) -> None:
        """Read what has ended, which needs no budget and shows what it cost; look again."""
        begun = [part for part in parts if accounts[part.scope].open_batches]
        self._together(lambda session, _: collect_ended(session), self._ours(begun), sessions)
        self._look_again(begun, accounts, sessions)

    def _look_again(
        self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions
    ) -> None:
        for part in parts:
            account = accounts[part.scope] = self.look(part)
            sessions[part.scope].seen.become(account.seen)

    def refuse_to_repay(
        self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions
    ) -> None:
        """Refuse to ask for what was paid for and what the ledger has forgotten."""
        for door in dict.fromkeys(part.judge.door for part in parts):
            at_door = [part for part in parts if part.judge.door == door]
            left = [
                accounts[part.scope].select(RequestState.UNASKED, RequestState.UNREADABLE)
                for part in at_door
            ]
            if keys := {key for requests in left for key in keys_of(requests)}:
                is_free = all(is_free_model(part.judge.model) for part in at_door)
                refuse_to_repay(
                    keys,
                    ledger=self._ledger,
                    service=sessions[at_door[0].scope].service,
                    note=self._log,
                    config=str(self._plan.config_path),
                    may_pay_again=self._options.pay_again or is_free,
                )

    def try_out(
        self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions
    ) -> dict[JudgingScope, JudgeError]:
        """Ask a few requests of each scope before any is priced; return which judges failed.

        What another run is at work on is that run's to ask and to pay, until it lets go.

        Raises:
            BudgetError: If no reply could make the budget hold everything.
        """
        trying = [
            part
            for part in self._ours(parts)
            if sessions[part.scope].terms.prewarms
            and not accounts[part.scope].open_batches
            and len(accounts[part.scope].first) > 1
        ]
        if not trying:
            return {}
        self._plan_all(parts, accounts, sessions)
        self._spending.check(is_tried=False)
        failures = self._together(try_out, trying, sessions, goes_on=True)
        for scope in failures:
            self._spending.end(scope)
        self._look_again(trying, accounts, sessions)
        return failures

    def choose_channels(
        self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions
    ) -> Sessions:
        """Decide how each scope is asked, by what is left of all that may be asked either way."""
        of_mode = self._plan.config.channel_of
        choices = {part.scope: of_mode(part.scope.mode, part.judge) for part in parts}
        either = [scope for scope, choice in choices.items() if choice == "auto"]
        automatic: Channel = "direct" if self._fits_directly(either, accounts) else "batch"
        channels: dict[JudgingScope, Channel] = {
            scope: automatic if choice == "auto" else choice for scope, choice in choices.items()
        }
        return {
            scope: session
            if scope not in channels
            else replace(session, terms=replace(session.terms, channel=channels[scope]))
            for scope, session in sessions.items()
        }

    def _fits_directly(self, scopes: Sequence[JudgingScope], accounts: Accounts) -> bool:
        """Whether little enough is left to ask directly, and the budget holds its price."""
        n_left = sum(len(accounts[scope].first) for scope in scopes)
        if not 0 < n_left <= MOST_DIRECT:
            return False
        directly = SpendingPlan(self._spending.terms, ledger=self._ledger)
        for scope in scopes:
            directly.set(scope, accounts[scope].first, "direct", accounts[scope].seen)
        try:
            directly.check()
        except BudgetError:
            return False
        dollars = sum(cost.usd or 0.0 for cost in directly.costs())
        if dollars:
            saved = dollars * (1.0 - self._spending.terms.prices.discount("batch"))
            self._log(
                f"asking {format_plural(n_left, 'request')} directly, for about "
                f"{format_usd(dollars)}; in batches they would cost about {format_usd(saved)} "
                "less and take minutes to a day (channel: batch)"
            )
        return True

    def afford(self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions) -> None:
        """Plan what all scopes are still to ask, and refuse it where the budget does not hold it.

        Where something is still under way, each scope's plan is checked when its own is collected.

        Raises:
            BudgetError: If it does not.
        """
        self._plan_all(parts, accounts, sessions)
        if any(accounts[part.scope].open_batches for part in parts):
            return
        self._spending.check()
        if any(session.terms.prewarms for session in sessions.values()):
            self._say_expected()

    def _plan_all(self, parts: Sequence[JudgeWork], accounts: Accounts, sessions: Sessions) -> None:
        for part in self._ours(parts):
            session = sessions[part.scope]
            requests = accounts[part.scope].first
            self._spending.set(part.scope, requests, session.channel, session.seen)

    def _ours(self, parts: Sequence[JudgeWork]) -> list[JudgeWork]:
        """Return the parts that no other run is at work on."""
        at_work = self._ledger.leased_scopes()
        return [part for part in parts if part.scope not in at_work]

    def _say_expected(self) -> None:
        costs = [cost for cost in self._spending.costs() if cost.usd]
        if costs:
            n_requests = sum(cost.n_requests for cost in costs)
            least, most = (
                format_usd(sum(dollars))
                for dollars in zip(
                    *((cost.least_usd, cost.most_usd) for cost in costs), strict=True
                )
            )
            self._log(
                f"asking {format_plural(n_requests, 'request')} is expected to cost about "
                f"{format_usd(sum(cost.usd or 0.0 for cost in costs))}, by the replies so far; "
                f"from {least}, if the service always reads its cache, to {most}, if it never does"
            )

    def settle(
        self,
        settle: "Callable[[JudgingSession, Sequence[JudgeRequest]], object]",
        parts: Sequence[JudgeWork],
        sessions: Sessions,
    ) -> dict[JudgingScope, JudgeError]:
        """Get everything answered; return why services failed where the others went on."""

        def settle_one(session: JudgingSession, requests: Sequence[JudgeRequest]) -> None:
            try:
                settle(session, requests)
            finally:
                self._spending.end(session.scope)

        note = "the other judges go on, and a later run asks again"
        return self._together(settle_one, parts, sessions, note)

    def _together(
        self,
        step: "Callable[[JudgingSession, Sequence[JudgeRequest]], object]",
        parts: Sequence[JudgeWork],
        sessions: Sessions,
        note: str = "",
        *,
        goes_on: bool = False,
    ) -> dict[JudgingScope, JudgeError]:
        """Take a step of each scope at once; return which failed, where the others go on."""

        def take(part: JudgeWork, sleep: Sleep) -> JudgeError | None:
            session = replace(sessions[part.scope], clock=Clock(sleep=sleep))
            try:
                step(session, part.requests)
            except JudgeError as error:
                if not (goes_on or self._goes_on):
                    raise
                if note:
                    session.progress.note(f"{error}; {note}")
                return error
            return None

        pieces = [Piece(part.scope.title, partial(take, part)) for part in parts]
        results = run_together(pieces, log=self._log)
        by_scope = zip((part.scope for part in parts), results, strict=True)
        return {scope: error for scope, error in by_scope if error is not None}


def share_places(
    judges: Sequence[Judge],
) -> dict[object, Callable[[], AbstractContextManager[None]]]:
    """Return how requests in flight take a place, by the door where they are asked.

    At each door there are as many places as one of its judges allows, and at all doors together as
    many as one of all: so many direct replies, at the most, are lost with the process.
    """
    everywhere = threading.Semaphore(max(judge.max_in_flight for judge in judges))
    limits: dict[object, int] = {}
    for judge in judges:
        limits[judge.door] = max(judge.max_in_flight, limits.get(judge.door, 0))

    @contextmanager
    def hold(at_door: threading.Semaphore) -> Iterator[None]:
        with at_door, everywhere:
            yield

    return {door: partial(hold, threading.Semaphore(limit)) for door, limit in limits.items()}
