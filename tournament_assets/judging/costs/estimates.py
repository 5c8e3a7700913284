"""The estimated cost of judging, counted from the requests as they would be sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tournament_assets.judging.batch_service import Channel, TokenCounter
from tournament_assets.judging.costs.prices import (
    Budget,
    Cost,
    ModelPrice,
    PriceList,
    Spending,
    most_usd_of,
)
from tournament_assets.judging.requests.columns import (
    CountedRequests,
    Selection,
)

CHARACTERS_PER_TOKEN = 4.0
"""English text; the provider's own count differs by some per cent."""
ASSUMED_OUTPUT_TOKENS = 450.0
"""Assumed tokens of a verdict with its reasons, where there are too few replies to learn from."""
ASSUMED_THOUGHT_TOKENS = 1050.0
"""Assumed tokens of the thoughts before it, of a model that thinks."""
_WITHOUT_THOUGHTS = frozenset({"disabled", "between_tools", "none"})
SAMPLED_REQUESTS = 20
"""How many requests of a dimension the service counts if it is asked to."""
MOST_AHEAD, ONE_AHEAD_IN = 10, 10
"""One request in so many is asked directly before the others, and so many at the most."""
_MOST_WAITS = 99
"""So many batches or more are too many to count on."""
SHORT_REPLY = 0.25
"""So much of what is assumed or was seen elsewhere may a reply take at the least."""
MIN_OBSERVED_REPLIES = 30
"""From this many replies on, a model's observed replies replace the assumption."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A summary of a model's replies.

    Attributes:
        n_replies: How many of them there are.
        output_tokens_per_reply: Tokens of one reply on average, thinking included.
        cache_hit_rate: Share of hits among the batches' requests that read the prefix from the
            cache or wrote it there; None if none did either.
    """

    n_replies: int
    output_tokens_per_reply: float
    cache_hit_rate: float | None


def assume_reply_tokens(effort: str | None, price: ModelPrice | None) -> float:
    """Return the tokens to expect of a reply before there are any to learn from.

    Args:
        effort: How hard requests let the model think, as `requests.effort_of` says it.
        price: The model's row in the price list, which says whether it thinks by itself.
    """
    words = (effort or "").split()
    budget = sum(int(word) for word in words if word.isdecimal())
    if budget:
        return ASSUMED_OUTPUT_TOKENS + budget
    by_itself = price is not None and price.thinks and _WITHOUT_THOUGHTS.isdisjoint(words)
    thinks = by_itself or "adaptive" in words
    return ASSUMED_OUTPUT_TOKENS + (ASSUMED_THOUGHT_TOKENS if thinks else 0.0)


