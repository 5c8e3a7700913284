"""What may be spent on judging, what counts towards it already, and what would be too much."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tournament_assets.judging.pricing import PriceList, Spending, format_usd, is_free_model
from tournament_assets.judging.service import Channel
from tournament_assets.tournament.errors import BudgetError

BudgetPeriod = Literal["run", "month"]


@dataclass(frozen=True, slots=True)
class UnbilledBatch:
    """Requests that were sent, and of which nobody has read yet what they cost.

    Attributes:
        judge_model: The model that was asked.
        channel: How it was asked.
        begun_at: When they were sent, aware.
        n_requests: How many of the batch's requests have no reply in the ledger.
        is_lost: Whether their results are out of reach, so that nobody ever will.
    """

    judge_model: str
    channel: Channel
    begun_at: datetime
    n_requests: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """The dollars that may be spent in a period, and those that are gone.

    Attributes:
        limit_usd: The most that may be spent.
        period: What it is for: one run, or a calendar month in UTC.
        spent_usd: What was billed in the period, waste included.
        committed_usd: What requests will cost, or have cost, that were sent and not billed yet.
        unpriced: Models that count towards the period and have no price.
    """

    limit_usd: float
    period: BudgetPeriod
    spent_usd: float
    committed_usd: float
    unpriced: tuple[str, ...] = ()

    @property
    def left_usd(self) -> float:
        """What may still be spent."""
        return max(0.0, self.limit_usd - self._gone_usd)

    @property
    def _gone_usd(self) -> float:
        return self.spent_usd + self.committed_usd

    def problem(self, planned_usd: float | None, *, what: str) -> str | None:
        """Say why a plan cannot be paid, or None. A plan that costs nothing always can.

        Args:
            planned_usd: The most it may cost; None where a price is not known.
            what: What would be paid, such as `asking 12 requests of claude-opus-5-5`.
        """
        if planned_usd == 0:
            return None
        if planned_usd is None or self.unpriced:
            whose = f"of {', '.join(self.unpriced)}" if self.unpriced else f"for {what}"
            return (
                f"no price {whose} is known; expected one, so that the budget of "
                f"{format_usd(self.limit_usd)} a {self.period} can be kept; add the model to a "
                "list in tournament_assets/data/prices, or remove judge.budget_usd"
            )
        if self._gone_usd + planned_usd <= self.limit_usd:
            return None
        advice = ", or wait for the next month" if self.period == "month" else ""
        return (
            f"{what} may cost up to {format_usd(planned_usd)}; of the budget of "
            f"{format_usd(self.limit_usd)} a {self.period}, {format_usd(self.spent_usd)} is spent "
            f"and {format_usd(self.committed_usd)} is under way; expected at most "
            f"{format_usd(self.left_usd)}; raise judge.budget_usd, or judge fewer pairs "
            f"(--limit-pairs){advice}"
        )

    def check(self, planned_usd: float | None, *, what: str) -> None:
        """Return if a plan can be paid.

        Args:
            planned_usd: The most it may cost; None where a price is not known.
            what: What would be paid.

        Raises:
            BudgetError: If it would exceed the limit, or nobody knows.
        """
        problem = self.problem(planned_usd, what=what)
        if problem is not None:
            raise BudgetError(problem)


def month_start(moment: datetime) -> datetime:
    """Return when the calendar month of a moment began, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def draw_up_budget(
    limit_usd: float,
    *,
    period: BudgetPeriod,
    period_began: datetime,
    spendings: Iterable[Spending],
    unbilled: Iterable[UnbilledBatch],
    prices: PriceList,
    request_usd: Callable[[str, Channel], float | None],
) -> Budget:
    """Add up what counts towards a budget.

    A month pays for whatever is billed in it, so every open batch counts, whenever it was begun; a
    run pays for what it began itself. Results that are lost were paid for all the same.

    Args:
        limit_usd: The most that may be spent.
        period: What it is for.
        period_began: When the period began.
        spendings: What was billed since.
        unbilled: What was sent and is not billed, whenever it was begun.
        prices: What prices it.
        request_usd: The most that one request of a model, sent one way, costs; None if the model
            has no price.
    """
    bill = prices.add_up(spendings)
    unpriced = set(bill.unpriced)
    committed = 0.0
    for batch in unbilled:
        may_be_older = period == "month" and not batch.is_lost
        if is_free_model(batch.judge_model) or not batch.n_requests:
            continue
        if batch.begun_at < period_began and not may_be_older:
            continue
        dollars = request_usd(batch.judge_model, batch.channel)
        if dollars is None:
            unpriced.add(batch.judge_model)
        else:
            committed += batch.n_requests * dollars
    return Budget(
        limit_usd=limit_usd,
        period=period,
        spent_usd=bill.usd,
        committed_usd=committed,
        unpriced=tuple(sorted(unpriced)),
    )
