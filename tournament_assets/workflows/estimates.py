"""What a mode's judging would cost, before anything is generated or asked."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.judging.batch_service import Channel, TokenCounter
from tournament_assets.judging.costs.budgets import month_start
from tournament_assets.judging.costs.estimates import (
    CHARACTERS_PER_TOKEN,
    JudgingEstimate,
    ResponseEstimate,
    Workload,
    measure_workload,
)
from tournament_assets.judging.requests.pairs import PairToJudge, draw_share, split_identical
from tournament_assets.judging.settlement.model_responses import (
    build_response_requests,
    build_server_requests,
    response_scope,
)
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.project.project_files import load_rubrics
from tournament_assets.providers.openai.chat_server import costs_nothing
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
)
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.judges import PanelMember
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.workflows.judge_requests import (
    find_budget,
    judging_terms,
    observe_ledger,
    requests_for_pairs,
    response_terms,
)
from tournament_assets.workflows.ledger_lookup import (
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.workflows.plan import TournamentPlan

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


def estimate_pairs(
    plan: TournamentPlan,
    mode: Mode,
    pairs_by_dimension: Iterable[tuple[str, Sequence[PairToJudge]]],
    *,
    ledger: "Ledger",
    judge_model: str | None = None,
    assumed_responses: int = 0,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that some pairs take, and price them.

    Args:
        plan: The tournament.
        mode: The mode.
        pairs_by_dimension: The pairs of each dimension; looked at one dimension at a time.
        ledger: What is in it is not asked again.
        judge_model: Another model than the configured ones.
        assumed_responses: Responses among them that do not exist yet.
        counter: Counts the tokens of a sample of requests; None counts characters.

    Raises:
        InputError: If a rubric cannot be used.
        JudgeError: If the counter does not say.
    """
    rubrics = load_rubrics(plan.config, plan.project)
    judges = [
        _JudgeToPrice(judge, plan.verdict_scope(mode, "", judge), asked, ledger)
        for judge, asked in plan.by_judge(mode, model=judge_model)
    ]
    for dimension, pairs in pairs_by_dimension:
        for each in judges:
            each.measure(pairs, rubrics[dimension], counter)
    lead, *others = [each.estimate(mode) for each in judges]
    budgets = (each.budget for each in (lead, *others))
    return replace(
        lead,
        assumed_responses=assumed_responses,
        others=tuple(others),
        budget=next((each for each in budgets if each is not None), None),
    )


class _JudgeToPrice:
    """What one judge is to be asked, and its prices.

    Args:
        judge: Who is asked, and about which share of the pairs.
        scope: Its work, on no dimension yet.
        plan: The tournament as this judge alone judges it.
        ledger: What is in it is not asked again.
    """

    def __init__(
        self, judge: PanelMember, scope: JudgingScope, plan: TournamentPlan, ledger: "Ledger"
    ) -> None:
        self._judge, self._scope, self._plan, self._ledger = judge, scope, plan, ledger
        self._terms = judging_terms(plan, since=datetime.now(UTC), models=[judge.model])
        self._channel: Channel = "batch" if judge.row.has_batches else "direct"
        self._observation, self._tokens_per_reply = observe_ledger(ledger, judge.model)
        self._workloads: dict[str, Workload] = {}

    def measure(
        self, pairs: Sequence[PairToJudge], rubric: Rubric, counter: TokenCounter | None
    ) -> None:
        """Count what some pairs of a dimension take."""
        asking, judge, ledger = self._plan.config.judge, self._judge, self._ledger
        to_ask = draw_share(pairs, judge_model=judge.model, share=judge.share)
        n_identical = 0
        if asking.identical_responses_tie:
            to_ask, identical = split_identical(to_ask)
            n_identical = len(identical)
        scope = replace(self._scope, dimension=rubric.dimension)
        self._workloads[rubric.dimension] = measure_workload(
            requests_for_pairs(self._plan, to_ask, rubric, judge=judge),
            find_answered=ledger.answered_keys,
            under_way=_keys_under_way(ledger, scope),
            identical=(2 if asking.presentations == "both" else 1) * n_identical,
            tokens_per_reply=self._tokens_per_reply,
            prices=self._terms.prices,
            counter=counter,
            channel=self._channel,
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
            price_source="judge.prices" if model in prices.configured else prices.source,
            batch_discount=prices.discount(self._channel),
            workloads=self._workloads,
            assumed_responses=0,
            is_free=self._judge.row.is_free or prices.is_zero(model),
            observation=self._observation,
            month=prices.add_up(spent),
            budget=find_budget(self._terms, self._workloads.values(), ledger=self._ledger),
        )


