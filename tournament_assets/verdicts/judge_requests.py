"""What all steps that ask the judge share: access to the services, the budget, and asking."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tournament_assets.foundation.errors import BudgetError, InputError, JudgeError
from tournament_assets.foundation.formatting import format_plural, format_usd, hint_at
from tournament_assets.judging.batch_service import AsksDirectly, Channel
from tournament_assets.judging.costs.estimates import (
    MIN_OBSERVED_REPLIES,
    Observation,
    Workload,
    assume_reply_tokens,
    mean_request_usd,
    measure_workload,
    observe_replies,
)
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetTerms,
    judge_prices,
    load_newest_prices,
    most_usd,
)
from tournament_assets.judging.requests.columns import (
    KeyPositions,
    ModelRequest,
    Selection,
    columns_of,
    keys_of,
)
from tournament_assets.judging.requests.requests import (
    JudgeRequest,
    effort_of,
)
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.recovery import refuse_to_repay, rejudge_requests
from tournament_assets.judging.settlement.sessions import (
    Approval,
    Clock,
    JudgingSession,
    Piece,
    SettlementTerms,
    Sleep,
    Tally,
    one_at_a_time,
    run_together,
)
from tournament_assets.judging.settlement.settlement import (
    WorkLeft,
    collect_ended,
    find_work_left,
    settle_requests,
)
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.judges import Judge

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


def observe_ledger(
    ledger: "Ledger", terms: BudgetTerms, model: str, effort: str | None = None
) -> tuple[Observation | None, float]:
    """Return a summary of a model's replies at an effort, and the tokens to expect of one."""
    spendings = ledger.spending_since(on_responses=terms.on_responses)
    observation = observe_replies(spendings, model, effort)
    if observation is None:
        return None, assume_reply_tokens(effort, terms.prices.models.get(model))
    return observation, observation.output_tokens_per_reply


def observe_run(
    ledger: "Ledger", terms: BudgetTerms, model: str, effort: str | None, *, since: datetime
) -> float:
    """Return the tokens to expect of a reply, learned from the replies since a run began.

    If they are few, they are averaged with the earlier expectation.
    """
    _, expected = observe_ledger(ledger, terms, model, effort)
    now = ledger.spending_since(since, on_responses=terms.on_responses)
    fresh = [spending for spending in now if spending.is_by(model, effort)]
    n_fresh = sum(spending.n_replies for spending in fresh)
    tokens = sum(spending.usage.output_tokens for spending in fresh)
    n_old = max(0, MIN_OBSERVED_REPLIES - n_fresh)
    return (tokens + n_old * expected) / (n_fresh + n_old)


def price_problem(config: TournamentConfig, judge: Judge) -> str | None:
    """Explain that a judge has no known price although its service may bill it, or None."""
    prices = judge_prices(config, judge.model).models
    if not judge.row.needs_price or judge.model in prices:
        return None
    return (
        f"the judge {judge.name!r} has service {judge.service!r} and no price of {judge.model!r} "
        "is known; expected what a million tokens cost; write judging: {prices: "
        f"{{{judge.model}: {{input: 2.0, output: 8.0}}}}}}, with 0 for both where it costs nothing"
        f"{hint_at(judge.model, prices, cutoff=0.8)}"
    )


def judging_terms(
    plan: TournamentPlan, *, since: datetime, judges: Collection[Judge]
) -> BudgetTerms:
    """Return the budget terms for some judges.

    Raises:
        InputError: If the price of one of them has to be known and is not.
    """
    budget = plan.config.judging.budget
    by_model = {judge.model: judge for judge in judges}
    texts = [price_problem(plan.config, by_model[model]) for model in sorted(by_model)]
    problems = [text for text in texts if text is not None]
    if problems:
        raise InputError(problems)
    return BudgetTerms(
        prices=judge_prices(plan.config, *by_model),
        limit_usd=None if all(judge.row.is_free for judge in judges) else budget.limit_usd,
        period=budget.period,
        began_at=since,
        max_tokens=max(judge.max_tokens for judge in judges),
    )


def response_terms(plan: TournamentPlan, *, since: datetime) -> BudgetTerms:
    """Return the budget terms for the responses of entrants behind an API."""
    budget = plan.config.generation.budget
    return BudgetTerms(
        prices=load_newest_prices(plan.config.judging.prices),
        limit_usd=budget.limit_usd,
        period=budget.period,
        began_at=since,
        on_responses=True,
        setting="generation.budget.usd",
    )


