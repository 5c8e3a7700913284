"""What all steps that ask the judge share: the way to it, what may be spent, and asking."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tournament_assets.judging.batch_service import AsksDirectly, Channel
from tournament_assets.judging.costs.estimates import (
    ASSUMED_OUTPUT_TOKENS,
    MIN_OBSERVED_REPLIES,
    Observation,
    Workload,
    mean_request_usd,
    measure_workload,
    observe_replies,
)
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetTerms,
    judge_prices,
    load_newest_prices,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequest,
    JudgeRequests,
    ModelRequest,
    RequestSettings,
    Selection,
    build_requests,
    first_positions,
    request_keys,
)
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.recovery import refuse_to_repay, rejudge_requests
from tournament_assets.judging.settlement.sessions import (
    Approval,
    JudgingOptions,
    Piece,
    Sleep,
    Tally,
    WaitingPolicy,
    one_at_a_time,
    run_together,
)
from tournament_assets.judging.settlement.settlement import (
    WorkLeft,
    find_work_left,
    settle_requests,
)
from tournament_assets.providers.openers import OPENERS
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.errors import BudgetError, InputError
from tournament_assets.tournament.judge_services import (
    ServiceConnection,
    is_free_model,
)
from tournament_assets.tournament.judges import Judge, JudgeConfig, Rubric, ServiceAccess
from tournament_assets.workflows.plan import TournamentPlan

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


def judge_problems(config: ServiceAccess, environment: Mapping[str, str]) -> list[str]:
    """Say what keeps the judge from being asked, before anything is spent."""
    problem = config.key_problem(environment)
    return [] if problem is None else [problem]


class JudgeAccess(Protocol):
    """What leads to the judging service: a `JudgeConnection`, or Dagster's resource around one."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What the environment says of services."""

    def service(self, config: ServiceAccess) -> AbstractContextManager[AsksDirectly]:
        """Connect to the service that a config names."""


class LedgerAccess(Protocol):
    """What leads to the ledger; Dagster's resource is one."""

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


@dataclass(frozen=True, slots=True)
class JudgeConnection:
    """Leads to the judging service that a tournament names.

    Attributes:
        loopback_folder: Where the loopback judge keeps the batches it was given.
        variables: What the environment says of services: their keys, and addresses that come
            before those of a config.
    """

    loopback_folder: Path
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path) -> "JudgeConnection":
        """Read what the environment says.

        Args:
            environment: The environment variables.
            folder: The project's folder, in which the ledger is.
        """
        return cls(folder / "ledger" / "loopback_judge", environment)

    def service(self, config: ServiceAccess) -> AbstractContextManager[AsksDirectly]:
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        problems = judge_problems(config, self.variables)
        if problems:
            raise InputError(problems)
        connection = ServiceConnection(
            api_key=self.variables.get(config.key_variable, ""),
            base_url=config.url(self.variables),
            folder=self.loopback_folder,
            key_variable=config.key_variable,
        )
        return OPENERS[config.row.name](connection)


def observe_ledger(
    ledger: "Ledger", judge_model: str, *, on_responses: bool = False
) -> tuple[Observation | None, float]:
    """Return what a model's replies were like, and the tokens to expect of one."""
    observation = observe_replies(ledger.spending_since(on_responses=on_responses), judge_model)
    if observation is None:
        return None, ASSUMED_OUTPUT_TOKENS
    return observation, observation.output_tokens_per_reply


def observe_run(
    ledger: "Ledger", judge_model: str, *, since: datetime, on_responses: bool = False
) -> float:
    """Return the tokens to expect of a reply, from what replies took since a run began.

    Too few of them are weighed with what was to be expected before.
    """
    _, expected = observe_ledger(ledger, judge_model, on_responses=on_responses)
    now = ledger.spending_since(since, on_responses=on_responses)
    fresh = [spending for spending in now if spending.judge_model == judge_model]
    n_fresh = sum(spending.n_replies for spending in fresh)
    tokens = sum(spending.usage.output_tokens for spending in fresh)
    n_old = max(0, MIN_OBSERVED_REPLIES - n_fresh)
    return (tokens + n_old * expected) / (n_fresh + n_old)


def price_problem(config: TournamentConfig, model: str) -> str | None:
    """Say that nobody knows what a judge costs whose service bills by models of any name, or None.

    Args:
        config: The tournament's.
        model: The model that is to judge.
    """
    panel = (each for each in config.judge.panel if each.model == model)
    judge: ServiceAccess = next(panel, config.judge)
    if not judge.row.needs_price or model in judge_prices(config, model).models:
        return None
    return (
        f"judge.service is {judge.service!r} and no price of {model!r} is known; expected what a "
        f"million tokens cost; write judge: {{prices: {{{model}: {{input: 2.0, output: 8.0}}}}}}, "
        "with 0 for both where it costs nothing"
    )


