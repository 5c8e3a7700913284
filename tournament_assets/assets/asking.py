"""Getting requests answered from within a step: what all steps that ask the judge share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.adapters.progress import JudgingBar
from tournament_assets.assets.estimating import build_approval, judging_terms
from tournament_assets.assets.judge_access import JudgeAccess
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.pairing import PairToJudge
from tournament_assets.judging.pricing import is_free_model
from tournament_assets.judging.records import JudgingScope
from tournament_assets.judging.recovery import refuse_to_repay
from tournament_assets.judging.rejudging import rejudge_requests
from tournament_assets.judging.remaining import find_work_left
from tournament_assets.judging.requests import (
    JudgeRequest,
    JudgeRequests,
    RequestSettings,
    build_requests,
)
from tournament_assets.judging.sessions import Tally, WaitingPolicy
from tournament_assets.judging.settlement import JudgingOptions, settle_requests
from tournament_assets.tournament.config import JudgeConfig, Mode
from tournament_assets.tournament.rubrics import Rubric

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Asking:
    """How one step asks.

    Attributes:
        wait_seconds: How long it waits for batches.
        prewarms: Whether it sends one request ahead to fill the prompt cache.
        may_pay_again: Whether requests whose results are lost or unread may be asked again.
        rejudges: Ask what failed again, one by one, instead of what was never answered.
        since: When the run began, for a budget that is for one run; now by default.
    """

    wait_seconds: float
    prewarms: bool = False
    may_pay_again: bool = False
    rejudges: bool = False
    since: datetime | None = None


def requests_for_pairs(
    plan: TournamentPlan, pairs: Sequence[PairToJudge], rubric: Rubric, *, judge_model: str
) -> JudgeRequests:
    """Build both presentations of some pairs as a tournament's config says."""
    judge, rules = plan.config.judge, plan.config.dimensions[rubric.dimension]
    return build_requests(
        pairs,
        rubric,
        RequestSettings(
            judge_model=judge_model,
            max_tokens=judge.max_tokens,
            shows_gold_answer=rules.shows_gold_answer,
            shows_expected_behavior=rules.shows_expected_behavior,
            reply_format=judge.reply_format,
        ),
    )


def prewarms(plan: TournamentPlan, mode: Mode) -> bool:
    """Say whether a mode sends one request ahead of the others."""
    return mode == "headline" and plan.config.headline.prewarm


def ask_what_is_missing(
    requests: Sequence[JudgeRequest],
    *,
    plan: TournamentPlan,
    scope: JudgingScope,
    ledger: "Ledger",
    judge: JudgeAccess,
    asking: Asking,
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
    if not requests or (left.is_done and not asking.rejudges):
        return Tally(total=left.total, answered=left.total)
    terms = judging_terms(plan, since=asking.since or datetime.now(UTC))
    options = JudgingOptions(
        policy=_waiting_policy(config, asking),
        approve=build_approval(terms, ledger=ledger, judge_model=requests[0].params["model"]),
        terms=terms,
        may_pay_again=asking.may_pay_again,
        reply_format=config.reply_format,
    )
    title = f"{scope.dimension} ({scope.mode}) is judged"
    with (
        judge.service(config) as service,
        JudgingBar(title, total=left.total, log=log) as progress,
    ):
        if left.unanswered and not asking.rejudges:
            refuse_to_repay(
                frozenset(left.unanswered),
                ledger=ledger,
                service=service,
                progress=progress,
                command=f"tournament ledger recover --config {plan.config_path}",
                may_pay_again=asking.may_pay_again or is_free_model(requests[0].params["model"]),
            )
        work = rejudge_requests if asking.rejudges else settle_requests
        return work(
            requests,
            scope=scope,
            ledger=ledger,
            service=service,
            progress=progress,
            options=options,
        )


def _waiting_policy(config: JudgeConfig, asking: Asking) -> WaitingPolicy:
    return WaitingPolicy(
        poll_initial_seconds=config.poll_initial_seconds,
        poll_max_seconds=config.poll_max_seconds,
        deadline_seconds=asking.wait_seconds,
        prewarm_wait_seconds=config.prewarm_wait_seconds if asking.prewarms else None,
        adopt_grace_seconds=config.grace_seconds,
        max_rounds=config.max_rounds,
        max_direct=config.max_direct,
    )