def find_budget(
    terms: BudgetTerms, workloads: Iterable[Workload], *, ledger: "Ledger"
) -> Budget | None:
    """Return the budget and what is known to be gone of it; None without a limit.

    Args:
        workloads: What is to be asked; other open requests are assumed to cost the same on average.
        ledger: Where all tournaments' bills are.
    """
    if terms.limit_usd is None:
        return None
    measured, prices = list(workloads), terms.prices

    def request_usd(model: str, channel: Channel) -> float | None:
        price = prices.models.get(model)
        if price is None:
            return None
        return mean_request_usd(measured, price, discount=prices.discount(channel))

    since = terms.counts_from
    return terms.draw_up(
        since,
        ledger.spending_since(since, on_responses=terms.on_responses),
        ledger.unbilled_batches(on_responses=terms.on_responses),
        request_usd=request_usd,
    )


def build_approval(terms: BudgetTerms, *, ledger: "Ledger") -> Approval:
    """Return the check that a plan fits the budget, called before it and before each part.

    Requests are priced as if the cache were never hit, and replies by the lengths seen in this run,
    or else in the ledger. This keeps a plan from being begun that cannot be finished; the limit
    itself is kept because each request must fit at its highest cost when it is sent.

    Args:
        ledger: Where all tournaments' bills are.
    """
    since = datetime.now(UTC)

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        check_affordable([(requests, channel)], terms=terms, ledger=ledger, since=since)

    return approve


def check_affordable(
    plans: Sequence[tuple[Sequence[ModelRequest], Channel]],
    *,
    terms: BudgetTerms,
    ledger: "Ledger",
    since: datetime,
) -> None:
    """Return if everything to be asked fits into the budget together.

    Args:
        plans: Lists of requests, each to one model, and how they are sent.
        ledger: Where all tournaments' bills are.
        since: When the run began whose replies give the expected length of the next ones.

    Raises:
        BudgetError: If it does not fit, or the price of a model is not known.
    """
    if terms.limit_usd is None:
        return  # nobody needs to know what it costs
    planned = list(_priced(plans, terms=terms, ledger=ledger, since=since))
    workloads = [workload for _, workload, _ in planned]
    budget = find_budget(terms, workloads, ledger=ledger) if workloads else None
    if budget is not None:
        models = [*dict.fromkeys(model for model, _, _ in planned)]
        unpriced = [model for model, _, dollars in planned if dollars is None]
        count = format_plural(sum(workload.to_ask for workload in workloads), "request")
        budget.check(
            None if unpriced else sum(dollars or 0.0 for _, _, dollars in planned),
            what=f"asking {count} of {', '.join(models)}",
            model=(unpriced or models)[0],
        )


def _priced(
    plans: Sequence[tuple[Sequence[ModelRequest], Channel]],
    *,
    terms: BudgetTerms,
    ledger: "Ledger",
    since: datetime,
) -> Iterator[tuple[str, Workload, float | None]]:
    """Yield the model, workload and dollars of each plan that is not free; None without a price."""
    for requests, channel in plans:
        model = requests[0].params["model"] if requests else ""
        if not requests or is_free_model(model):
            continue
        effort = effort_of(requests[0].params)
        tokens = observe_run(ledger, terms, model, effort, since=since)
        most = int(columns_of(requests).caps.max())
        workload = measure_workload(
            requests, find_answered=lambda _keys: frozenset(), tokens_per_reply=min(tokens, most)
        )
        price = terms.prices.models.get(model)
        discount = terms.prices.discount(channel)
        dollars = None if price is None else workload.dearest_usd(price, discount=discount)
        yield model, workload, dollars


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
    todo = {part.scope: asking.find(part) for part in work}
    totals = {scope: Tally(total=rest.total, answered=rest.total) for scope, rest in todo.items()}
    parts = [
        part for part in work if part.requests and (options.rejudge or not todo[part.scope].is_done)
    ]
    if not parts:
        return totals
    with ExitStack() as stack:
        sessions = asking.open(parts, todo, judge, stack)
        if options.rejudge:
            budget = asking.budget(parts)
        else:
            asking.collect(parts, todo, sessions)
            # Judge checks and repeated requests are small, and approved by whoever begins them.
            for scope in todo if not allows_unbudgeted else ():
                if scope.is_of_verdicts and todo[scope].asks:
                    problem = missing_budget_problem(plan, scope.mode, is_allowed=False)
                    if problem is not None:
                        raise BudgetError(problem)
            sessions = asking.choose_channels(parts, todo, sessions)
            budget = asking.afford(parts, todo, sessions)
        todo.clear()  # each settlement looks for itself, and keys are held for hours otherwise
        failures = asking.settle(parts, sessions, budget)
    if len(failures) == len(totals):
        raise failures[0]
    return totals | {scope: session.tally for scope, session in sessions.items()}