def judging_terms(
    plan: TournamentPlan, *, since: datetime, models: Iterable[str] = ()
) -> BudgetTerms:
    """Return what judging is paid from, by other models than the configured ones if any are named.

    Raises:
        InputError: If the price of one of them has to be known and is not.
    """
    judge, named = plan.config.judge, sorted(models)
    problems = [price_problem(plan.config, model) for model in named]
    known = [problem for problem in problems if problem is not None]
    if known:
        raise InputError(known)
    return BudgetTerms(
        prices=judge_prices(plan.config, *named),
        limit_usd=None if all(each.row.is_free for each in judge.accesses) else judge.budget_usd,
        period=judge.budget_period,
        began_at=since,
        max_tokens=judge.max_tokens,
    )


def response_terms(plan: TournamentPlan, *, since: datetime) -> BudgetTerms:
    """Return what the responses of entrants behind an API are paid from."""
    generation = plan.config.generation
    return BudgetTerms(
        prices=load_newest_prices(plan.config.judge.prices),
        limit_usd=generation.budget_usd,
        period=generation.budget_period,
        began_at=since,
        on_responses=True,
        setting="generation.budget_usd",
    )


def find_budget(
    terms: BudgetTerms, workloads: Iterable[Workload], *, ledger: "Ledger"
) -> Budget | None:
    """Return what may be spent and what is gone of it by all that is known; None without a limit.

    Args:
        terms: What may be spent.
        workloads: What is to be asked; other open requests are taken to cost as much as these.
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
    """Return what is asked before a plan is begun, and before each part of it: whether it fits.

    Requests are priced as if the cache were never hit, and replies at the length that those of
    this run had, or else those in the ledger. This keeps a plan from being begun that cannot be
    ended; what keeps the limit is that each request must fit at its most when it is sent.

    Args:
        terms: What may be spent.
        ledger: Where all tournaments' bills are.
    """
    since = datetime.now(UTC)

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        check_affordable([requests], channel, terms=terms, ledger=ledger, since=since)

    return approve


def check_affordable(
    asked: Sequence[Sequence[ModelRequest]],
    channel: Channel,
    *,
    terms: BudgetTerms,
    ledger: "Ledger",
    since: datetime,
) -> None:
    """Return if what is to be asked fits, all together, into what may be spent.

    Args:
        asked: Lists of requests; those of a list go to one model.
        channel: How they are sent.
        terms: What may be spent.
        ledger: Where all tournaments' bills are.
        since: When the run began whose replies tell how long the next ones will be.

    Raises:
        BudgetError: If it does not fit, or the price of a model is not known.
    """
    if terms.limit_usd is None:
        return  # nobody needs to know what it costs
    models: list[str] = []
    workloads: list[Workload] = []
    planned: list[float | None] = []
    for requests in asked:
        model = requests[0].params["model"] if requests else ""
        if not requests or is_free_model(model):
            continue
        tokens = observe_run(ledger, model, since=since, on_responses=terms.on_responses)
        most = max(request.params["max_tokens"] for request in requests)
        workload = measure_workload(
            requests, find_answered=_find_none, tokens_per_reply=min(tokens, most)
        )
        price = terms.prices.models.get(model)
        discount = terms.prices.discount(channel)
        planned.append(None if price is None else workload.dearest_usd(price, discount=discount))
        workloads.append(workload)
        models.append(model)
    budget = find_budget(terms, workloads, ledger=ledger) if workloads else None
    if budget is not None:
        known = [dollars for dollars in planned if dollars is not None]
        to_ask = sum(workload.to_ask for workload in workloads)
        noun = "request" if to_ask == 1 else "requests"
        budget.check(
            sum(known) if len(known) == len(planned) else None,
            what=f"asking {to_ask:,} {noun} of {', '.join(dict.fromkeys(models))}",
            model=next(
                (m for m, usd in zip(models, planned, strict=True) if usd is None), models[0]
            ),
        )


def _find_none(_keys: Iterable[str]) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class JudgingStep:
    """How one step asks.

    Attributes:
        wait_seconds: How long it waits for batches.
        prewarms: Whether it sends one request ahead to fill the prompt cache.
        may_pay_again: Whether requests whose results are lost or unread may be asked again.
        rejudges: Ask what failed again, one by one, instead of what was never answered.
        failed_since: Requests that failed since then have had their rounds in this run, and are
            not asked again.
        since: When the run began, for a budget that is for one run; now by default.
        allows_unbudgeted: Whether a headline may be paid for without a budget.
    """

    wait_seconds: float
    prewarms: bool = False
    may_pay_again: bool = False
    rejudges: bool = False
    failed_since: datetime | None = None
    since: datetime | None = None
    allows_unbudgeted: bool = False


UNBUDGETED_TAG = "tournament/unbudgeted"
"""The tag by which a run says that its headline may be judged without a budget: `yes`."""


def missing_budget_problem(plan: TournamentPlan, mode: Mode, *, is_allowed: bool) -> str | None:
    """Say that a mode would be paid for without a limit that anybody has set, or None.

    A pilot is cheap, and begun by hand.

    Args:
        plan: The tournament.
        mode: The mode that is judged.
        is_allowed: Whether the run itself says that it needs no budget.
    """
    judge = plan.config.judge
    is_settled = judge.budget_usd is not None or judge.allow_unbudgeted or is_allowed
    if mode == "pilot" or is_settled:
        return None
    paid = [
        each
        for each in plan.config.judges_of(mode)
        if not (each.row.is_free or judge_prices(plan.config).is_zero(each.model))
    ]
    if not paid:
        return None
    return (
        f"the {mode} is judged by {paid[0].service!r}, which costs money, and judge.budget_usd is "
        "not set; expected the most dollars that may be spent; set it, or say that there is to be "
        "none: judge.allow_unbudgeted: true in the config, or for one run --no-budget on the "
        f"command line and the tag {UNBUDGETED_TAG}: yes in the UI"
    )


def requests_for_pairs(
    plan: TournamentPlan, pairs: Sequence[PairToJudge], rubric: Rubric, *, judge: Judge
) -> JudgeRequests:
    """Build both presentations of some pairs as a tournament's config says, for one judge."""
    asking, rules = plan.config.judge, plan.config.dimensions[rubric.dimension]
    return build_requests(
        pairs,
        rubric,
        RequestSettings(
            judge_model=judge.model,
            max_tokens=asking.max_tokens,
            shows_gold_answer=rules.shows_gold_answer,
            shows_expected_behavior=rules.shows_expected_behavior,
            reply_format=asking.reply_format,
            domain=asking.domain,
            temperature=judge.temperature,
            identity=judge.identity,
        ),
    )


