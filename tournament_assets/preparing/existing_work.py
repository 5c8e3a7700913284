"""The existing work of a mode: its prompts, its stored responses, and their pairs.

Nothing is generated, sent or written. Everything, including failed judge requests, comes from the
config, the recorded files and the ledger, not from Dagster's storage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.pairs import (
    PairToJudge,
    build_match_list,
    draw_share,
    filter_pairs_for_dimension,
    split_identical,
)
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.judging.settlement.recovery import find_failed_requests
from tournament_assets.project.plan import TournamentPlan, requests_for_pairs, select_prompts
from tournament_assets.project.project_files import (
    entrant_fingerprint,
    load_bank,
    load_rubric,
)
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import (
    AnyEntrant,
    loader_of,
)
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import (
    AnswerKey,
    GeneratedResponse,
    Prompt,
    answer_key,
    first_samples,
    read_again,
)

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


def load_bank_and_selection(
    plan: TournamentPlan, mode: Mode
) -> tuple[list[Prompt], Sequence[Prompt]]:
    """Return all of a tournament's prompts, and those of a mode.

    Raises:
        InputError: If the bank cannot be used.
    """
    config = plan.config
    bank = load_bank(config, plan.project)
    return bank, select_prompts(config, mode, bank)


def known_responses(
    plan: TournamentPlan,
    entrant: AnyEntrant,
    bank: Sequence[Prompt],
    prompts: Sequence[Prompt],
    *,
    ledger: "Ledger",
) -> dict[AnswerKey, str]:
    """Return an entrant's existing responses to the given prompts, by prompt and sample."""
    if entrant.answers_once and any(each.sample > 1 for each in prompts):
        firsts = first_samples(prompts)
        once = known_responses(plan, entrant, bank, firsts, ledger=ledger)
        return {
            answer_key(each): once[each.prompt_id, 1]
            for each in prompts
            if (each.prompt_id, 1) in once
        }
    keys = {answer_key(prompt) for prompt in prompts}
    read = loader_of(entrant).answered
    if read is not None:
        rows: Sequence[GeneratedResponse] = resolve_name(read)(entrant, plan, bank)
        responses, _ = read_again(rows, cuts_thoughts=entrant.cuts_thoughts)
        return {answer_key(row): row.text for row in responses if answer_key(row) in keys}
    try:
        identity = entrant_fingerprint(entrant, plan.project)
    except InputError:
        return {}
    fingerprints = [prompt.fingerprint for prompt in prompts]
    stored = ledger.responses(identity, fingerprints, cuts_thoughts=entrant.cuts_thoughts)
    return {answer_key(response): response.text for response in stored.values()}


def existing_responses(
    plan: TournamentPlan, mode: Mode, *, ledger: "Ledger"
) -> tuple[Sequence[Prompt], dict[tuple[str, AnswerKey], str]]:
    """Return the prompts of a mode, and the existing responses to them by entrant and prompt."""
    bank, prompts = load_bank_and_selection(plan, mode)
    return prompts, {
        (entrant.entrant_id, key): text
        for entrant in plan.config.entrants
        for key, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
    }


def pairs_of_dimension(
    plan: TournamentPlan,
    dimension: str,
    prompts: Sequence[Prompt],
    responses: dict[tuple[str, AnswerKey], str],
) -> list[PairToJudge]:
    """Return the pairs that are judged on a dimension."""
    rules = plan.config.dimensions[dimension]
    matches = build_match_list(prompts, responses, entrants=plan.config.entrant_ids)
    return filter_pairs_for_dimension(matches.pairs, needs_gold_answer=rules.needs_gold_answer)


def existing_requests(
    plan: TournamentPlan, mode: Mode, judge: Judge, *, ledger: "Ledger"
) -> dict[str, JudgeRequests]:
    """Return a judge's requests about the existing responses, by dimension."""
    config = plan.config
    prompts, responses = existing_responses(plan, mode, ledger=ledger)
    requests: dict[str, JudgeRequests] = {}
    for dimension in config.dimension_names:
        pairs = pairs_of_dimension(plan, dimension, prompts, responses)
        if config.judging.identical_responses_tie:
            pairs, _ = split_identical(pairs)
        requests[dimension] = requests_for_pairs(
            plan,
            draw_share(pairs, judge),
            load_rubric(config, plan.project, dimension),
            judge=judge,
        )
    return requests


@dataclass(frozen=True, slots=True)
class FailedPresentation:
    """A presentation that the judge was asked about but that has no verdict.

    Attributes:
        entrant_a: The pair's first entrant.
        entrant_b: The pair's second entrant.
        failure: Why there is no verdict.
    """

    dimension: str
    entrant_a: str
    entrant_b: str
    failure: FailureClass


def find_failed_presentations(
    plan: TournamentPlan, mode: Mode, *, ledger: "Ledger", judge_model: str | None = None
) -> list[FailedPresentation]:
    """Return what could be judged again, by dimension and pair, without asking a judge."""
    presentations: list[FailedPresentation] = []
    for judge in plan.config.judges_of(mode, model=judge_model):
        for dimension, requests in existing_requests(plan, mode, judge, ledger=ledger).items():
            failed = find_failed_requests(
                (request.request_key for request in requests),
                scope=plan.verdict_scope(mode, dimension, judge),
                ledger=ledger,
                reply_format=plan.config.judging.reply_format,
            )
            presentations += [
                FailedPresentation(
                    dimension,
                    request.entrant_a,
                    request.entrant_b,
                    failed[request.request_key].failure,
                )
                for request in requests
                if request.request_key in failed
            ]
    return presentations
