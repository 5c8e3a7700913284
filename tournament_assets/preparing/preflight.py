"""Checks of everything that must be right before money is spent, all at once.

`tournament doctor` uses them too, and checks what does not stop a run. They cost nothing: a judging
service is only asked whether it knows a model.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pkgutil import resolve_name

from upath import UPath

from tournament_assets.foundation.errors import InputError, Problems, TournamentError
from tournament_assets.foundation.extensions import (
    added_rows,
    extension_problems,
    installed_extensions,
    kinds_that_it_adds,
)
from tournament_assets.generation.devices import DEVICES, device_problem
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.preparing.existing_work import known_responses
from tournament_assets.project.config_files import with_lines
from tournament_assets.project.plan import TournamentPlan, select_prompts
from tournament_assets.project.playing_judges import ADVICE, WHY, playing_judges
from tournament_assets.project.project_files import (
    entrant_file_problems,
    load_bank,
    load_rubrics,
    places_of,
)
from tournament_assets.provenance.origins import rerun_command
from tournament_assets.providers.openers import (
    JudgeConnection,
    judge_problems,
    unknown_model_problem,
)
from tournament_assets.responses.api_responses import (
    asked_as_a_judge,
    bought_entrants,
    missing_key,
    service_problems,
)
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import (
    AnyEntrant,
    ApiEntrant,
    LocalEntrant,
    loader_of,
)
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import Prompt, first_samples
from tournament_assets.verdicts.judge_requests import missing_budget_problem, open_ledger
from tournament_assets.verdicts.spending_plans import price_problem, response_terms


def refuse_bad_input(
    plan: TournamentPlan,
    mode: Mode,
    *,
    skip_judging: bool = False,
    judge_model: str | None = None,
    needs_no_budget: bool = False,
    allows_partial: bool = False,
) -> None:
    """Read every input of a tournament, and spend nothing.

    A server that answers for an entrant is checked if the ledger lacks some of its responses.

    Args:
        mode: The mode that is about to run.
        skip_judging: Whether the judge will not be asked, so that no key is needed.
        needs_no_budget: Whether the run says that its headline may be paid for without a budget.
        allows_partial: Whether the run goes on without some of several judges.

    Raises:
        InputError: With every problem found.
    """
    problems, placed = Problems(), partial(with_lines, plan.shown_path)
    bank: list[Prompt] = []
    prompts: list[Prompt] = []
    with problems.collected():
        bank = load_bank(plan.config, plan.project)
        prompts = select_prompts(plan.config, mode, bank)
    with problems.collected():
        load_rubrics(plan.config, plan.project)
    for refuse in added_rows("preflight"):
        with problems.collected():
            refuse(plan)
    problems.extend(_entrant_problems(Preflight(plan, bank, prompts)))
    judges: tuple[Judge, ...] = ()
    with problems.collected():
        judges = plan.config.judges_of(mode, model=judge_model)
        for judge in judges:
            of_model = (judge.model_problem, price_problem(plan.config, judge))
            problems.extend(filter(None, of_model))
            if not skip_judging:
                problems.extend(judge_problems(judge, plan.project.environment))
    if not skip_judging:
        of_budget = missing_budget_problem(plan, mode, is_allowed=needs_no_budget)
        problems.extend(filter(None, [of_budget]))
    problems.raise_if_any(placed)
    if _will_generate(plan, bank, prompts):
        asked = {
            f"entrant {each.entrant_id!r}": asked_as_a_judge(each, judges).asking(each.model)
            for each in bought_entrants(plan.config.entrants)
        }
        problems.extend(_model_problems(plan, asked))
        named = {} if skip_judging else {f"the judge {each.name!r}": each for each in judges}
        of_judges = list(_model_problems(plan, named))
        if not (allows_partial and len(of_judges) < len(judges)):
            problems.extend(of_judges)
    problems.raise_if_any(placed)


def refuse_silent_judges(
    plan: TournamentPlan, mode: Mode, *, warn: Callable[[str], object]
) -> None:
    """Ask every judge of a mode one free question, if something is to be generated before.

    Raises:
        InputError: If a service cannot be reached, refuses the key, or knows no such model. A judge
            without a key is only warned of: somebody else may be the one who judges.
    """
    bank = load_bank(plan.config, plan.project)
    if not _will_generate(plan, bank, select_prompts(plan.config, mode, bank)):
        return
    named: dict[str, Judge] = {}
    for judge in plan.config.judges_of(mode):
        if lacking := judge_problems(judge, plan.project.environment):
            warn(f"{'; '.join(lacking)}; responses can be generated here, and not judged")
        else:
            named[f"the judge {judge.name!r}"] = judge
    problems = Problems()
    problems.extend(_model_problems(plan, named))
    problems.raise_if_any(partial(with_lines, plan.shown_path))


def _will_generate(plan: TournamentPlan, bank: list[Prompt], prompts: list[Prompt]) -> bool:
    """Return whether a response has to be made, so that a judge's problem would show late."""
    made = [entrant for entrant in plan.config.entrants if loader_of(entrant).answered is None]
    if not made:
        return False
    with open_ledger(plan.project.ledger_url) as ledger:
        return any(
            len(known_responses(plan, each, bank, prompts, ledger=ledger)) < len(prompts)
            for each in made
        )