def prewarms(plan: TournamentPlan, mode: Mode) -> bool:
    """Say whether a mode sends one request ahead of the others."""
    return plan.config.mode(mode).prewarm


@dataclass(frozen=True, slots=True)
class Asking:
    """What a judge is asked as one scope's work.

    Attributes:
        scope: Whose work it is.
        requests: What is asked.
        judge: Who is asked, and how.
    """

    scope: JudgingScope
    requests: Sequence[JudgeRequest]
    judge: ServiceAccess

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.requests[0].params["model"])

    @property
    def access(self) -> ServiceAccess:
        """The service, whatever model of it is asked."""
        names = ServiceAccess.model_fields
        return ServiceAccess(**{name: getattr(self.judge, name) for name in names})


def ask_what_is_missing(
    requests: Sequence[JudgeRequest],
    *,
    plan: TournamentPlan,
    scope: JudgingScope,
    ledger: "Ledger",
    judge: JudgeAccess,
    step: JudgingStep,
    log: Callable[[str], None],
) -> Tally:
    """Get every request of one scope answered that is not; see `ask_together`."""
    asking = Asking(scope, requests, plan.config.judge)
    tallies = ask_together([asking], plan=plan, ledger=ledger, judge=judge, step=step, log=log)
    return tallies[scope]


