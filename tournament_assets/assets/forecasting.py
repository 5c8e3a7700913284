"""What a mode's judging would cost, before anything is generated or asked."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.assets.estimating import find_budget, observe_ledger, response_terms
from tournament_assets.assets.holdings import (
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.assets.pair_estimates import estimate_pairs
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.estimating import (
    CHARACTERS_PER_TOKEN,
    JudgingEstimate,
    ResponseEstimate,
    measure_workload,
)
from tournament_assets.judging.responses import build_response_requests, response_scope
from tournament_assets.judging.service import TokenCounter
from tournament_assets.tournament.api_entrants import AnthropicApiEntrant
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.prompts import Prompt

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def estimate_judging(
    plan: TournamentPlan,
    mode: Mode,
    *,
    ledger: "Ledger",
    judge_model: str | None = None,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that a mode would send, with the responses that exist so far.

    Nothing is generated, sent or written. Weights that are not there yet are no problem.

    Args:
        plan: The tournament.
        mode: The mode.
        ledger: What is in it is not asked again.
        judge_model: Another model than the configured one.
        counter: Counts the tokens of a sample of requests; None counts characters.

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
        if isinstance(entrant, AnthropicApiEntrant):
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
        judge_model=judge_model or config.judge_model(mode),
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
    entrant: AnthropicApiEntrant,
    missing: Sequence[Prompt],
    *,
    ledger: "Ledger",
) -> ResponseEstimate:
    prices = response_terms(plan, since=datetime.now(UTC)).prices
    _, expected = observe_ledger(ledger, entrant.model, on_responses=True)
    under_way: set[str] = set()
    for batch in ledger.open_batches(response_scope(entrant)):
        if batch.channel == "batch":
            under_way |= ledger.batch_keys(batch.nonce)
    return ResponseEstimate(
        entrant_id=entrant.entrant_id,
        model=entrant.model,
        price=prices.models.get(entrant.model),
        batch_discount=prices.batch_discount,
        workload=measure_workload(
            list(build_response_requests(entrant, missing).values()),
            find_answered=ledger.answered_keys,
            under_way=under_way,
            tokens_per_reply=min(expected, entrant.max_new_tokens),
            prices=prices,
        ),
        is_free=entrant.service == "loopback",
    )
