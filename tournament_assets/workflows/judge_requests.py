"""What all steps that ask the judge share: the way to it, what may be spent, and asking."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tournament_assets.judging.batch_service import BatchService, Channel
from tournament_assets.judging.costs.budgets import Budget, BudgetTerms
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
    judge_prices,
    load_newest_prices,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequest,
    JudgeRequests,
    ModelRequest,
    RequestSettings,
    build_requests,
)
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.recovery import refuse_to_repay
from tournament_assets.judging.settlement.rejudgment import rejudge_requests
from tournament_assets.judging.settlement.sessions import (
    Approval,
    JudgingOptions,
    Tally,
    WaitingPolicy,
)
from tournament_assets.judging.settlement.settlement import find_work_left, settle_requests
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.config import JudgeConfig, Mode, TournamentConfig
from tournament_assets.tournament.errors import BudgetError, InputError
from tournament_assets.tournament.judge_services import (
    ServiceConnection,
    is_free_model,
)
from tournament_assets.tournament.judges import Judge, ServiceAccess
from tournament_assets.tournament.rubrics import Rubric
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

    def service(self, config: ServiceAccess) -> AbstractContextManager[BatchService]:
        """Connect to the service that a config names."""


class LedgerAccess(Protocol):
    """What leads to the ledger; Dagster's resource is one."""

    def open(self) -> "AbstractContextManager[Ledger]":
        """Open the ledger and close it again."""


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

    def service(self, config: ServiceAccess) -> AbstractContextManager[BatchService]:
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        problems = judge_problems(config, self.variables)
        if problems:
            raise InputError(problems)
        module, _, function = config.row.opener.partition(":")
        connection = ServiceConnection(
            api_key=self.variables.get(config.key_variable, ""),
            base_url=config.url(self.variables),
            folder=self.loopback_folder,
            key_variable=config.key_variable,
        )
        opened: AbstractContextManager[BatchService]
        opened = getattr(import_module(module), function)(connection)
        return opened


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
    judge = config.judge
    if not judge.row.needs_price or model in judge_prices(config, model).models:
        return None
    return (
        f"judge.service is {judge.service!r} and no price of {model!r} is known; expected what a "
        f"million tokens cost; write judge: {{prices: {{{model}: {{input: 2.0, output: 8.0}}}}}}, "
        "with 0 for both where it costs nothing"
    )


def judging_terms(plan: TournamentPlan, *, since: datetime, model: str = "") -> BudgetTerms:
    """Return what judging is paid from, by another model than the configured ones if one is named.

    Raises:
        InputError: If the price of that model has to be known and is not.
    """
    judge = plan.config.judge
    problem = price_problem(plan.config, model) if model else None
    if problem is not None:
        raise InputError(problem)
    return BudgetTerms(
        prices=judge_prices(plan.config, *filter(None, [model])),
        limit_usd=None if judge.row.is_free else judge.budget_usd,
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


def build_approval(terms: BudgetTerms, *, ledger: "Ledger", judge_model: str) -> Approval:
    """Return what is asked before a plan is begun, and before each part of it: whether it fits.

    Requests are priced as if the cache were never hit, and replies at the length that those of
    this run had, or else those in the ledger. This keeps a plan from being begun that cannot be
    ended; what keeps the limit is that each request must fit at its most when it is sent.

    Args:
        terms: What may be spent.
        ledger: Where all tournaments' bills are.
        judge_model: The model that is asked.
    """
    begun_at = datetime.now(UTC)

    def approve(requests: Sequence[ModelRequest], channel: Channel) -> None:
        if terms.limit_usd is None or not requests:
            return  # nobody needs to know what it costs
        tokens_per_reply = observe_run(
            ledger, judge_model, since=begun_at, on_responses=terms.on_responses
        )
        most = max(request.params["max_tokens"] for request in requests)
        workload = measure_workload(
            requests, find_answered=_find_none, tokens_per_reply=min(tokens_per_reply, most)
        )
        budget = find_budget(terms, [workload], ledger=ledger)
        price = terms.prices.models.get(judge_model)
        planned = None
        if price is not None:
            planned = workload.dearest_usd(price, discount=terms.prices.discount(channel))
        noun = "request" if workload.to_ask == 1 else "requests"
        if budget is not None and not is_free_model(judge_model):
            what = f"asking {workload.to_ask:,} {noun} of {judge_model}"
            budget.check(planned, what=what, model=judge_model)

    return approve


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
        since: When the run began, for a budget that is for one run; now by default.
        allows_unbudgeted: Whether a headline may be paid for without a budget.
    """

    wait_seconds: float
    prewarms: bool = False
    may_pay_again: bool = False
    rejudges: bool = False
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
    model = plan.config.judge_model(mode)
    is_free = judge.row.is_free or judge_prices(plan.config).is_zero(model)
    if mode == "pilot" or is_free or is_settled:
        return None
    return (
        f"the {mode} is judged by {judge.service!r}, which costs money, and judge.budget_usd is "
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
            presentations=asking.presentations,
        ),
    )


def prewarms(plan: TournamentPlan, mode: Mode) -> bool:
    """Say whether a mode sends one request ahead of the others."""
    return plan.config.mode(mode).prewarm


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
    """Get every request answered that is not; the judge is only reached if there is something.

    Raises:
        JudgeWaitingError: If a batch has not ended in time; it is kept.
        JudgeError: If the service refuses.
        BudgetError: If asking would cost more than may be spent.
    """
    config = plan.config.judge
    left = find_work_left(
        (request.request_key for request in requests),
        scope=scope,
        ledger=ledger,
        reply_format=config.reply_format,
    )
    if not requests or (left.is_done and not step.rejudges):
        return Tally(total=left.total, answered=left.total)
    # Tests of the judge and asking again are small, and approved by whoever begins them.
    if scope.purpose == "verdicts" and not step.rejudges:
        problem = missing_budget_problem(plan, scope.mode, is_allowed=step.allows_unbudgeted)
        if problem is not None:
            raise BudgetError(problem)
    model = requests[0].params["model"]
    terms = judging_terms(plan, since=step.since or datetime.now(UTC), model=model)
    options = JudgingOptions(
        policy=_waiting_policy(config, step),
        approve=build_approval(terms, ledger=ledger, judge_model=model),
        terms=terms,
        may_pay_again=step.may_pay_again,
        reply_format=config.reply_format,
        has_batches=config.row.has_batches,
        max_in_flight=config.max_in_flight,
    )
    title = f"{scope.dimension} ({scope.mode}) is judged"
    with (
        judge.service(config) as service,
        JudgingBar(title, total=left.total, log=log) as progress,
    ):
        if left.unanswered and not step.rejudges:
            refuse_to_repay(
                frozenset(left.unanswered),
                ledger=ledger,
                service=service,
                progress=progress,
                command=f"tournament ledger recover --config {plan.config_path}",
                may_pay_again=step.may_pay_again or is_free_model(model),
            )
        work = rejudge_requests if step.rejudges else settle_requests
        return work(
            requests,
            scope=scope,
            ledger=ledger,
            service=service,
            progress=progress,
            options=options,
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