def _keys_under_way(ledger: "Ledger", scope: JudgingScope) -> set[str]:
    """Return what the next run collects; what was asked directly cannot be had any more."""
    keys: set[str] = set()
    for batch in ledger.open_batches(scope):
        if batch.channel == "batch":
            keys |= ledger.batch_keys(batch.nonce)
    return keys


def estimate_judging(
    plan: TournamentPlan,
    mode: Mode,
    *,
    ledger: "Ledger",
    judge_model: str | None = None,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that a mode would send, with the responses that exist so far.

    Nothing is generated, sent or written. Weights that are not there yet are no problem. See
    `estimate_pairs` for the arguments.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
        JudgeError: If the counter does not say.
    """
    config = plan.config
    bank, prompts = load_bank_and_selection(plan, mode)
    responses: dict[tuple[str, str], str] = {}
    priced: list[ResponseEstimate] = []
    assumed = 0
    for entrant in config.entrants:
        known = known_responses(plan, entrant, bank, prompts, ledger=ledger)
        if isinstance(entrant, AnthropicApiEntrant | OpenAiApiEntrant):
            missing = [prompt for prompt in prompts if prompt.prompt_id not in known]
            priced.append(_estimate_responses(plan, entrant, missing, ledger=ledger))
        if not isinstance(entrant, RecordedEntrant):
            # Each stands for a text of its own, so that no two of them are one request.
            length = round(entrant.max_new_tokens * CHARACTERS_PER_TOKEN)
            for prompt in prompts:
                if prompt.prompt_id not in known:
                    known[prompt.prompt_id] = entrant.entrant_id.ljust(length, ".")
                    assumed += 1
        responses.update(
            ((entrant.entrant_id, prompt_id), text) for prompt_id, text in known.items()
        )
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
    )
    return replace(
        estimate,
        responses=tuple(priced),
        response_budget=find_budget(
            response_terms(plan, since=datetime.now(UTC)),
            [each.workload for each in priced],
            ledger=ledger,
        ),
    )


def _estimate_responses(
    plan: TournamentPlan,
    entrant: AnthropicApiEntrant | OpenAiApiEntrant,
    missing: Sequence[Prompt],
    *,
    ledger: "Ledger",
) -> ResponseEstimate:
    prices = response_terms(plan, since=datetime.now(UTC)).prices
    _, expected = observe_ledger(ledger, entrant.model, on_responses=True)
    channel: Channel
    if isinstance(entrant, AnthropicApiEntrant):
        channel, is_free = "batch", SERVICES[entrant.service].is_free
        requests = build_response_requests(entrant, missing)
    else:
        channel = "direct"
        is_free = costs_nothing(entrant, plan.project.environment, prices)
        requests = build_server_requests(entrant, missing)
    return ResponseEstimate(
        entrant_id=entrant.entrant_id,
        model=entrant.model,
        price=prices.models.get(entrant.model),
        discount=prices.discount(channel),
        workload=measure_workload(
            list(requests.values()),
            # A server's reply without a response is asked for again.
            find_answered=ledger.answered_keys if channel == "batch" else lambda _keys: frozenset(),
            under_way=_keys_under_way(ledger, response_scope(entrant)),
            tokens_per_reply=min(expected, entrant.max_new_tokens),
            prices=prices,
            channel=channel,
        ),
        is_free=is_free,
    )
