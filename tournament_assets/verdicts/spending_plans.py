"""What a run is still going to ask, what that is expected to cost, and whether the budget holds it.

Prices follow from what is known: from a scope's own replies once there are a few, such as those of
its trial; before that from the ledger's replies of the model, or from what is assumed.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import format_plural, hint_at
from tournament_assets.judging.batch_service import Channel
from tournament_assets.judging.costs.estimates import (
    CHARACTERS_PER_TOKEN,
    SHORT_REPLY,
    Observation,
    Workload,
    assume_reply_tokens,
    mean_request_usd,
    observe_replies,
    sum_known,
)
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetTerms,
    judge_prices,
    load_newest_prices,
    most_usd,
)
from tournament_assets.judging.requests.columns import ModelRequest, Selection, keys_of
from tournament_assets.judging.requests.requests import effort_of
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import SeenReplies
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.judges import Judge

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


def observe_ledger(
    ledger: "Ledger", terms: BudgetTerms, model: str, effort: str | None = None
) -> tuple[Observation | None, float]:
    """Return a summary of a model's replies at an effort, and the tokens to expect of one."""
    spendings = ledger.spending_since(on_responses=terms.on_responses)
    observation = observe_replies(spendings, model, effort)
    if observation is None:
        return None, assume_reply_tokens(effort, terms.prices.models.get(model))
    return observation, observation.output_tokens_per_reply


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
    measured, prices = list(workloads), terms.prices

    def request_usd(model: str, channel: Channel) -> float | None:
        price = prices.models.get(model)
        if price is None:
            return None
        return mean_request_usd(measured, price, discount=prices.discount(channel))

    return _draw_up(terms, request_usd, ledger=ledger)


def _draw_up(
    terms: BudgetTerms,
    request_usd: Callable[[str, Channel], float | None],
    *,
    ledger: "Ledger",
) -> Budget | None:
    if terms.limit_usd is None:
        return None
    since = terms.counts_from
    return terms.draw_up(
        since,
        ledger.spending_since(since, on_responses=terms.on_responses),
        ledger.unbilled_batches(on_responses=terms.on_responses),
        request_usd=request_usd,
    )


