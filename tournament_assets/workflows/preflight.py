"""Everything that must be right before anything is spent, looked at all at once."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tournament_assets.generation.devices import device_problem
from tournament_assets.project.project_files import (
    entrant_file_problems,
    load_bank,
    load_rubrics,
)
from tournament_assets.project.recorded_responses import load_recorded_responses
from tournament_assets.tournament.config import HumanBattlesConfig, Mode
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    LocalEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
    answers_once,
)
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.prompts import Prompt, first_samples
from tournament_assets.workflows.api_responses import batch_problems
from tournament_assets.workflows.judge_requests import (
    judge_problems,
    missing_budget_problem,
    price_problem,
    response_terms,
)
from tournament_assets.workflows.ledger_lookup import known_responses, load_bank_and_selection
from tournament_assets.workflows.plan import TournamentPlan, select_prompts
from tournament_assets.workflows.server_responses import server_problems

if TYPE_CHECKING:
    from tournament_assets.battles.human import HumanBattles


def refuse_bad_input(
    plan: TournamentPlan,
    mode: Mode,
    *,
    skip_judging: bool = False,
    judge_model: str | None = None,
    ledger_url: str | None = None,
    needs_no_budget: bool = False,
) -> None:
    """Read every input of a tournament, and spend nothing.

    A server that answers for an entrant is looked at if the ledger lacks some of its responses.

    Args:
        plan: The tournament.
        mode: The mode that is about to run.
        skip_judging: Whether the judge will not be asked, so that no key is needed.
        judge_model: Another model than the configured one.
        ledger_url: Where responses are kept; None if there are none.
        needs_no_budget: Whether the run says that its headline may be paid for without a budget.

    Raises:
        InputError: With every problem found.
    """
    plan = plan.in_mode(mode)
    problems = Problems()
    bank: list[Prompt] = []
    with problems.collected():
        bank = load_bank(plan.config, plan.project)
        select_prompts(plan.config, mode, bank)
    with problems.collected():
        load_rubrics(plan.config, plan.project)
    if plan.config.human_battles is not None:
        with problems.collected():
            load_human_battles(plan, plan.config.human_battles)
    problems.extend(_entrant_problems(plan, bank))
    problems.extend(_server_problems(plan, mode, ledger_url))
    problems.extend(_batch_problems(plan, mode, ledger_url))
    with problems.collected():
        for judge, asked in plan.by_judge(mode, model=judge_model):
            for problem in (
                judge.model_problem(judge.model),
                price_problem(asked.config, judge.model),
            ):
                if problem is not None:
                    problems.add(problem)
            if not skip_judging:
                problems.extend(judge_problems(judge, plan.project.environment))
    if not skip_judging:
        budget_problem = missing_budget_problem(plan, mode, is_allowed=needs_no_budget)
        if budget_problem is not None:
            problems.add(budget_problem)
    problems.raise_if_any()


def _entrant_problems(plan: TournamentPlan, bank: list[Prompt]) -> list[str]:
    found: list[str] = []
    local: list[LocalEntrant] = []
    for entrant in plan.config.entrants:
        if isinstance(entrant, RecordedEntrant):
            found.extend(_recorded_problems(plan, entrant, bank))
        elif not isinstance(entrant, OpenAiApiEntrant | AnthropicApiEntrant):
            local.append(entrant)
    asked = plan.project.environment.get("TOURNAMENT_DEVICE")
    problem = device_problem(asked) if local and asked else None
    if problem is not None:
        found.append(problem)
    return [*found, *entrant_file_problems(local, plan.project)]


def _recorded_problems(
    plan: TournamentPlan, entrant: RecordedEntrant, bank: list[Prompt]
) -> Sequence[str]:
    try:
        path = plan.project.resolve(entrant.responses, what=f"{entrant.entrant_id}'s responses")
        if bank:
            load_recorded_responses(path, entrant, prompts=bank)
    except InputError as error:
        return error.problems
    return ()


def _server_problems(plan: TournamentPlan, mode: Mode, ledger_url: str | None) -> list[str]:
    terms = response_terms(plan, since=datetime.now(UTC))
    return [
        problem
        for entrant in plan.config.entrants
        if isinstance(entrant, OpenAiApiEntrant)
        and not _is_complete(plan, mode, entrant, ledger_url)
        for problem in server_problems(entrant, environment=plan.project.environment, terms=terms)
    ]


def _batch_problems(plan: TournamentPlan, mode: Mode, ledger_url: str | None) -> list[str]:
    from tournament_assets.ledger import Ledger

    environment = plan.project.environment
    bought = [
        each
        for each in plan.config.entrants
        # What the ledger holds is looked at only where it decides something.
        if isinstance(each, AnthropicApiEntrant)
        and batch_problems(each, [], ledger=None, environment=environment)
    ]
    if not bought:
        return []
    try:
        _, prompts = load_bank_and_selection(plan, mode)
    except InputError:  # it is among the problems already
        return []
    with ExitStack() as stack:
        ledger = ledger_url and stack.enter_context(closing(Ledger(ledger_url)))
        return [
            problem
            for entrant in bought
            for problem in batch_problems(
                entrant,
                first_samples(prompts) if answers_once(entrant) else prompts,
                ledger=ledger or None,
                environment=environment,
            )
        ]


def _is_complete(
    plan: TournamentPlan, mode: Mode, entrant: OpenAiApiEntrant, ledger_url: str | None
) -> bool:
    from tournament_assets.ledger import Ledger

    if ledger_url is None:
        return False
    try:
        bank, prompts = load_bank_and_selection(plan, mode)
    except InputError:  # it is among the problems already
        return False
    with closing(Ledger(ledger_url)) as ledger:
        return len(known_responses(plan, entrant, bank, prompts, ledger=ledger)) == len(prompts)


def load_human_battles(plan: TournamentPlan, arena: HumanBattlesConfig) -> "HumanBattles":
    """Read the human battles that a config names.

    Raises:
        InputError: With everything that is wrong with the file, or with the config's names for it.
    """
    from tournament_assets.battles.human import read_human_battles

    return read_human_battles(
        plan.project.resolve(arena.file, what="the file of human battles"),
        format_name=arena.format,
        min_battles=arena.min_battles,
        names=arena.names,
    )
