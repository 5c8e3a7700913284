"""What a run is still to ask counts once, at what the replies so far show."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging.builders import SETTINGS, reply_row, requests_for
from tests.judging.prices import PRICES
from tournament_assets.foundation.errors import BudgetError
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import BudgetTerms
from tournament_assets.judging.requests.columns import keys_of
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.settlement.records import BatchIntent, JudgingScope, Lease
from tournament_assets.judging.settlement.sessions import SeenReplies
from tournament_assets.ledger import Ledger
from tournament_assets.verdicts.spending_plans import ScopeApproval, SpendingPlan

SCOPES = [JudgingScope("small", "pilot", name) for name in ("factuality", "calibration")]


def requests(number: int) -> JudgeRequests:
    settings = replace(SETTINGS, judge_model="opus", max_tokens=2000 + number)
    return requests_for(20, settings=settings)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as opened:
        yield opened


def planned(ledger: Ledger, limit_usd: float) -> SpendingPlan:
    terms = BudgetTerms(PRICES, limit_usd, "run", datetime(2026, 1, 1, tzinfo=UTC))
    plan = SpendingPlan(terms, ledger=ledger)
    for number, scope in enumerate(SCOPES):
        plan.set(scope, requests(number), "batch", SeenReplies())
    return plan


def expected_usd(ledger: Ledger) -> float:
    return sum(cost.usd or 0.0 for cost in planned(ledger, 1.0).costs())


def test_what_is_sent_of_one_scope_counts_once_for_the_others(ledger: Ledger) -> None:
    plan = planned(ledger, 1.02 * expected_usd(ledger))
    plan.check()
    lease = ledger.acquire_lease(SCOPES[0])
    assert isinstance(lease, Lease)
    sent = requests(0)[:30]
    keys = list(keys_of(sent))
    now = datetime.now(UTC)
    intent = BatchIntent("0" * 12, "opus", 1, "batch", now, keys, most_usd=[0.01] * len(keys))
    approval = ScopeApproval(plan, SCOPES[0])
    assert approval.commit(sent, lambda: ledger.record_intent(lease, intent)) == len(keys)
    # It is under way now and planned no more: the other scope still fits, and no more than it.
    other = ScopeApproval(plan, SCOPES[1])
    other.check(requests(1), "batch", SeenReplies())
    assert sum(cost.n_requests for cost in plan.costs()) == 10 + 40
    with pytest.raises(BudgetError, match="asking 80 requests"):
        approval.check(requests(0), "batch", SeenReplies())


def test_a_refusal_names_what_is_enough_for_all_scopes(ledger: Ledger) -> None:
    with pytest.raises(BudgetError) as caught:
        planned(ledger, 0.01).check()
    named = float(str(caught.value).split("raise judging.budget.usd to $")[1].split(",")[0])
    planned(ledger, named).check()


def test_before_the_trial_only_what_no_reply_could_save_is_refused(ledger: Ledger) -> None:
    usd = expected_usd(ledger)
    least = sum(cost.least_usd for cost in planned(ledger, 1.0).costs())
    assert least < 0.6 * usd
    short = planned(ledger, 0.6 * usd)
    short.check(is_tried=False)
    with pytest.raises(BudgetError):
        short.check()
    with pytest.raises(BudgetError):
        planned(ledger, 0.9 * least).check(is_tried=False)


@given(
    st.lists(st.integers(1, 2000), min_size=4, max_size=30),
    st.integers(0, 30),
)
def test_the_expected_cost_lies_between_the_least_and_the_most_and_learns_from_replies(
    lengths: list[int], n_hits: int
) -> None:
    seen = SeenReplies()
    for number, tokens in enumerate(lengths):
        cached = {"cache_read_input_tokens": 5000} if number < n_hits else {"input_tokens": 5000}
        usage = TokenUsage(output_tokens=tokens, **cached)
        seen.add(reply_row("", usage=usage), characters=20_000)
    with closing(Ledger("sqlite://")) as ledger:
        plan = SpendingPlan(BudgetTerms(PRICES, 1.0, "run", datetime.now(UTC)), ledger=ledger)
        plan.set(SCOPES[0], requests(0), "batch", seen)
        (cost,) = plan.costs()
    assert cost.usd is not None
    # Sums in another order differ in their last bits.
    assert cost.least_usd <= cost.usd + 1e-12
    assert cost.usd <= cost.most_usd + 1e-12
    mean, error = seen.reply_tokens or (0.0, 0.0)
    assert mean == pytest.approx(sum(lengths) / len(lengths))
    assert error >= 0
    assert (seen.hit_rate is None) == (n_hits == 0)