def _model_problems(plan: TournamentPlan, asked: Mapping[str, Judge]) -> Iterator[str]:
    """Describe whose service cannot be reached, and whose model nobody knows."""
    connection = JudgeConnection.from_environment(plan.project.environment, plan.project.folder)
    priced = load_newest_prices(plan.config.judging.prices).models
    for what, judge in asked.items():
        if judge.row.is_free:
            continue
        try:
            with connection.service(judge) as service:
                problem = unknown_model_problem(
                    service, judge.model, what=what, priced=priced, is_free=judge.is_free
                )
        except TournamentError as error:
            problem = f"{what}: {error}"
        if problem is not None:
            yield problem


@dataclass(frozen=True, slots=True)
class Preflight:
    """What entrants are checked against before anything is spent.

    Attributes:
        bank: Every prompt; empty if it cannot be read.
        prompts: Those of the mode; empty if they cannot be selected.
    """

    plan: TournamentPlan
    bank: Sequence[Prompt]
    prompts: Sequence[Prompt]


def _entrant_problems(preflight: Preflight) -> Iterator[str]:
    """Let the loaders check their entrants; those that one function checks, together."""
    of_check: dict[str | None, list[AnyEntrant]] = {}
    for entrant in preflight.plan.config.entrants:
        of_check.setdefault(loader_of(entrant).check, []).append(entrant)
    for name, entrants in of_check.items():
        check = check_files if name is None else resolve_name(name)
        yield from check(entrants, preflight)


def check_files(entrants: Sequence[AnyEntrant], preflight: Preflight) -> Iterator[str]:
    """Find files that are missing, and recorded responses that cannot be read."""
    plan, bank = preflight.plan, preflight.bank
    for entrant in entrants:
        answered = loader_of(entrant).answered
        try:
            places_of(entrant, plan.project)
            if bank and answered is not None:
                resolve_name(answered)(entrant, plan, bank)
        except InputError as error:
            yield from error.problems


def check_weights_and_device(
    entrants: Sequence[LocalEntrant], preflight: Preflight
) -> Iterator[str]:
    """Find what keeps entrants from being generated here."""
    device = preflight.plan.project.environment.get("TOURNAMENT_DEVICE")
    problem = device_problem(device) if device else None
    if problem is not None:
        yield problem
    yield from entrant_file_problems(entrants, preflight.plan.project)