_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """What some requests are expected to cost, in US dollars.

    Attributes:
        model: Who is asked.
        n_requests: How many they are.
        usd: The cost to plan for; None without a price.
        least_usd: The cost if every prefix is read from the cache and replies are short.
        most_usd: The cost if no prefix is.
        discount: What every price was multiplied by, for the way they are sent.
    """

    model: str
    n_requests: int
    usd: float | None
    least_usd: float
    most_usd: float
    discount: float


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is still to be asked of one scope, and what its replies are like."""

    requests: Selection
    channel: Channel
    seen: SeenReplies


class SpendingPlan:
    """What a run is still to ask, all of its scopes together, and whether the budget holds it.

    What is written down as sent is not planned any more: the ledger counts it from then on, as
    under way or billed, so that each dollar is counted once.

    Args:
        terms: The budget.
        ledger: Where all tournaments' bills are.
    """

    def __init__(self, terms: BudgetTerms, *, ledger: "Ledger") -> None:
        self.terms = terms
        self._ledger = ledger
        self._rests: dict[JudgingScope | None, _Rest] = {}
        self._is_tight = False
        self._lock = threading.RLock()

    def set(
        self,
        scope: JudgingScope | None,
        requests: Sequence[ModelRequest],
        channel: Channel,
        seen: SeenReplies,
    ) -> None:
        """Say what is still to be asked of a scope, in place of what was said before.

        Args:
            seen: What its replies are like, now and later.
        """
        with self._lock:
            selection = requests if isinstance(requests, Selection) else Selection(requests)
            self._rests[scope] = _Rest(selection, channel, seen)

    def end(self, scope: JudgingScope | None) -> None:
        """Say that nothing more is asked of a scope in this run."""
        with self._lock:
            self._rests.pop(scope, None)

    def commit(
        self, scope: JudgingScope | None, requests: Sequence[ModelRequest], write: Callable[[], int]
    ) -> int:
        """Write what is about to be sent of a scope; return how many of the requests it holds."""
        with self._lock:
            n_written = write()
            rest = self._rests.get(scope)
            if rest is not None and n_written:
                sent = frozenset(keys_of(requests[:n_written]))
                self._rests[scope] = replace(rest, requests=rest.requests.without(sent))
            return n_written

    def costs(self) -> list[ExpectedCost]:
        """Return what each scope's plan is expected to cost, without those that are free."""
        with self._lock:
            rests = [rest for rest in self._rests.values() if rest.requests]
        paid = [rest for rest in rests if not is_free_model(rest.requests[0].params["model"])]
        return [self._cost(rest) for rest in paid]

    def check(self, *, is_tried: bool = True) -> None:
        """Check that the budget holds everything planned.

        Args:
            is_tried: Whether replies have shown what others take; before that only a plan that no
                reply could save is refused.

        Raises:
            BudgetError: If it does not hold it, or the price of a model is not known.
        """
        with self._lock:
            if self.terms.limit_usd is None:
                return  # nobody needs to know what it costs
            costs = self.costs()
            budget = _draw_up(self.terms, partial(self._each_usd, costs), ledger=self._ledger)
            if budget is None or not costs:
                return
            unpriced = [cost.model for cost in costs if cost.usd is None]
            models = [*dict.fromkeys(cost.model for cost in costs)]
            n_requests = format_plural(sum(cost.n_requests for cost in costs), "request")
            planned = sum_known(cost.usd for cost in costs)
            if planned is not None and not is_tried:
                planned = sum(cost.least_usd for cost in costs)
            budget.check(
                planned,
                what=f"asking {n_requests} of {', '.join(models)}",
                model=(unpriced or models)[0],
                enough_usd=self.enough_usd(),
            )

    def enough_usd(self) -> float:
        """Return what everything planned may cost, the last request at its highest cost."""
        with self._lock:
            rests = [rest for rest in self._rests.values() if rest.requests]
        dearest = [float(most.max()) for rest in rests if (most := self._most(rest)) is not None]
        return sum(cost.most_usd for cost in self.costs()) + max(dearest, default=0.0)

    def may_exceed(self) -> bool:
        """Return whether the budget may not hold everything planned at `max_tokens`.

        Once it may not, that is the answer for the whole run, so that all are asked alike.
        """
        with self._lock:
            budget = self._ledger.draw_up_budget(self.terms)
            if budget is None or self._is_tight:
                return self._is_tight
            dollars = [self._most(rest) for rest in self._rests.values()]
            most = sum(float(each.sum()) for each in dollars if each is not None)
            self._is_tight = most > budget.left_usd
            return self._is_tight

    def _most(self, rest: _Rest) -> NDArray[np.float64] | None:
        prices, read = self.terms.prices, rest.seen.least_read
        return most_usd(rest.requests, prices, rest.channel, prefix_tokens=read)

    def _cost(self, rest: _Rest) -> ExpectedCost:
        columns, terms, seen = rest.requests.columns, self.terms, rest.seen
        params = rest.requests[0].params
        model, effort = params["model"], effort_of(params)
        price, discount = terms.prices.models.get(model), terms.prices.discount(rest.channel)
        if price is None:
            return ExpectedCost(model, len(rest.requests), None, 0.0, 0.0, discount)
        if (tokens := seen.reply_tokens) is not None:
            mean, error = tokens
            short, long = (mean + sign * _STANDARD_ERRORS * error for sign in (-1, 1))
        else:
            _, long = observe_ledger(self._ledger, terms, model, effort)
            short = SHORT_REPLY * long
        ratio = seen.tokens_per_character or 1.0 / CHARACTERS_PER_TOKEN
        message_tokens = round(float(columns.characters.sum()) * ratio)
        workload = Workload(
            presentations=len(rest.requests),
            identical=0,
            distinct=len(rest.requests),
            answered=0,
            under_way=0,
            prefix_tokens=round(float(columns.prefix_characters[0]) * ratio),
            message_tokens=message_tokens,
            distinct_message_tokens=message_tokens,
            tokens_per_reply=min(long, float(columns.caps.max())),
        )
        dearest = workload.dearest_usd(price, discount=discount)
        expected = dearest
        if seen.hit_rate is not None:
            expected = workload.cost_usd(price, discount=discount, hit_rate=seen.hit_rate)
        least = replace(workload, tokens_per_reply=min(short, workload.tokens_per_reply))
        return ExpectedCost(
            model,
            len(rest.requests),
            usd=min(expected, dearest),
            least_usd=least.cost_usd(price, discount=discount, hit_rate=1.0),
            most_usd=dearest,
            discount=discount,
        )

    def _each_usd(
        self, costs: Sequence[ExpectedCost], model: str, channel: Channel
    ) -> float | None:
        """Return what a request under way is expected to cost: as those still to be asked do."""
        alike = [cost for cost in costs if cost.model == model and cost.usd is not None]
        if not alike:
            return None
        in_full = sum((cost.usd or 0.0) / cost.discount for cost in alike)
        n_requests = sum(cost.n_requests for cost in alike)
        return self.terms.prices.discount(channel) * in_full / n_requests


class ScopeApproval:
    """A spending plan, as a session of one scope is given it; see `sessions.Approval`."""

    def __init__(self, plan: SpendingPlan, scope: JudgingScope | None = None) -> None:
        self._plan = plan
        self._scope = scope

    def check(self, requests: Sequence[ModelRequest], channel: Channel, seen: SeenReplies) -> bool:
        """Check that the budget holds some requests of the scope and what others plan."""
        self._plan.set(self._scope, requests, channel, seen)
        self._plan.check()
        return self._plan.may_exceed()

    def commit(self, requests: Sequence[ModelRequest], write: Callable[[], int]) -> int:
        """Write what is about to be sent; it is not planned any more."""
        return self._plan.commit(self._scope, requests, write)

    def enough_usd(self) -> float:
        """Return what everything planned may cost."""
        return self._plan.enough_usd()


def build_approval(terms: BudgetTerms, *, ledger: "Ledger") -> ScopeApproval:
    """Return the approval of a session that nobody asks anything beside.

    The limit itself is kept because each request must fit at its highest cost when it is sent.

    Args:
        ledger: Where all tournaments' bills are.
    """
    return ScopeApproval(SpendingPlan(terms, ledger=ledger))