def observe_replies(
    spendings: Iterable[Spending], judge_model: str, effort: str | None = None
) -> Observation | None:
    """Learn from what was billed; None if the ledger holds too few replies of a model and effort.

    Replies that were paid for twice count as well.
    """
    of_model = [each for each in spendings if each.is_by(judge_model, effort)]
    n_replies = sum(spending.n_replies for spending in of_model)
    if n_replies < MIN_OBSERVED_REPLIES:
        return None
    in_batches = [spending for spending in of_model if spending.channel == "batch"]
    hits = sum(spending.n_cache_hits for spending in in_batches)
    writes = sum(spending.n_cache_writes for spending in in_batches)
    return Observation(
        n_replies=n_replies,
        output_tokens_per_reply=(
            sum(spending.usage.output_tokens for spending in of_model) / n_replies
        ),
        cache_hit_rate=hits / (hits + writes) if hits + writes else None,
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests that one dimension still has to send.

    Attributes:
        presentations: Two for every pair.
        identical: Presentations of pairs with identical responses: settled without asking.
        distinct: Distinct requests among the others; equal texts are asked once.
        answered: Those that the ledger holds already.
        under_way: Those that were sent and will be collected.
        ahead: Those still to be sent that are asked directly, before the batches.
        prefix_tokens: Tokens of the system prefix, the same in every request.
        message_tokens: Tokens of all messages that are still to be sent, without the prefix.
        distinct_message_tokens: Tokens of the messages of all distinct requests.
        tokens_per_reply: Tokens that one reply takes.
        most_usd: The most that all requests still to be sent may cost, at `max_tokens`; None if
            unknown.
        counted: How many requests' tokens the service has counted; 0 if all are estimated from
            characters.
        correction: The factor applied to tokens estimated from characters, learned from the counted
            requests.
    """

    presentations: int
    identical: int
    distinct: int
    answered: int
    under_way: int
    prefix_tokens: int
    message_tokens: int
    distinct_message_tokens: int
    tokens_per_reply: float
    most_usd: float | None = None
    counted: int = 0
    correction: float = 1.0
    ahead: int = 0

    @property
    def to_ask(self) -> int:
        """Requests that are still to be sent."""
        return self.distinct - self.answered - self.under_way

    @property
    def output_tokens(self) -> int:
        """Tokens that the replies to them will take."""
        return round(self.to_ask * self.tokens_per_reply)

    def cost_usd(self, price: ModelPrice, *, discount: float, hit_rate: float | None) -> float:
        """Return the cost in dollars.

        Args:
            price: The model's prices.
            discount: What every price is multiplied by.
            hit_rate: Share of requests that read the prefix from the cache; the others write it,
                and the first one always does. None prices requests without a cache breakpoint.
        """
        if hit_rate is None or self.prefix_tokens < price.min_cacheable_tokens:
            prefix = self.to_ask * self.prefix_tokens * price.input
        else:
            writes = max(self.to_ask * (1.0 - hit_rate), min(1.0, self.to_ask))
            reads = self.to_ask - writes
            prefix = self.prefix_tokens * (writes * price.cache_write_1h + reads * price.cache_read)
        dollars = prefix + self.message_tokens * price.input + self.output_tokens * price.output
        return dollars * self._discounted(discount) / 1_000_000

    def _discounted(self, discount: float) -> float:
        """Return the discount on average: those asked ahead pay the full price."""
        share = self.ahead / self.to_ask if self.to_ask else 0.0
        return discount + (1.0 - discount) * share

    def reserved_usd(self, price: ModelPrice, *, discount: float) -> float:
        """Return about how many dollars are set aside for all of it once some replies are known.

        These are the prefix as it was billed, a token for each character of the messages, and
        replies twice as long as expected; never more than at `max_tokens`.
        """
        dollars = (
            self.to_ask * self.prefix_tokens * max(price.input, price.cache_write_1h)
            + self.message_tokens * CHARACTERS_PER_TOKEN * price.input
            + 2 * self.output_tokens * price.output
        ) * self._discounted(discount)
        return min(dollars / 1_000_000, self.most_usd or float("inf"))

    def dearest_usd(self, price: ModelPrice, *, discount: float) -> float:
        """Return the cost in dollars if the cache is never hit: never less than without a cache."""
        return max(
            self.cost_usd(price, discount=discount, hit_rate=hit_rate) for hit_rate in (None, 0.0)
        )

    def least_usd(self, price: ModelPrice, *, discount: float) -> float:
        """Return the cost if every prefix is read from the cache and replies are short."""
        short = replace(self, tokens_per_reply=SHORT_REPLY * self.tokens_per_reply)
        return short.cost_usd(price, discount=discount, hit_rate=1.0)

    def as_if_new(self) -> "Workload":
        """Return the same workload as if nothing had been asked yet."""
        tokens = self.distinct_message_tokens
        return replace(self, answered=0, under_way=0, ahead=0, message_tokens=tokens)


def mean_request_usd(workloads: Iterable[Workload], price: ModelPrice, *, discount: float) -> float:
    """Return the average of the most that a request may cost; 0 without requests."""
    new = [workload.as_if_new() for workload in workloads]
    count = sum(workload.to_ask for workload in new)
    if not count:
        return 0.0
    return sum(workload.dearest_usd(price, discount=discount) for workload in new) / count


@dataclass(frozen=True, slots=True)
class ResponseEstimate:
    """What an entrant's missing responses would cost.

    Attributes:
        model: The model behind it.
        price: The model's prices; None if the list does not name it.
        discount: What every price is multiplied by, for the way it is asked.
        workload: What is to be asked.
        is_free: Whether the model costs nothing, as the loopback service does.
    """

    entrant_id: str
    model: str
    price: ModelPrice | None
    discount: float
    workload: Workload
    is_free: bool

    @property
    def planned_usd(self) -> float | None:
        """The expected cost; None if unknown."""
        if self.is_free or not self.workload.to_ask:
            return 0.0
        if self.price is None:
            return None
        return self.workload.dearest_usd(self.price, discount=self.discount)


@dataclass(frozen=True, slots=True)
class JudgingEstimate:
    """What a mode's judging would cost, and what the missing responses would.

    Attributes:
        judge_model: The model that would judge.
        prices_of: The date of the price list.
        price: The model's prices; None if the list does not name it.
        batch_discount: What a batch multiplies every price by.
        workloads: What is to be asked, by dimension.
        assumed_responses: Responses that do not exist yet; each is counted at its token cap.
        is_free: Whether the judge costs nothing, as the loopback judge does.
        observation: What the model's replies in the ledger were like; None if they are too few.
        month: What was spent in this calendar month (UTC), all tournaments in the ledger together.
        budget: What may be spent; None if there is no limit.
        responses: What the missing responses of entrants behind a provider's API would cost.
        response_budget: What may be spent on those; None if there is no limit.
        price_source: Where the judge's prices come from.
        others: The estimates of the other judges; totals and the budget cover all judges.
        rounds: What a run in which pairs stop early asks next.
        anchor_requests: The requests that a scheduled rerun repeats besides, to see whether the
            judge drifts.
        cautions: What to know of the judge before it is paid.
        hint: Which priced model an unpriced one may be meant to be, as the end of a sentence.
        has_trial: Whether a few requests are asked first, and the others priced by their replies.
    """

    mode: str
    judge_model: str
    prices_of: str
    price: ModelPrice | None
    batch_discount: float
    workloads: Mapping[str, Workload]
    assumed_responses: int
    is_free: bool
    observation: Observation | None
    month: Cost
    budget: Budget | None
    responses: tuple[ResponseEstimate, ...] = ()
    response_budget: Budget | None = None
    price_source: str = ""
    others: "tuple[JudgingEstimate, ...]" = ()
    rounds: "RoundsEstimate | None" = None
    anchor_requests: int = 0
    cautions: tuple[str, ...] = ()
    hint: str = ""
    has_trial: bool = False

    @property
    def anchor_usd(self) -> float | None:
        """What the anchor requests of a scheduled rerun cost; None if unknown."""
        if self.is_free or not self.anchor_requests:
            return 0.0
        if self.price is None:
            return None
        each = mean_request_usd(self.workloads.values(), self.price, discount=self.batch_discount)
        return self.anchor_requests * each

    @property
    def by_judge(self) -> "tuple[JudgingEstimate, ...]":
        """The estimate of every judge."""
        return (self, *self.others)

    @property
    def costs_nothing(self) -> bool:
        """Whether every judge is free."""
        return all(each.is_free for each in self.by_judge)

    @property
    def observed_hit_rate(self) -> float | None:
        """The share of cache hits so far; None if unknown."""
        return self.observation.cache_hit_rate if self.observation else None

    def usd(self, workload: Workload, hit_rate: float | None) -> float | None:
        """Return the cost of one of its workloads in batches; None without prices."""
        if self.is_free:
            return 0.0
        if self.price is None:
            return None
        return workload.cost_usd(self.price, discount=self.batch_discount, hit_rate=hit_rate)

    def total_usd(self, hit_rate: float | None) -> float | None:
        """Return the cost of all dimensions together; None without prices."""
        return sum_known(
            each.usd(workload, hit_rate)
            for each in self.by_judge
            for workload in each.workloads.values()
        )

    @property
    def to_ask(self) -> int:
        """Requests that are still to be sent."""
        return sum(
            workload.to_ask for each in self.by_judge for workload in each.workloads.values()
        )

    @property
    def ahead(self) -> int:
        """Those that are asked directly, before the batches, by judges that cost something."""
        paid = [each for each in self.by_judge if not each.is_free]
        return sum(workload.ahead for each in paid for workload in each.workloads.values())

    @property
    def planned_usd(self) -> float | None:
        """The cost to plan for: no request finds its prefix in the cache. None if unknown."""
        return sum_known(each._own_planned_usd for each in self.by_judge)

    @property
    def _own_planned_usd(self) -> float | None:
        to_ask = [workload for workload in self.workloads.values() if workload.to_ask]
        if self.is_free or not to_ask:
            return 0.0
        if self.price is None:
            return None
        return sum(
            workload.dearest_usd(self.price, discount=self.batch_discount) for workload in to_ask
        )

    @property
    def _least_usd(self) -> float:
        if self.is_free or self.price is None:
            return 0.0
        to_ask = [workload for workload in self.workloads.values() if workload.to_ask]
        return sum(
            workload.least_usd(self.price, discount=self.batch_discount) for workload in to_ask
        )

    @property
    def is_decided_by_trial(self) -> bool:
        """Whether the first replies decide if the budget holds the plan."""
        planned, budget = self.planned_usd, self.budget
        is_short = planned is not None and budget is not None and planned > budget.left_usd
        return self.has_trial and is_short and self.budget_problem is None

    @property
    def expected_requests(self) -> float | None:
        """The number of requests that is expected if pairs stop early; None if unknown."""
        shares = {} if self.rounds is None else self.rounds.expected_shares
        return sum_known(
            None if share is None else workload.to_ask * share
            for name, workload in self.workloads.items()
            for share in [shares.get(name) if workload.to_ask else 0.0]
        )

    @property
    def expected_usd(self) -> float | None:
        """The expected cost if pairs stop early; None if unknown."""
        if self.rounds is None or self.is_free or self.price is None:
            return self.planned_usd
        shares = self.rounds.expected_shares
        return sum_known(
            None
            if share is None
            else share * workload.dearest_usd(self.price, discount=self.batch_discount)
            for name, workload in self.workloads.items()
            if workload.to_ask
            for share in [shares.get(name)]
        )

    @property
    def most_usd(self) -> float | None:
        """The cost if every reply takes all of `max_tokens`; None if unknown."""
        return sum_known(
            0.0 if each.is_free and self.others else workload.most_usd
            for each in self.by_judge
            for workload in each.workloads.values()
        )

    @property
    def waits(self) -> int | None:
        """About how many batches go out one after another, each when the one before is billed.

        None if unknown, or if there is no budget, nothing in batches, or a budget that does not
        hold the plan.
        """
        planned, most = self.planned_usd, self.most_usd
        paid = [each for each in self.by_judge if not each.is_free and each.price is not None]
        if self.budget is None or not planned or not most or self.budget_problem is not None:
            return None
        if self.is_decided_by_trial:
            return None
        if all(each.batch_discount == 1.0 for each in paid):
            return None
        left = self.budget.left_usd
        if most <= left:
            return 1
        known = sum(
            workload.reserved_usd(each.price, discount=each.batch_discount)
            for each in paid
            if each.price is not None
            for workload in each.workloads.values()
        )
        # Without a trial nothing is known before the first batch.
        reserved, share = known if self.ahead else most, 1.0
        for n_waits in range(1, _MOST_WAITS):
            sent = min(share, left / reserved)
            left, share, reserved = left - sent * planned, share - sent, known
            if share <= 0 or left <= 0:
                return n_waits
        return None

    @property
    def response_problem(self) -> str | None:
        """Why the budget does not allow the missing responses; None if it does."""
        if self.response_budget is None:
            return None
        names = ", ".join(each.entrant_id for each in self.responses if each.workload.to_ask)
        planned = sum_known(each.planned_usd for each in self.responses)
        models = [each.model for each in self.responses if each.planned_usd is None]
        return self.response_budget.problem(
            planned, what=f"letting {names} answer", model=models[0] if models else "MODEL"
        )

    @property
    def budget_problem(self) -> str | None:
        """Why the budget does not allow the judging; None if it does or there is no budget."""
        if self.budget is None:
            return None
        unpriced = [each.judge_model for each in self.by_judge if each._own_planned_usd is None]
        names = ", ".join(unpriced or [each.judge_model for each in self.by_judge])
        # Where pairs stop early the budget is asked round by round.
        next_round = self if self.rounds is None else self.rounds.now
        planned = next_round.planned_usd
        if planned and self.has_trial:
            planned = sum(each._least_usd for each in next_round.by_judge)
        return self.budget.problem(
            planned,
            what=f"judging the {self.mode} by {names}",
            model=unpriced[0] if unpriced else self.judge_model,
            # All rounds, and the last requests, each of which has to fit at its highest cost.
            enough_usd=(self.planned_usd or 0.0) + 2 * (self.most_usd or 0.0) / max(1, self.to_ask),
        )


@dataclass(frozen=True, slots=True)
class RoundsEstimate:
    """What a run in which pairs stop early asks next, and what it may cost in all.

    Attributes:
        now: What the replies so far require: the next round, and the rest of earlier ones.
        expected_shares: The share of what may still be asked that is expected to be asked, by
            dimension; None if unknown.
    """

    now: JudgingEstimate
    expected_shares: Mapping[str, float | None]


def measure_workload(
    parts: Iterable[CountedRequests],
    *,
    model: str = "",
    tokens_per_reply: float = ASSUMED_OUTPUT_TOKENS,
    prices: PriceList | None = None,
    channel: Channel = "batch",
    has_trial: bool = False,
    counted: int = 0,
    correction: float = 1.0,
) -> Workload:
    """Measure the workload of a dimension's requests, looking at one part of them at a time.

    Args:
        parts: The requests; none is in two of them.
        model: The model that is asked.
        prices: The prices for the most that each may cost; None leaves that unknown.
        channel: How they would be sent, for the most that each may cost.
        has_trial: Whether some are asked directly before the batches, and pay the full price.
        counted: How many requests' tokens were counted; see `count_sample`.
        correction: The factor that this gave.
    """
    counts, prefix_characters = np.zeros(7, dtype=np.int64), 0
    most: float | None = None if prices is None else 0.0
    dearest = np.zeros(0)
    for part in parts:
        columns, is_open = part.columns, ~(part.answered | part.under_way)
        tokens = np.round(np.round(columns.characters / CHARACTERS_PER_TOKEN) * correction)
        counts += [
            *(part.presentations, part.identical, len(tokens)),
            *(part.answered.sum(), part.under_way.sum()),
            *(int(tokens[is_open].sum()), int(tokens.sum())),
        ]
        prefix_characters = max([prefix_characters, *columns.prefix_characters[:1]])
        if prices is not None and most is not None:
            left = columns.take(np.flatnonzero(is_open))
            dollars = most_usd_of(left, prices, channel, model=model)
            most = None if dollars is None else most + float(dollars.sum())
            if dollars is not None:
                dearest = np.sort(np.concatenate([dearest, dollars]))[-MOST_AHEAD:]
    presentations, identical, distinct, answered, under_way, open_tokens, all_tokens = (
        counts.tolist()
    )
    ahead = 0
    if has_trial and (n_open := distinct - answered - under_way) > 1:
        wanted = min(MOST_AHEAD, -(-distinct // ONE_AHEAD_IN)) - answered
        ahead = min(max(1, wanted), n_open)
    if prices is not None and most is not None and ahead:
        most += (1.0 / prices.discount(channel) - 1.0) * float(dearest[-ahead:].sum())
    return Workload(
        presentations=presentations,
        identical=identical,
        distinct=distinct,
        answered=answered,
        under_way=under_way,
        prefix_tokens=round(round(prefix_characters / CHARACTERS_PER_TOKEN) * correction),
        message_tokens=open_tokens,
        distinct_message_tokens=all_tokens,
        tokens_per_reply=tokens_per_reply,
        most_usd=most,
        counted=counted,
        correction=correction,
        ahead=ahead,
    )


def count_sample(left: Selection, counter: TokenCounter) -> tuple[int, float]:
    """Let the service count the tokens of some requests, evenly spread over those to be sent.

    Returns:
        How many were counted, and the factor that corrects tokens estimated from characters.

    Raises:
        JudgeError: If the counter does not say.
    """
    step = max(1.0, len(left) / SAMPLED_REQUESTS)
    places = [int(number * step) for number in range(min(SAMPLED_REQUESTS, len(left)))]
    columns = left.columns.take(places)
    characters = (columns.characters, columns.prefix_characters)
    by_characters = sum(np.round(each / CHARACTERS_PER_TOKEN).sum() for each in characters)
    counted = sum(counter.count_tokens(left[place].params) for place in places)
    return len(places), float(counted / by_characters) if by_characters else 1.0


def sum_known(amounts: Iterable[float | None]) -> float | None:
    """Return a sum; None if a part of it is not known."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
