"""Lets entrants answer prompts, each by the function that its loader's row names."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pkgutil import resolve_name
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.settlement.sessions import Piece, Sleep, one_at_a_time, run_together
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import find_entrant_files
from tournament_assets.recorded.recorded_responses import (
    RecordedResponses,
    load_recorded_responses,
    match_responses,
)
from tournament_assets.recorded.samples import parse_samples
from tournament_assets.responses.api_responses import complete_by_service
from tournament_assets.responses.local_responses import (
    CompletedResponses,
    GeneratorAccess,
    complete_responses,
)
from tournament_assets.tournament.entrants import (
    AnyEntrant,
    ApiEntrant,
    LocalEntrant,
    RecordedEntrant,
    loader_of,
)
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    Prompt,
    first_samples,
    read_again,
    repeat_for_samples,
)
from tournament_assets.verdicts.judge_requests import JudgeAccess, LedgerAccess
from tournament_assets.verdicts.spending_plans import response_terms


@dataclass(frozen=True, slots=True)
class Resources:
    """What answering may need.

    Attributes:
        judge: Leads to the judging service, which some entrants are answered by.
    """

    ledger: LedgerAccess
    generator: GeneratorAccess
    judge: JudgeAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Responses that are wanted of an entrant.

    Attributes:
        bank: All prompts that a recorded file may answer.
        may_pay_again: Whether paid results that a service no longer keeps may be bought again.
        since: When the run began, for a budget that is for one run.
        upstream: What assets of the surrounding project hold, by key.
    """

    prompts: Sequence[Prompt]
    bank: Sequence[Prompt] = ()
    plan: TournamentPlan
    resources: Resources
    may_pay_again: bool
    since: datetime
    log: Callable[[str], None]
    upstream: Mapping[str, object] = field(default_factory=dict)
    sleep: Sleep = time.sleep


def answer_prompts(entrant: AnyEntrant, task: Wanted) -> CompletedResponses:
    """Take an entrant's existing responses, and get the rest, as its loader says.

    Raises:
        InputError: If the entrant's files or its server's address cannot be used.
        GenerationError: If it cannot answer; what it answered is kept.
        BudgetError: If its responses would cost more than `generation.budget.usd` leaves.
    """
    if entrant.answers_once and any(prompt.sample > 1 for prompt in task.prompts):
        firsts = replace(task, prompts=first_samples(task.prompts))
        answered = answer_prompts(entrant, firsts)
        return replace(answered, responses=repeat_for_samples(answered.responses, task.prompts))
    completed: CompletedResponses = resolve_name(loader_of(entrant).answer)(entrant, task)
    responses, missing = read_again(completed.responses, cuts_thoughts=entrant.cuts_thoughts)
    return replace(completed, responses=responses, reasons={**missing, **completed.reasons})


def generate_here(entrant: LocalEntrant, task: Wanted) -> CompletedResponses:
    """Generate on this machine what the ledger lacks."""
    with task.resources.ledger.open() as ledger:
        return complete_responses(
            entrant,
            files=find_entrant_files(entrant, task.plan.project),
            prompts=task.prompts,
            ledger=ledger,
            config=task.plan.config.generation,
            log=task.log,
            generator=task.resources.generator,
            kernels=task.plan.project.folder / "storage" / "kernels",
        )


def ask_service(entrant: ApiEntrant, task: Wanted) -> CompletedResponses:
    """Ask a service for what the ledger lacks."""
    with task.resources.ledger.open() as ledger:
        return complete_by_service(
            entrant,
            prompts=task.prompts,
            ledger=ledger,
            judge=task.resources.judge,
            judges=task.plan.config.judges,
            environment=task.plan.project.environment,
            may_pay_again=task.may_pay_again,
            log=task.log,
            terms=response_terms(task.plan, since=task.since),
            sleep=task.sleep,
        )


def served_entrants(plan: TournamentPlan) -> list[AnyEntrant]:
    """Return the entrants that a service answers for, in config order."""
    return [entrant for entrant in plan.config.entrants if entrant.service is not None]


def answer_together(task: Wanted) -> dict[str, CompletedResponses]:
    """Let every entrant that a service answers for answer, all at once; return it by entrant.

    Raises:
        InputError: If the address of a server cannot be used.
        GenerationError: If one of them cannot answer; what the others answered is kept.
        BudgetError: If responses would cost more than `generation.budget.usd` leaves.
    """
    log = one_at_a_time(task.log)

    def answer(entrant: AnyEntrant, sleep: Sleep) -> CompletedResponses:
        return answer_prompts(entrant, replace(task, log=log, sleep=sleep))

    entrants = served_entrants(task.plan)
    pieces = [Piece(entrant.entrant_id, partial(answer, entrant)) for entrant in entrants]
    answered = run_together(pieces, log=log)
    return {each.entrant_id: done for each, done in zip(entrants, answered, strict=True)}


def read_recorded(entrant: RecordedEntrant, task: Wanted) -> CompletedResponses:
    """Read what something else has generated, from a file or an asset."""
    plan = task.plan
    asset = entrant.responses.asset
    if asset is not None:
        title = f"the asset {asset}"
        file = parse_samples(
            _rows_of_asset(asset, task.upstream[asset]),
            title=title,
            format_name=entrant.format,
            columns=entrant.columns,
        )
        recorded = match_responses(file, entrant, title=title, prompts=task.bank)
    else:
        title = "a recorded file"
        recorded = _read_file(entrant, plan, task.bank)
    prompt_ids = {prompt.prompt_id for prompt in task.prompts}
    return CompletedResponses(
        responses=[response for response in recorded.responses if response.prompt_id in prompt_ids],
        generated=0,
        device=title,
        reasons=recorded.missing,
        figures={
            "format": recorded.format,
            "rows_left_out": sum(recorded.left_out.values()),
            "left_out": dict(recorded.left_out),
        },
        warnings=recorded.warnings,
    )


def recorded_responses(
    entrant: RecordedEntrant, plan: TournamentPlan, bank: Sequence[Prompt]
) -> list[GeneratedResponse]:
    """Return what a recorded file answers of a bank.

    Raises:
        InputError: If the file is missing or cannot be used.
    """
    return _read_file(entrant, plan, bank).responses


def _read_file(
    entrant: RecordedEntrant, plan: TournamentPlan, bank: Sequence[Prompt]
) -> RecordedResponses:
    name = entrant.entrant_id
    path = plan.project.resolve(
        entrant.responses, what=f"{name}'s responses", key=f"entrants.{name}.responses"
    )
    return load_recorded_responses(path, entrant, prompts=bank)


def _rows_of_asset(asset: str, value: Any) -> list[tuple[str, JsonObject]]:
    rows = value.to_dict("records") if hasattr(value, "to_dict") else value
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(
            f"the asset {asset!r} holds {type(value).__name__}; expected a data frame or a list of "
            "rows with prompt_id and response, of an asset without partitions"
        )
    return [(f"{asset}:row {number}", row) for number, row in enumerate(rows, start=1)]
