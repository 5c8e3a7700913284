"""What a mode's judging would cost and could tell, before anything is generated or asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.judging.batch_service import Channel, TokenCounter
from tournament_assets.judging.costs.estimates import (
    CHARACTERS_PER_TOKEN,
    JudgingEstimate,
    ResponseEstimate,
    RoundsEstimate,
    Workload,
    measure_workload,
)
from tournament_assets.judging.costs.prices import month_start
from tournament_assets.judging.requests.pairs import PairToJudge, draw_share, split_identical
from tournament_assets.judging.requests.requests import JudgeRequests, effort_of
from tournament_assets.judging.settlement.account import read_account
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.preparing.existing_work import (
    existing_responses,
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.project.plan import TournamentPlan, requests_for_pairs
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.project.project_files import load_rubrics
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.responses.api_responses import (
    build_response_requests,
    costs_nothing,
    response_scope,
)
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import (
    ApiEntrant,
    loader_of,
)
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.judges import Judge, Rubric
from tournament_assets.tournament.prompts import AnswerKey, Prompt, answer_key, first_samples
from tournament_assets.verdicts.judge_requests import MOST_DIRECT, open_ledger
from tournament_assets.verdicts.rounds import FollowCourse, follow_rounds
from tournament_assets.verdicts.spending_plans import (
    find_budget,
    judging_terms,
    observe_ledger,
    response_terms,
)

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


FindShares = Callable[[Rubric], Mapping[tuple[str, str], Sequence[float]]]
"""Returns the first entrant's shares of a win for every two entrants."""


def estimate_tournament(
    plan: TournamentPlan,
    mode: Mode,
    *,
    judge_model: str | None = None,
    counts_tokens: bool = False,
) -> JudgingEstimate:
    """Estimate the cost of judging a mode, without asking the judge.

    Args:
        counts_tokens: Let the service count the tokens of a sample of requests, which is free.
    """
    with open_ledger(plan.project.ledger_url) as ledger, ExitStack() as stack:
        lead = plan.config.lead(mode, model=judge_model)
        if lead.model_problem is not None:
            raise InputError(lead.model_problem)
        counter: TokenCounter | None = None
        if counts_tokens:
            environment, folder = plan.project.environment, plan.project.folder
            judge = JudgeConnection.from_environment(environment, folder)
            service = stack.enter_context(judge.service(lead))
            if not isinstance(service, TokenCounter):
                raise InputError(
                    f"the service {lead.service!r} counts no tokens; expected one "
                    "that does; estimate without --count-tokens"
                )
            counter = service
        return estimate_judging(plan, mode, ledger=ledger, judge_model=judge_model, counter=counter)


def estimate_pairs(
    plan: TournamentPlan,
    mode: Mode,
    pairs_by_dimension: Iterable[tuple[str, Sequence[PairToJudge]]],
    *,
    ledger: Ledger,
    judge_model: str | None = None,
    assumed_responses: int = 0,
    counter: TokenCounter | None = None,
    pilot: FindShares | None = None,
) -> JudgingEstimate:
    """Count the requests that some pairs take, and price them.

    Where pairs stop early this is the most that they can take from here.

    Args:
        pairs_by_dimension: The pairs of each dimension; looked at one dimension at a time.
        ledger: What is in it is not asked again.
        judge_model: Another model than the configured ones.
        assumed_responses: Responses among them that do not exist yet.
        counter: Counts the tokens of a sample of requests; None counts characters.
        pilot: Says what a pilot found on a dimension, for what judging in rounds may come to.
    """
    by_dimension = list(pairs_by_dimension)
    panel = plan.config.judges_of(mode, model=judge_model)
    is_open = any(plan.config.channel_of(mode, judge) == "auto" for judge in panel)

    def estimate(automatic: Channel) -> JudgingEstimate:
        return _price_pairs(
            plan,
            mode,
            by_dimension,
            panel,
            ledger=ledger,
            assumed_responses=assumed_responses,
            counter=counter,
            pilot=pilot,
            automatic=automatic,
        )

    priced = estimate("batch")
    now = priced if priced.rounds is None else priced.rounds.now
    if is_open and 0 < now.to_ask <= MOST_DIRECT:
        directly = estimate("direct")
        priced = priced if directly.budget_problem else directly
    cautions = playing_judges(plan, mode, models=(judge_model,))
    return replace(priced, cautions=tuple(part.sentence for part in cautions))