Todo = dict[JudgingScope, WorkLeft]
Sessions = dict[JudgingScope, JudgingSession]


@dataclass(frozen=True, slots=True)
class _Asking:
    """The steps of asking several judges together.

    Attributes:
        log: Takes messages of several threads.
        goes_on: Whether the others are asked if a judge's service fails.
    """

    plan: TournamentPlan
    ledger: "Ledger"
    options: AskingOptions
    log: Callable[[str], None]
    goes_on: bool
    failed_since: datetime | None

    def find(self, part: JudgeWork) -> WorkLeft:
        """Return what the ledger lacks."""
        return find_work_left(
            keys_of(part.requests),
            scope=part.scope,
            ledger=self.ledger,
            reply_format=self.plan.config.judging.reply_format,
            max_tokens=part.judge.max_tokens,
        )

    def open(
        self, parts: Sequence[JudgeWork], todo: Todo, access: JudgeAccess, stack: ExitStack
    ) -> Sessions:
        """Connect to every service once, and begin a session for each scope."""
        judges = [part.judge for part in parts]
        places = share_places(judges)
        by_door: dict[object, Judge] = {judge.door: judge for judge in reversed(judges)}
        services = {door: stack.enter_context(access.service(by_door[door])) for door in places}
        sessions: Sessions = {}
        for part in parts:
            scope, door, rest = part.scope, part.judge.door, todo[part.scope]
            bar = JudgingBar(f"{scope.title} is judged", total=rest.total, log=self.log)
            sessions[scope] = JudgingSession(
                scope=scope,
                ledger=self.ledger,
                service=services[door],
                progress=stack.enter_context(bar),
                terms=self._terms(scope, part.judge),
                places=places[door],
                tally=Tally(total=rest.total, answered=rest.answered),
            )
        return sessions

    def _terms(self, scope: JudgingScope, judge: Judge) -> SettlementTerms:
        seconds = self.options.wait_seconds
        deadline = judge.waiting.slot_seconds if seconds is None else seconds
        return SettlementTerms(
            waiting=judge.waiting.model_copy(update={"deadline_seconds": deadline}),
            grace_seconds=judge.grace_seconds,
            prewarms=scope.is_of_verdicts and self.plan.config.mode(scope.mode).prewarm,
            may_pay_again=self.options.pay_again,
            failed_since=self.failed_since,
            reply_format=self.plan.config.judging.reply_format,
            max_batch_requests=judge.row.max_batch_requests,
            max_batch_bytes=judge.row.max_batch_bytes,
            max_in_flight=judge.max_in_flight,
        )

    def collect(self, parts: Sequence[JudgeWork], todo: Todo, sessions: Sessions) -> None:
        """Read what has ended, which needs no budget and shows what it cost; look again."""
        begun = [part for part in parts if todo[part.scope].open_batches]
        at_work = self.ledger.leased_scopes()
        idle = [sessions[part.scope] for part in begun if part.scope not in at_work]
        self._together(idle, dict.fromkeys(todo, collect_ended))
        for part in begun:
            under_way = keys_under_way(self.ledger, part.scope)
            todo[part.scope] = self.find(part).without(under_way)

    def budget(self, parts: Sequence[JudgeWork]) -> BudgetTerms:
        """Return the terms of the budget that all share."""
        since = self.options.began_at or datetime.now(UTC)
        return judging_terms(self.plan, since=since, judges=[part.judge for part in parts])

    def choose_channels(
        self, parts: Sequence[JudgeWork], todo: Todo, sessions: Sessions
    ) -> Sessions:
        """Decide how each scope is asked, by what is left of all that may be asked either way."""
        of_mode = self.plan.config.channel_of
        choices = {part.scope: of_mode(part.scope.mode, part.judge) for part in parts}
        either = [part for part in parts if choices[part.scope] == "auto"]
        automatic: Channel = "direct" if self._fits_directly(either, todo) else "batch"
        channels: dict[JudgingScope, Channel] = {
            scope: automatic if choice == "auto" else choice for scope, choice in choices.items()
        }
        return {
            scope: replace(session, terms=replace(session.terms, channel=channels[scope]))
            for scope, session in sessions.items()
        }

    def _fits_directly(self, parts: Sequence[JudgeWork], todo: Todo) -> bool:
        """Whether little enough is left to ask directly, and the budget holds its price."""
        plans: list[tuple[Sequence[ModelRequest], Channel]] = [
            (self._left(part, todo), "direct") for part in parts
        ]
        n_left = sum(len(requests) for requests, _ in plans)
        if not 0 < n_left <= MOST_DIRECT:
            return False
        terms, since = self.budget(parts), datetime.now(UTC)
        try:
            check_affordable(plans, terms=terms, ledger=self.ledger, since=since)
        except BudgetError:
            return False
        priced = _priced(plans, terms=terms, ledger=self.ledger, since=since)
        known = [dollars for _, _, dollars in priced if dollars]
        if known:
            saved = sum(known) * (1.0 - terms.prices.discount("batch"))
            self.log(
                f"asking {format_plural(n_left, 'request')} directly, for about "
                f"{format_usd(sum(known))}; in batches they would cost about {format_usd(saved)} "
                "less and take minutes to a day (channel: batch)"
            )
        return True

    def _left(self, part: JudgeWork, todo: Todo) -> Selection:
        positions = KeyPositions(part.requests)
        return Selection(part.requests, [positions[key] for key in todo[part.scope].unanswered])

    def afford(self, parts: Sequence[JudgeWork], todo: Todo, sessions: Sessions) -> BudgetTerms:
        """Return the terms of the budget if it holds everything, and nothing is paid for twice."""
        terms = self.budget(parts)
        terms = replace(terms, is_tight=self._is_tight(parts, todo, sessions, terms))
        for door in dict.fromkeys(part.judge.door for part in parts):
            at_door = [part for part in parts if part.judge.door == door]
            rests = [todo[part.scope] for part in at_door]
            keys = {key for rest in rests for key in (*rest.unanswered, *rest.unreadable)}
            if keys:
                is_free = all(is_free_model(part.judge.model) for part in at_door)
                refuse_to_repay(
                    keys,
                    ledger=self.ledger,
                    service=sessions[at_door[0].scope].service,
                    note=self.log,
                    config=str(self.plan.config_path),
                    may_pay_again=self.options.pay_again or is_free,
                )
        return terms

    def settle(
        self, parts: Sequence[JudgeWork], sessions: Sessions, budget: BudgetTerms
    ) -> list[JudgeError]:
        """Get everything answered; return why services failed where the others went on."""
        settle = rejudge_requests if self.options.rejudge else settle_requests
        ready = [
            replace(
                session,
                terms=replace(session.terms, budget=budget),
                approve=build_approval(budget, ledger=self.ledger),
            )
            for session in sessions.values()
        ]
        steps = {part.scope: partial(settle, requests=part.requests) for part in parts}
        return self._together(ready, steps, "the other judges go on, and a later run asks again")

    def _together(
        self,
        sessions: Sequence[JudgingSession],
        steps: Mapping[JudgingScope, Callable[[JudgingSession], object]],
        note: str = "",
    ) -> list[JudgeError]:
        def take(session: JudgingSession, sleep: Sleep) -> JudgeError | None:
            try:
                steps[session.scope](replace(session, clock=Clock(sleep=sleep)))
            except JudgeError as error:
                if not self.goes_on:
                    raise
                if note:
                    session.progress.note(f"{error}; {note}")
                return error
            return None

        pieces = [Piece(session.scope.title, partial(take, session)) for session in sessions]
        return [error for error in run_together(pieces, log=self.log) if error is not None]

    def _is_tight(
        self, parts: Sequence[JudgeWork], todo: Todo, sessions: Sessions, terms: BudgetTerms
    ) -> bool:
        """Whether the budget does not hold all scopes together if each reply takes `max_tokens`."""
        budget = self.ledger.draw_up_budget(terms)
        if budget is None:
            return False
        plans = [(self._left(part, todo), sessions[part.scope].channel) for part in parts]
        # Where something is still under way, each scope is checked when its own has been collected.
        if len(parts) > 1 and not any(todo[part.scope].open_batches for part in parts):
            check_affordable(plans, terms=terms, ledger=self.ledger, since=datetime.now(UTC))
        prices = [most_usd(requests, terms.prices, channel) for requests, channel in plans]
        most = (dollars for of_plan in prices if of_plan is not None for dollars in of_plan)
        return budget.affordable(most) < sum(len(requests) for requests, _ in plans)


def keys_under_way(ledger: "Ledger", scope: JudgingScope) -> set[str]:
    """Return what is collected next; what was asked directly cannot be had any more."""
    begun = [batch for batch in ledger.open_batches(scope) if batch.channel == "batch"]
    return {key for batch in begun for key in ledger.batch_keys(batch.nonce)}


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