def check_services(entrants: Sequence[ApiEntrant], preflight: Preflight) -> list[str]:
    """Find what keeps services from answering; the ledger is read where it decides something."""
    plan, prompts = preflight.plan, preflight.prompts
    environment = plan.project.environment
    asked = [
        entrant
        for entrant in entrants
        if entrant.server is not None or missing_key(entrant, environment)
    ]
    # Without prompts, the problem of the bank is among the problems already.
    if not asked or not prompts:
        return []
    terms = response_terms(plan, since=datetime.now(UTC))
    with open_ledger(plan.project.ledger_url) as ledger:
        return [
            problem
            for entrant in asked
            for problem in service_problems(
                entrant,
                first_samples(prompts) if entrant.answers_once else prompts,
                ledger=ledger,
                environment=environment,
                terms=terms,
            )
        ]


_PACKAGES = ("tournament-assets", "dagster", "dagster-webserver", "anthropic", "openai", "torch")
_LEAST_FREE_GIB = 5.0


class Health(StrEnum):
    """The status of a check."""

    OK = "ok"
    WARNING = "look"
    """Some runs work without it."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        health: How it stands.
        said: What was found.
        advice: What to do; empty if nothing. Each command that it names is between backticks.
    """

    subject: str
    health: Health
    said: str
    advice: str = ""


def diagnose_packages() -> Iterator[Finding]:
    """Return the installed versions that matter."""
    for name in _PACKAGES:
        try:
            yield Finding(name, Health.OK, version(name))
        except PackageNotFoundError:
            yield Finding(
                name, Health.BROKEN, "not installed", "install the package with its dependencies"
            )


def diagnose_extensions() -> Iterator[Finding]:
    """Return which extensions are installed, and why some of their rows are left out."""
    for extension in installed_extensions():
        kinds = ", ".join(kinds_that_it_adds(extension))
        yield Finding(
            str(extension),
            Health.OK if kinds else Health.WARNING,
            f"an extension with {kinds or 'no rows'}",
            "" if kinds else f"call modules of {extension.package} as the kinds of row are called",
        )
    for problem in extension_problems():
        yield Finding("extensions", Health.BROKEN, *problem.rsplit("; ", 1))


def diagnose_device(plans: Sequence[TournamentPlan], asked: str) -> Finding:
    """Describe what entrants with weights would generate on.

    Args:
        asked: The value of `TOURNAMENT_DEVICE`; `auto` or empty for CUDA if there is one.
    """
    loaded = [
        entrant.entrant_id
        for plan in plans
        for entrant in plan.config.entrants
        if entrant.generates_here
    ]
    if not loaded:
        return Finding("device", Health.OK, "no entrant loads weights, so none is needed")
    if device_problem(asked or "auto") is not None:
        return Finding(
            "device", Health.BROKEN, f"TOURNAMENT_DEVICE is {asked!r}", f"expected {DEVICES}"
        )
    try:
        from tournament_assets.generation.models.base_models import pick_device
    except ImportError as error:
        return Finding("device", Health.BROKEN, f"torch cannot be imported: {error}", "install it")
    picked = pick_device()
    if asked.startswith("cuda") and picked.device != "cuda":
        return Finding(
            "device",
            Health.BROKEN,
            f"TOURNAMENT_DEVICE is {asked!r}; without it: {picked.sentence}",
            "install torch for CUDA and check nvidia-smi, or `export TOURNAMENT_DEVICE=cpu`",
        )
    if picked.device == "cpu":
        return Finding(
            "device",
            Health.WARNING,
            picked.sentence,
            "7B models need a GPU; tiny ones and recorded files do not",
        )
    return Finding("device", Health.OK, picked.sentence)


