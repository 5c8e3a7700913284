"""What exists already of a mode: its prompts, the responses that are kept, the pairs they make.

Nothing is generated, sent or written, and Dagster's storage is not looked at: the config, the
recorded files and the ledger say it all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tournament_assets.adapters.entrant_files import find_entrant_files
from tournament_assets.adapters.project_files import (
    load_prompt_bank,
    load_recorded_responses,
    load_rubric,
)
from tournament_assets.assets.asking import requests_for_pairs
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.pairing import (
    PairToJudge,
    build_match_list,
    filter_pairs_for_dimension,
    split_identical,
)
from tournament_assets.judging.requests import JudgeRequests
from tournament_assets.tournament.api_entrants import AnthropicApiEntrant, OpenAiApiEntrant
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import AnyEntrant, RecordedEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import Prompt, draw_stratified

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger


def load_bank_and_selection(
    plan: TournamentPlan, mode: Mode
) -> tuple[list[Prompt], Sequence[Prompt]]:
    """Return a tournament's prompts, and those of a mode.

    Raises:
        InputError: If the bank cannot be used.
    """
    config = plan.config
    bank = load_prompt_bank(plan.project.resolve(config.prompt_bank, what="the prompt bank"))
    if mode == "headline":
        return bank, bank
    pilot = config.pilot
    return bank, draw_stratified(bank, strata=pilot.strata, seed=pilot.pilot_seed)


def known_responses(
    plan: TournamentPlan,
    entrant: AnyEntrant,
    bank: Sequence[Prompt],
    prompts: Sequence[Prompt],
    *,
    ledger: "Ledger",
) -> dict[str, str]:
    """Return an entrant's responses to some prompts, as far as they exist, by prompt id.

    Raises:
        InputError: If a recorded file cannot be used. Weights that are not there are no problem.
    """
    wanted = {prompt.prompt_id for prompt in prompts}
    if isinstance(entrant, RecordedEntrant):
        path = plan.project.resolve(entrant.responses, what=f"{entrant.entrant_id}'s responses")
        recorded = load_recorded_responses(path, entrant_id=entrant.entrant_id, prompts=bank)
        return {row.prompt_id: row.text for row in recorded if row.prompt_id in wanted}
    if isinstance(entrant, OpenAiApiEntrant | AnthropicApiEntrant):
        content_hash = entrant.content_hash
    else:
        try:
            content_hash = find_entrant_files(entrant, plan.project).fingerprint
        except InputError:
            return {}
    kept = ledger.responses(
        entrant.fingerprint(content_hash), [prompt.fingerprint for prompt in prompts]
    )
    return {response.prompt_id: response.text for response in kept.values()}


def pairs_of_dimension(
    plan: TournamentPlan,
    dimension: str,
    prompts: Sequence[Prompt],
    responses: dict[tuple[str, str], str],
) -> list[PairToJudge]:
    """Return the pairs that are judged on a dimension."""
    rules = plan.config.dimensions[dimension]
    matches = build_match_list(prompts, responses, entrants=plan.config.entrant_ids)
    return filter_pairs_for_dimension(matches.pairs, needs_gold_answer=rules.needs_gold_answer)


def existing_requests(
    plan: TournamentPlan,
    mode: Mode,
    *,
    ledger: "Ledger",
    judge_model: str | None = None,
) -> dict[str, JudgeRequests]:
    """Return what is asked of the judge about the responses that exist, by dimension.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
    """
    config = plan.config
    bank, prompts = load_bank_and_selection(plan, mode)
    responses = {
        (entrant.entrant_id, prompt_id): text
        for entrant in config.entrants
        for prompt_id, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
    }
    requests: dict[str, JudgeRequests] = {}
    for dimension in config.dimension_names:
        pairs = pairs_of_dimension(plan, dimension, prompts, responses)
        if config.judge.identical_responses_tie:
            pairs, _ = split_identical(pairs)
        requests[dimension] = requests_for_pairs(
            plan,
            pairs,
            load_rubric(config, plan.project, dimension),
            judge_model=judge_model or config.judge_model(mode),
        )
    return requests
