"""The cost of judging, from billed tokens and dated prices; and what may be spent on it."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import BudgetError
from tournament_assets.foundation.extensions import added_rows_by_name
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.formatting import format_usd
from tournament_assets.foundation.yaml_files import read_yaml
from tournament_assets.judging.batch_service import TOKEN_NAMES, Channel, TokenUsage
from tournament_assets.judging.requests.columns import ModelRequest, RequestColumns, columns_of
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judge_services import is_free_model
from tournament_assets.tournament.judges import ConfiguredPrice

_TOKENS_PER_PRICE = 1_000_000
TokenRates = Mapping[str, float]
"""US dollars for a million tokens of each of `TOKEN_NAMES`."""


def cost_at(rates: TokenRates, usage: TokenUsage) -> float:
    """Return what some tokens cost, in US dollars."""
    dollars = sum(getattr(usage, name) * rates[name] for name in TOKEN_NAMES)
    return float(dollars / _TOKENS_PER_PRICE)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Prices of one model, in US dollars per million tokens.

    Attributes:
        input: Input tokens that are neither written to nor read from the cache.
        output: Output tokens, thinking included.
        cache_write_1h: Input tokens written to the one-hour cache.
        cache_read: Input tokens read from the cache.
        min_cacheable_tokens: A prefix shorter than this is not cached.
        max_prompt_tokens: The longest prompt that these prices hold for; None for any.
        thinks: Whether the model thinks before it replies, unless it is told not to.
    """

    input: float
    output: float
    cache_write_1h: float
    cache_read: float
    min_cacheable_tokens: int
    max_prompt_tokens: int | None = None
    thinks: bool = False

    @property
    def break_even_hit_rate(self) -> float:
        """The share of cache hits from which a one-hour breakpoint is cheaper than none.

        It is 0 where reading and writing cost the same.
        """
        saved = self.cache_write_1h - self.cache_read
        return (self.cache_write_1h - self.input) / saved if saved else 0.0


@dataclass(frozen=True, slots=True)
class Spending:
    """What was billed for replies of one model on one channel.

    Attributes:
        judge_model: The model that was asked.
        channel: How it was asked.
        n_replies: How many replies there are, without those that report no tokens.
        n_cache_hits: Those among them that read their prefix from the cache.
        n_cache_writes: Those that wrote it there.
        usd: Their cost at the prices when they were bought, which may be 0; None if no price was
            known then.
        effort: The model's thinking effort; None if no request named one.
    """

    judge_model: str
    channel: Channel
    n_replies: int
    n_cache_hits: int
    n_cache_writes: int
    usage: TokenUsage
    usd: float | None = None
    effort: str | None = None

    def is_by(self, judge_model: str, effort: str | None) -> bool:
        """Whether it was for a model at an effort."""
        return (self.judge_model, self.effort) == (judge_model, effort)


@dataclass(frozen=True, slots=True)
class Cost:
    """The total of some spending.

    Attributes:
        usd: US dollars, without the models that have no price.
        unpriced: Models that were billed and have no price.
    """

    usd: float
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a day.

    Attributes:
        date: When they were published, such as `2026-09`.
        batch_discount: What a batch multiplies every price by.
        models: Prices by model id.
        sources: Where they were published, by what the names of models begin with.
        configured: Models whose prices the config gives.
    """

    date: str
    batch_discount: float
    models: Mapping[str, ModelPrice]
    sources: Mapping[str, str] = field(default_factory=dict)
    configured: tuple[str, ...] = ()

    def cost_usd(self, model: str, usage: TokenUsage, *, channel: Channel) -> float | None:
        """Return what some tokens cost, in US dollars; None for a model without a price."""
        rates = self.rates(model, channel=channel)
        return None if rates is None else cost_at(rates, usage)

    def rates(self, model: str, *, channel: Channel) -> TokenRates | None:
        """Return what a model's tokens cost on a channel; None for a model without a price."""
        price = self.models.get(model)
        if price is None:
            return None
        by_kind = (price.input, price.output, price.cache_write_1h, price.cache_read)
        discount = self.discount(channel)
        return {
            name: dollars * discount for name, dollars in zip(TOKEN_NAMES, by_kind, strict=True)
        }

    def source_of(self, model: str) -> str:
        """Return where a model's price comes from; empty where that is not known."""
        if model in self.configured:
            return "judging.prices"
        return next((url for name, url in self.sources.items() if model.startswith(name)), "")

    def discount(self, channel: Channel) -> float:
        """Return what every price is multiplied by: a direct message pays it in full."""
        return self.batch_discount if channel == "batch" else 1.0

    def with_free(self, model: str) -> "PriceList":
        """Return the same prices, with zeros for models that have none."""
        nothing = ModelPrice(0.0, 0.0, 0.0, 0.0, min_cacheable_tokens=0)
        return replace(self, models={model: nothing, **self.models})

    def is_zero(self, model: str) -> bool:
        """Return whether a model's price is known to be zero."""
        price = self.models.get(model)
        return price is not None and not (price.input or price.output or price.cache_read)

    def add_up(self, spendings: Iterable[Spending]) -> Cost:
        """Return what was spent, waste included; the loopback judge costs nothing.

        A reply keeps the price it was bought at, whatever its model costs today.
        """
        total = 0.0
        unpriced: set[str] = set()
        for spending in spendings:
            if is_free_model(spending.judge_model):
                continue
            dollars = spending.usd
            if dollars is None:
                dollars = self.cost_usd(
                    spending.judge_model, spending.usage, channel=spending.channel
                )
            if dollars is None:
                unpriced.add(spending.judge_model)
            else:
                total += dollars
        return Cost(total, tuple(sorted(unpriced)))