def _price_pairs(
    plan: TournamentPlan,
    mode: Mode,
    pairs_by_dimension: Iterable[tuple[str, Sequence[PairToJudge]]],
    panel: Sequence[Judge],
    *,
    ledger: Ledger,
    assumed_responses: int,
    counter: TokenCounter | None,
    pilot: FindShares | None,
    automatic: Channel,
) -> JudgingEstimate:
    rubrics = load_rubrics(plan.config, plan.project)

    def judges_to_price() -> list[_JudgeToPrice]:
        return [
            _JudgeToPrice(
                judge,
                plan.verdict_scope(mode, "", judge),
                plan,
                ledger,
                automatic if choice == "auto" else choice,
            )
            for judge in panel
            for choice in [plan.config.channel_of(mode, judge)]
        ]

    judges, next_round = judges_to_price(), judges_to_price()
    follow = follow_rounds(plan.config.mode(mode))
    shares: dict[str, float | None] = {}
    for dimension, pairs in pairs_by_dimension:
        possible = pairs
        if follow is not None:
            course = follow(plan, mode, pairs, rubrics[dimension], panel, ledger)
            possible = course.possible
            for part in next_round:
                part.measure(course.needed, rubrics[dimension], counter)
            pilot_shares = pilot(rubrics[dimension]) if pilot is not None else {}
            shares[dimension] = course.expected_share(pilot_shares)
        for part in judges:
            part.measure(possible, rubrics[dimension], counter)
    lead, *others = [part.estimate(mode) for part in judges]
    if follow is not None:
        now, *others_now = [part.estimate(mode) for part in next_round]
        now = replace(now, others=tuple(others_now))
        lead = replace(lead, rounds=RoundsEstimate(now, shares))
    budgets = (part.budget for part in (lead, *others))
    return replace(
        lead,
        assumed_responses=assumed_responses,
        others=tuple(others),
        has_trial=plan.config.mode(mode).prewarm,
        budget=next((part for part in budgets if part is not None), None),
    )


def requests_of_share(
    plan: TournamentPlan, pairs: Sequence[PairToJudge], rubric: Rubric, judge: Judge
) -> JudgeRequests:
    """Build the requests to a judge about its share of some pairs."""
    return requests_for_pairs(plan, draw_share(pairs, judge), rubric, judge=judge)


def _shares_of_pilot(plan: TournamentPlan, follow: FollowCourse, *, ledger: Ledger) -> FindShares:
    """Return a function that reads the pilot's verdicts from the ledger."""
    prompts, responses = existing_responses(plan, "pilot", ledger=ledger)

    def find(rubric: Rubric) -> Mapping[tuple[str, str], Sequence[float]]:
        pairs = pairs_of_dimension(plan, rubric.dimension, prompts, responses)
        judges = plan.config.judges_of("pilot")
        return follow(plan, "pilot", pairs, rubric, judges, ledger).known_shares()

    return find


class _JudgeToPrice:
    """The requests to one judge, and its prices.

    Args:
        judge: Who is asked, and about which share of the pairs.
        scope: Its work, on no dimension yet.
        plan: The tournament.
        ledger: What is in it is not asked again.
        channel: How the judge is asked.
    """

    def __init__(
        self,
        judge: Judge,
        scope: JudgingScope,
        plan: TournamentPlan,
        ledger: Ledger,
        channel: Channel,
    ) -> None:
        self._judge, self._scope, self._plan, self._ledger = judge, scope, plan, ledger
        self._terms = judging_terms(plan, since=datetime.now(UTC), judges=[judge])
        self._channel = channel
        self._observation, self._tokens_per_reply = observe_ledger(
            ledger, self._terms, judge.model, effort_of(judge.further_params)
        )
        self._workloads: dict[str, Workload] = {}

    def measure(
        self, pairs: Sequence[PairToJudge], rubric: Rubric, counter: TokenCounter | None
    ) -> None:
        """Count what some pairs of a dimension take."""
        judging, judge, ledger = self._plan.config.judging, self._judge, self._ledger
        to_ask = draw_share(pairs, judge)
        n_identical = 0
        if judging.identical_responses_tie:
            to_ask, identical = split_identical(to_ask)
            n_identical = len(identical)
        scope = replace(self._scope, dimension=rubric.dimension)
        requests = requests_for_pairs(self._plan, to_ask, rubric, judge=judge)
        account = read_account(
            requests, scope=scope, ledger=ledger, reply_format=judging.reply_format
        )
        self._workloads[rubric.dimension] = measure_workload(
            requests,
            has_reply=account.has_reply,
            under_way=account.under_way,
            identical=2 * n_identical,
            tokens_per_reply=min(self._tokens_per_reply, judge.max_tokens),
            prices=self._terms.prices,
            counter=counter,
            channel=self._channel,
            has_trial=self._channel == "batch" and self._plan.config.mode(scope.mode).prewarm,
        )

    def estimate(self, mode: Mode) -> JudgingEstimate:
        """Price what was counted."""
        prices, model = self._terms.prices, self._judge.model
        spent = self._ledger.spending_since(month_start(datetime.now(UTC)))
        return JudgingEstimate(
            mode=mode,
            judge_model=model,
            prices_of=prices.date,
            price=prices.models.get(model),
            price_source=prices.source_of(model),
            hint="" if model in prices.models else hint_at(model, prices.models, cutoff=0.8),
            batch_discount=prices.discount(self._channel),
            workloads=self._workloads,
            assumed_responses=0,
            is_free=self._judge.row.is_free or prices.is_zero(model),
            observation=self._observation,
            month=prices.add_up(spent),
            budget=find_budget(self._terms, self._workloads.values(), ledger=self._ledger),
        )