def ask_together(
    askings: Sequence[Asking],
    *,
    plan: TournamentPlan,
    ledger: "Ledger",
    judge: JudgeAccess,
    step: JudgingStep,
    log: Callable[[str], None],
) -> dict[JudgingScope, Tally]:
    """Get every request of all scopes answered that is not.

    All is sent before anything is waited for, second questions as soon as what they follow is
    read: the wall clock is that of the slowest scope and not the sum of all. Each scope has its
    lease, and all have one ledger with one budget. A judge is only reached if there is something to
    ask it.

    Raises:
        JudgeWaitingError: If a batch has not ended in time; it is kept.
        JudgeError: If a service refuses; what the other scopes were paid for is in the ledger.
        BudgetError: If asking would cost more than may be spent.
    """
    left = {
        asking.scope: find_work_left(
            request_keys(asking.requests),
            scope=asking.scope,
            ledger=ledger,
            reply_format=plan.config.judge.reply_format,
        )
        for asking in askings
    }
    tallies = {scope: Tally(total=each.total, answered=each.total) for scope, each in left.items()}
    askings = [
        asking
        for asking in askings
        if asking.requests and (step.rejudges or not left[asking.scope].is_done)
    ]
    if not askings:
        return tallies
    models = {asking.model for asking in askings}
    terms = judging_terms(plan, since=step.since or datetime.now(UTC), models=models)
    told = one_at_a_time(log)
    with ExitStack() as stack:
        services: dict[ServiceAccess, AsksDirectly] = {}
        if not step.rejudges:
            _refuse_unbudgeted(askings, plan, step)
            _refuse_unaffordable(askings, left, terms, ledger)
        for access in dict.fromkeys(asking.access for asking in askings):
            services[access] = stack.enter_context(judge.service(access))
        places = {access: threading.Semaphore(access.max_in_flight) for access in services}
        if not step.rejudges:
            _refuse_to_repay(askings, left, services, plan, ledger, step, told)
        left.clear()  # each settlement looks for itself, and keys are held for hours otherwise

        def settle(asking: Asking, sleep: Sleep) -> Tally:
            scope, work = asking.scope, rejudge_requests if step.rejudges else settle_requests
            title = f"{scope.title} is judged"
            with JudgingBar(title, total=tallies[scope].total, log=told) as progress:
                return work(
                    asking.requests,
                    scope=scope,
                    ledger=ledger,
                    service=services[asking.access],
                    progress=progress,
                    options=JudgingOptions(
                        policy=replace(_waiting_policy(plan.config.judge, step), sleep=sleep),
                        approve=build_approval(terms, ledger=ledger),
                        terms=terms,
                        may_pay_again=step.may_pay_again,
                        failed_since=step.failed_since,
                        reply_format=plan.config.judge.reply_format,
                        max_batch_requests=asking.access.row.max_batch_requests,
                        max_batch_bytes=asking.access.row.max_batch_bytes,
                        max_in_flight=asking.access.max_in_flight,
                        places=places[asking.access],
                    ),
                )

        pieces = [Piece(asking.scope.title, partial(settle, asking)) for asking in askings]
        done = run_together(pieces, log=told)
    return tallies | {each.scope: tally for each, tally in zip(askings, done, strict=True)}


def _refuse_unbudgeted(askings: Iterable[Asking], plan: TournamentPlan, step: JudgingStep) -> None:
    # Tests of the judge and asking again are small, and approved by whoever begins them.
    for scope in (asking.scope for asking in askings if asking.scope.is_of_verdicts):
        problem = missing_budget_problem(plan, scope.mode, is_allowed=step.allows_unbudgeted)
        if problem is not None:
            raise BudgetError(problem)


def _refuse_unaffordable(
    askings: Sequence[Asking],
    left: Mapping[JudgingScope, WorkLeft],
    terms: BudgetTerms,
    ledger: "Ledger",
) -> None:
    """Refuse what fits scope by scope, and not together; each looks at its own by itself."""
    if terms.limit_usd is None or len(askings) == 1:
        return
    asked: list[Selection] = []
    for asking in askings:
        positions = first_positions(asking.requests)
        unanswered = [positions[key] for key in left[asking.scope].unanswered]
        asked.append(Selection(asking.requests, unanswered))
    in_batches = all(asking.access.row.channel == "batch" for asking in askings)
    channel: Channel = "batch" if in_batches else "direct"
    check_affordable(asked, channel, terms=terms, ledger=ledger, since=datetime.now(UTC))


def _refuse_to_repay(
    askings: Sequence[Asking],
    left: Mapping[JudgingScope, WorkLeft],
    services: Mapping[ServiceAccess, AsksDirectly],
    plan: TournamentPlan,
    ledger: "Ledger",
    step: JudgingStep,
    log: Callable[[str], None],
) -> None:
    for access, service in services.items():
        of_service = [asking for asking in askings if asking.access == access]
        unanswered = {
            key
            for work in (left[asking.scope] for asking in of_service)
            for key in (*work.unanswered, *work.unreadable)
        }
        if unanswered:
            is_free = all(is_free_model(asking.model) for asking in of_service)
            refuse_to_repay(
                unanswered,
                ledger=ledger,
                service=service,
                note=log,
                command=f"tournament ledger recover --config {plan.config_path}",
                may_pay_again=step.may_pay_again or is_free,
            )


def _waiting_policy(config: JudgeConfig, step: JudgingStep) -> WaitingPolicy:
    return WaitingPolicy(
        poll_initial_seconds=config.poll_initial_seconds,
        poll_max_seconds=config.poll_max_seconds,
        deadline_seconds=step.wait_seconds,
        prewarm_wait_seconds=config.prewarm_wait_seconds if step.prewarms else None,
        adopt_grace_seconds=config.grace_seconds,
        max_rounds=config.max_rounds,
        max_direct=config.max_direct,
    )