def load_newest_prices(configured: Mapping[str, ConfiguredPrice] | None = None) -> PriceList:
    """Read the price list with the latest date.

    Args:
        configured: Prices that a config gives; they override those of the list.
    """
    newest = _newest_file()
    content = _read_list(newest_prices_hash())
    added, own = added_rows_by_name("prices", content["models"]), configured or {}
    listed = {model: ModelPrice(**prices) for model, prices in content["models"].items()}
    priced = {
        model: ModelPrice(
            price.input,
            price.output,
            price.write_price,
            price.read_price,
            price.min_cacheable_tokens,
            thinks=model in listed and listed[model].thinks,
        )
        for model, price in {**added, **own}.items()
    }
    return PriceList(
        date=newest.name.removesuffix(".yaml"),
        batch_discount=content["batch_discount"],
        models={**listed, **priced},
        sources=content["sources"],
        configured=tuple(own),
    )


def judge_prices(config: TournamentConfig, *models: str) -> PriceList:
    """Return the newest price list as it applies to a tournament's judges.

    Models of a free service cost zero, unless a price is configured or listed: a server at a
    private address may forward requests to somebody who bills them.

    Args:
        models: Other models that are asked in place of a judge.
    """
    own, zero = config.judging.prices, ConfiguredPrice(input=0, output=0)
    prices = load_newest_prices(own)
    paid = {each.model for each in config.judges if not each.is_free}
    asked = [*(each.model for each in config.judges), *(() if paid else models)]
    free = [model for model in asked if model not in paid and model not in prices.models]
    return load_newest_prices({**dict.fromkeys(free, zero), **own}) if free else prices


def newest_prices_hash() -> str:
    """Return the SHA-256 of the price list with the latest date, of that date and what is added."""
    newest, added = _newest_file(), added_rows_by_name("prices", {})
    more = [{name: price.model_dump() for name, price in added.items()}] if added else []
    return fingerprint([newest.name, newest.read_text(encoding="utf-8"), *more])


@cache
def _read_list(_content_hash: str) -> Mapping[str, Any]:
    """Read the newest list once for each content: a run asks for it ten times."""
    values: Mapping[str, Any] = read_yaml(_newest_file(), what="the price list").values
    return values


def _newest_file() -> Traversable:
    folder = resources.files("tournament_assets") / "data" / "prices"
    return max(
        (entry for entry in folder.iterdir() if entry.name.endswith(".yaml")),
        key=lambda entry: entry.name,
    )


def _rounded_up(dollars: float) -> float:
    """Return an amount that is no less, in the steps in which amounts are shown."""
    steps = 10_000 if dollars < 0.1 else 100
    return math.ceil(round(dollars * steps, 6)) / steps


BudgetPeriod = Literal["run", "month"]
_UNWRITTEN_INPUT_TOKENS = 20_000
"""The tokens assumed for a request of unknown length, more than a judge is usually shown."""
_ADVICE = {
    "judging.budget.usd": "judge fewer pairs (--limit-pairs)",
    "generation.budget.usd": "answer fewer prompts, or lower max_new_tokens",
    "rejudging.budget_usd": "judge fewer runs at a time (--limit)",
}