def estimate_judging(
    plan: TournamentPlan,
    mode: Mode,
    *,
    ledger: Ledger,
    judge_model: str | None = None,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that a mode would send, with the responses that exist so far.

    Nothing is generated, sent or written. Weights may be missing. See `estimate_pairs` for the
    arguments.
    """
    config, follow = plan.config, follow_rounds(plan.config.mode(mode))
    bank, prompts = load_bank_and_selection(plan, mode)
    responses: dict[tuple[str, AnswerKey], str] = {}
    priced: list[ResponseEstimate] = []
    assumed = 0
    for entrant in config.entrants:
        texts = known_responses(plan, entrant, bank, prompts, ledger=ledger)
        row = loader_of(entrant)
        if row.estimate is not None:
            missing = [prompt for prompt in prompts if answer_key(prompt) not in texts]
            to_answer = first_samples(missing) if entrant.answers_once else missing
            priced.append(resolve_name(row.estimate)(plan, entrant, to_answer, ledger=ledger))
        if row.answered is None:
            # Each placeholder is unique, so that no two of them make one request.
            length = round(entrant.longest_response * CHARACTERS_PER_TOKEN)
            for prompt in prompts:
                if answer_key(prompt) not in texts:
                    sample = 1 if entrant.answers_once else prompt.sample
                    placeholder = entrant.entrant_id + (f" {sample}" if sample > 1 else "")
                    texts[answer_key(prompt)] = placeholder.ljust(length, ".")
                    assumed += 1
        responses.update(((entrant.entrant_id, key), text) for key, text in texts.items())
    estimate = estimate_pairs(
        plan,
        mode,
        (
            (dimension, pairs_of_dimension(plan, dimension, prompts, responses))
            for dimension in config.dimension_names
        ),
        ledger=ledger,
        judge_model=judge_model,
        assumed_responses=assumed,
        counter=counter,
        pilot=None if follow is None else _shares_of_pilot(plan, follow, ledger=ledger),
    )
    besides = 0
    if config.mode(mode).schedule is not None:
        pairs = [workload.presentations // 2 for workload in estimate.workloads.values()]
        besides = sum(count(plan, pairs) for count in added_rows("rerun_requests"))
    return replace(
        estimate,
        anchor_requests=besides,
        responses=tuple(priced),
        response_budget=find_budget(
            response_terms(plan, since=datetime.now(UTC)),
            [each.workload for each in priced],
            ledger=ledger,
        ),
    )


def estimate_responses(
    plan: TournamentPlan,
    entrant: ApiEntrant,
    missing: Sequence[Prompt],
    *,
    ledger: Ledger,
) -> ResponseEstimate:
    """Price what is asked of a served entrant for its missing responses."""
    terms = response_terms(plan, since=datetime.now(UTC))
    prices = terms.prices
    _, expected = observe_ledger(ledger, terms, entrant.model)
    channel = SERVICES[entrant.service].channel
    requests = list(build_response_requests(entrant, missing).values())
    account = read_account(
        requests, scope=response_scope(entrant), ledger=ledger, reply_format=None
    )
    return ResponseEstimate(
        entrant_id=entrant.entrant_id,
        model=entrant.model,
        price=prices.models.get(entrant.model),
        discount=prices.discount(channel),
        workload=measure_workload(
            requests,
            has_reply=account.has_reply,
            under_way=account.under_way,
            tokens_per_reply=min(expected, entrant.max_new_tokens),
            prices=prices,
            channel=channel,
        ),
        is_free=costs_nothing(entrant, plan.project.environment, prices),
    )
