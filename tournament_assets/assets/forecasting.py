"""What a mode's judging would cost, before anything is generated or asked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tournament_assets.adapters.project_files import load_prompt_bank, load_recorded_responses
from tournament_assets.assets.estimate import estimate_pairs
from tournament_assets.assets.partitions import TournamentPlan
from tournament_assets.generation.weights import fingerprint_weights
from tournament_assets.judging.estimating import CHARACTERS_PER_TOKEN, JudgingEstimate
from tournament_assets.judging.pairing import build_match_list, filter_pairs_for_dimension
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import AnyEntrant, RecordedEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import Prompt, draw_stratified

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def estimate_judging(
    plan: TournamentPlan, mode: Mode, *, ledger: "Ledger", judge_model: str | None = None
) -> JudgingEstimate:
    """Count the requests that a mode would send, with the responses that exist so far.

    Nothing is generated, sent or written. Weights that are not there yet are no problem.

    Args:
        plan: The tournament.
        mode: The mode.
        ledger: What is in it is not asked again.
        judge_model: Another model than the configured one.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
    """
    config = plan.config
    bank = load_prompt_bank(plan.project.resolve(config.prompt_bank, what="the prompt bank"))
    prompts = bank
    if mode == "pilot":
        prompts = draw_stratified(bank, strata=config.pilot.strata, seed=config.pilot.pilot_seed)
    responses: dict[tuple[str, str], str] = {}
    assumed = 0
    for entrant in config.entrants:
        known = _known_responses(plan, entrant, bank, prompts, ledger)
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
    pairs = build_match_list(prompts, responses, entrants=config.entrant_ids).pairs
    return estimate_pairs(
        plan,
        mode,
        (
            (
                dimension,
                filter_pairs_for_dimension(pairs, needs_gold_answer=rules.needs_gold_answer),
            )
            for dimension, rules in config.dimensions.items()
        ),
        ledger=ledger,
        judge_model=judge_model or config.judge_model(mode),
        assumed_responses=assumed,
    )


def _known_responses(
    plan: TournamentPlan,
    entrant: AnyEntrant,
    bank: Sequence[Prompt],
    prompts: Sequence[Prompt],
    ledger: "Ledger",
) -> dict[str, str]:
    wanted = {prompt.prompt_id for prompt in prompts}
    if isinstance(entrant, RecordedEntrant):
        path = plan.project.resolve(entrant.responses, what=f"{entrant.entrant_id}'s responses")
        recorded = load_recorded_responses(path, entrant_id=entrant.entrant_id, prompts=bank)
        return {row.prompt_id: row.text for row in recorded if row.prompt_id in wanted}
    try:
        folder = plan.project.resolve(entrant.weights, what=f"{entrant.entrant_id}'s weights")
    except InputError:
        return {}
    kept = ledger.responses(
        entrant.fingerprint(fingerprint_weights(folder)),
        [prompt.fingerprint for prompt in prompts],
    )
    return {response.prompt_id: response.text for response in kept.values()}