@dataclass(frozen=True, slots=True)
class UnbilledBatch:
    """Requests that were sent and whose bill has not been read yet.

    Attributes:
        judge_model: The model that was asked.
        channel: How it was asked.
        begun_at: When they were sent, aware.
        n_requests: How many of the batch's requests have no reply in the ledger.
        is_lost: Whether their results are out of reach, so that their bill will never be read.
        most_usd: The most that they may cost together; None if it was not recorded.
        holder: Whose work it is, for messages.
        is_at_work: Whether a run is at that work now.
    """

    judge_model: str
    channel: Channel
    begun_at: datetime
    n_requests: int
    is_lost: bool = False
    most_usd: float | None = None
    holder: str = field(default="", compare=False)
    is_at_work: bool = False


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """What some work may cost, and how it is priced.

    Attributes:
        limit_usd: The most that may be spent in a period; None sets no limit.
        period: What the limit is for.
        began_at: When the run began, for a limit that is for one run.
        on_responses: Whether it is for entrants' own responses, instead of judging.
        setting: Which line of the config sets the limit.
        max_tokens: The most tokens of a reply, used where a request's highest cost was not
            recorded.
    """

    prices: PriceList
    limit_usd: float | None
    period: BudgetPeriod
    began_at: datetime
    on_responses: bool = False
    setting: str = "judging.budget.usd"
    max_tokens: int = 8192

    @property
    def counts_from(self) -> datetime:
        """When the period began."""
        return month_start(datetime.now(UTC)) if self.period == "month" else self.began_at

    def draw_up(
        self,
        since: datetime,
        spendings: Iterable[Spending],
        unbilled: Iterable[UnbilledBatch],
        *,
        request_usd: Callable[[str, Channel], float | None] | None = None,
    ) -> "Budget | None":
        """Return what is left of the limit; None without one.

        A month pays for whatever is billed in it, so every open batch counts, whenever it was
        begun; a run pays only for what it began itself. Lost results were paid for, and count too.
        The few direct requests that were lost with their process, or on their way, are in a plan
        once more already: beside what a plan is expected to cost they do not count.

        Args:
            since: When the period began, which is `counts_from`.
            spendings: What was billed since.
            unbilled: What was sent and is not billed, whenever it was begun.
            request_usd: Returns the expected cost of one request of a model on a channel, None
                without a price; by default requests under way count at the most they may cost.
        """
        if self.limit_usd is None:
            return None
        at_most = request_usd is None
        bill = self.prices.add_up(spendings)
        unpriced = set(bill.unpriced)
        committed = 0.0
        waiting_for: dict[str, bool] = {}
        for batch in unbilled:
            may_be_older = self.period == "month" and not batch.is_lost
            if is_free_model(batch.judge_model) or not batch.n_requests:
                continue
            if batch.begun_at < since and not may_be_older:
                continue
            if batch.is_lost and batch.channel == "direct" and not at_most:
                continue
            dollars = batch.most_usd
            if dollars is None or not (at_most or batch.is_lost):
                each = (request_usd or self._unwritten_usd)(batch.judge_model, batch.channel)
                dollars = batch.most_usd if each is None else batch.n_requests * each
            if dollars is None:
                unpriced.add(batch.judge_model)
            else:
                committed += dollars
            if not batch.is_lost:
                is_at_work = waiting_for.get(batch.holder, False)
                waiting_for[batch.holder] = is_at_work or batch.is_at_work
        return Budget(
            limit_usd=self.limit_usd,
            period=self.period,
            spent_usd=bill.usd,
            committed_usd=committed,
            unpriced=tuple(sorted(unpriced)),
            setting=self.setting,
            waiting_for=tuple(waiting_for),
            is_at_work=any(waiting_for.values()),
        )

    def _unwritten_usd(self, model: str, channel: Channel) -> float | None:
        price = self.prices.models.get(model)
        if price is None:
            return None
        dearest_input = max(price.cache_write_1h, price.input)
        dollars = self.max_tokens * price.output + _UNWRITTEN_INPUT_TOKENS * dearest_input
        return dollars * self.prices.discount(channel) / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The dollars that may be spent in a period, and those that are spent or committed.

    Attributes:
        limit_usd: The most that may be spent.
        period: What it is for: one run, or a calendar month in UTC.
        spent_usd: What was billed in the period, waste included.
        committed_usd: The cost of requests that were sent and are not billed yet.
        unpriced: Models that count towards the period and have no price.
        setting: Which line of the config sets the limit.
        waiting_for: Whose work is under way and will free some of it.
        is_at_work: Whether a run is at some of that work now.
    """

    limit_usd: float
    period: BudgetPeriod
    spent_usd: float
    committed_usd: float
    unpriced: tuple[str, ...] = ()
    setting: str = "judging.budget.usd"
    waiting_for: tuple[str, ...] = ()
    is_at_work: bool = False

    @property
    def left_usd(self) -> float:
        """What may still be spent."""
        return max(0.0, self.limit_usd - self._gone_usd)

    @property
    def _gone_usd(self) -> float:
        return self.spent_usd + self.committed_usd

    def problem(
        self,
        planned_usd: float | None,
        *,
        what: str,
        model: str = "MODEL",
        enough_usd: float = 0.0,
    ) -> str | None:
        """Explain why a plan cannot be paid, or None. A plan that costs nothing always can.

        Args:
            planned_usd: The most it may cost; None where a price is not known.
            what: What would be paid for, such as `asking 12 requests of claude-opus-5-5`.
            model: Which model would be paid for.
            enough_usd: What is to be left for the whole to be finished, where that is more.
        """
        if planned_usd == 0:
            return None
        if planned_usd is None or self.unpriced:
            whose = f"of {', '.join(self.unpriced)}" if self.unpriced else f"for {what}"
            section = "rejudging" if self.setting.startswith("rejudging") else "judging"
            return (
                f"no price {whose} is known; expected one, so that the budget of "
                f"{format_usd(self.limit_usd)} a {self.period} can be kept; write what a million "
                "tokens cost into the config, such as "
                f"{section}: {{prices: {{{self.unpriced[0] if self.unpriced else model}: "
                f"{{input: 4.0, output: 20.0}}}}}}, or remove {self.setting}"
            )
        if self._gone_usd + planned_usd <= self.limit_usd:
            return None
        advice = ", or wait for the next month" if self.period == "month" else ""
        fewer = _ADVICE.get(self.setting, "ask for less")
        return (
            f"{what} may cost up to {format_usd(planned_usd)}; of the budget of "
            f"{format_usd(self.limit_usd)} a {self.period}, {format_usd(self.spent_usd)} is spent "
            f"and {format_usd(self.committed_usd)} is under way; expected at most "
            f"{format_usd(self.left_usd)}; raise {self.setting} to "
            f"{format_usd(_rounded_up(self._gone_usd + max(planned_usd, enough_usd)))}, "
            f"or {fewer}{advice}"
        )

    def affordable(self, most_usd: Iterable[float]) -> int:
        """Return how many requests, from the first on, fit if each costs the most it may."""
        count, gone = 0, self._gone_usd
        for dollars in most_usd:
            gone += dollars
            if dollars and gone > self.limit_usd:
                break
            count += 1
        return count

    def check(
        self,
        planned_usd: float | None,
        *,
        what: str,
        model: str = "MODEL",
        enough_usd: float = 0.0,
    ) -> None:
        """Refuse a plan that cannot be paid; see `problem`.

        Raises:
            BudgetError: If it would exceed the limit, or may for lack of a price.
        """
        problem = self.problem(planned_usd, what=what, model=model, enough_usd=enough_usd)
        if problem is not None:
            raise BudgetError(problem)


def month_start(moment: datetime) -> datetime:
    """Return when the calendar month of a moment began, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def most_usd(
    requests: Sequence[ModelRequest],
    prices: PriceList,
    channel: Channel,
    *,
    prefix_tokens: int | None = None,
) -> NDArray[np.float64] | None:
    """Return the most that each request to one model can cost, in US dollars.

    No token is shorter than a byte, so a request cannot have more tokens than bytes as it
    travels; all of its prefix may be written to the cache; and no reply has more tokens than
    `max_tokens`, which a provider that keeps its word never exceeds.

    Args:
        prefix_tokens: What a request with the same prefix and another message was billed for
            reading; the prefix alone has fewer tokens.

    Returns:
        Dollars of each, (n_requests,); None if one of them has no price.
    """
    if not requests:
        return np.zeros(0)
    model, columns = requests[0].params["model"], columns_of(requests)
    return most_usd_of(columns, prices, channel, model=model, prefix_tokens=prefix_tokens)


def most_usd_of(
    columns: RequestColumns,
    prices: PriceList,
    channel: Channel,
    *,
    model: str,
    prefix_tokens: int | None = None,
) -> NDArray[np.float64] | None:
    """Return the same of requests of which columns are known; keys are not looked at."""
    sizes, prefix = columns.sizes, columns.prefix_sizes
    if not len(sizes) or is_free_model(model):
        return np.zeros(len(sizes))
    price = prices.models.get(model)
    longest = None if price is None else price.max_prompt_tokens
    if price is None or (longest is not None and (sizes > longest).any()):
        return None
    message = sizes - prefix
    if prefix_tokens is not None:
        message = np.where(prefix > prefix_tokens, columns.message_sizes, message)
        prefix = np.minimum(prefix, prefix_tokens)
    dollars = (
        prefix * max(price.cache_write_1h, price.input)
        + message * price.input
        + columns.caps * price.output
    )
    return np.asarray(dollars * prices.discount(channel) / 1_000_000)