def diagnose_ledger(url: str, plans: Sequence[TournamentPlan]) -> Finding:
    """Return whether the ledger of paid work opens, and what it waits for.

    Args:
        url: Its SQLAlchemy URL.
        plans: Whose work is looked for.
    """
    try:
        with open_ledger(url) as ledger:
            waiting = [
                (rerun_command(plan, scope.mode), len(batches))
                for plan in plans
                for scope, batches in ledger.open_scopes(plan.tournament_id).items()
            ]
    except TournamentError as error:
        advice = "correct it, or `unset TOURNAMENT_LEDGER_URL` for the project's own"
        return Finding("ledger", Health.BROKEN, str(error), advice)
    if waiting:
        commands = " and ".join(f"`{each}`" for each in dict(waiting))
        return Finding(
            "ledger",
            Health.WARNING,
            f"it opens; batches to be collected: {sum(count for _, count in waiting)}",
            f"run {commands}, or keep `tournament ui` running, which collects them",
        )
    return Finding("ledger", Health.OK, "it opens, and waits for no batch")


def diagnose_storage(place: str) -> Finding:
    """Return whether assets can be kept where they are to be.

    Args:
        place: A folder, or the URL of an object store.
    """
    path = UPath(place)
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".doctor"
        probe.write_bytes(b"")
        probe.unlink()
    except Exception as error:  # noqa: BLE001 (each object store has errors of its own)
        return Finding(
            "storage",
            Health.BROKEN,
            f"{type(error).__name__}: {place}",
            "correct it, or `unset TOURNAMENT_STORAGE` for the project's own",
        )
    if path.protocol not in ("", "file", "local"):
        return Finding("storage", Health.OK, place)
    free = shutil.disk_usage(str(path)).free / 2**30
    if free < _LEAST_FREE_GIB:
        return Finding(
            "storage",
            Health.WARNING,
            f"{place}: {free:.1f} GiB free",
            "make room before a headline",
        )
    return Finding("storage", Health.OK, f"{place}: {free:.0f} GiB free")


def diagnose_tournament(plan: TournamentPlan, *, is_wanted: bool) -> Iterator[Finding]:
    """Return whether a tournament could run now: its files, its entrants, its judge.

    Args:
        is_wanted: Whether somebody asked for this very tournament: what it lacks is broken then.
    """
    name = plan.tournament_id
    modes_of: dict[str, list[str]] = {}
    for mode in plan.config.mode_names:
        try:
            refuse_bad_input(plan, mode, skip_judging=True)
            modes_of.setdefault("", []).append(mode)
        except InputError as error:
            for problem in error.problems:
                modes_of.setdefault(problem, []).append(mode)
    for problem, modes in modes_of.items():
        yield Finding(
            f"{name}: {' and '.join(modes)}",
            Health.BROKEN if problem and is_wanted else Health.WARNING if problem else Health.OK,
            problem or "every input can be read",
        )
    names = plan.config.mode_names
    used = {judge.name: judge for mode in names for judge in plan.config.judges_of(mode)}
    judges = used.values()
    playing = [each for mode in names for each in playing_judges(plan, mode)]
    for each in dict.fromkeys(playing):
        yield Finding(f"{name}: judge", Health.WARNING, f"{each.said}: {WHY}", ADVICE)
    problems = dict.fromkeys(
        problem for each in judges for problem in judge_problems(each, plan.project.environment)
    )
    if problems:
        health = Health.BROKEN if is_wanted else Health.WARNING
        yield from (Finding(f"{name}: judge", health, problem) for problem in problems)
        return
    for service in dict.fromkeys(each.service for each in judges if each.row.is_free):
        yield Finding(f"{name}: judge", Health.OK, f"{service}: costs nothing")
    for judge in judges:
        if not judge.row.is_free:
            yield _diagnose_model(plan, judge)


def _diagnose_model(plan: TournamentPlan, judge: Judge) -> Finding:
    model = judge.model
    subject = f"{plan.tournament_id}: judge"
    connection = JudgeConnection.from_environment(plan.project.environment, plan.project.folder)
    try:
        with connection.service(judge) as service:
            warning = service.check_model(model)
    except TournamentError as error:
        return Finding(subject, Health.BROKEN, f"{model}: {error}", "check the key and the address")
    if warning is not None:
        return Finding(subject, Health.WARNING, f"{model}: {warning}")
    return Finding(subject, Health.OK, f"{model}: the service knows it")
