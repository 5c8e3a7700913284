"""Reporting what an edit makes out of date within a minute, and rerunning it if a mode says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.graph.adapter import check_evaluation
from tournament_assets.graph.assets.observed_inputs import (
    InputVersion,
    read_inputs,
    stamp_inputs,
)
from tournament_assets.graph.automation.jobs import not_yet_observed, observations
from tournament_assets.graph.automation.reruns import (
    RerunState,
    begin_rerun,
    find_reruns,
)
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.recipe_book import ROOT, UP_TO_DATE, RecipeBook, up_to_date
from tournament_assets.graph.recipes import Place
from tournament_assets.graph.table import settings_versions
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at a tournament.

    Attributes:
        sentence: What was found, in words.
        waits: Whether to look again even if nothing changes.
        events: Events to report to Dagster: observations, and the check's result.
        requests: Runs to begin.
        seen: State for the next look.
    """

    sentence: str
    waits: bool = False
    events: Sequence[Any] = ()
    requests: Sequence[dg.RunRequest] = ()
    seen: Mapping[str, str] = field(default_factory=dict)


def look_at_inputs(
    plan: TournamentPlan, instance: dg.DagsterInstance, seen: Mapping[str, str]
) -> Look:
    """Describe what is out of date, and begin to run it again in the modes that say so.

    A rerun waits until the inputs were the same in two looks.

    Args:
        instance: Where materialisations and runs are recorded.
        seen: State from the previous look; empty at first.
    """
    book = RecipeBook(plan, instance, known=read_inputs(plan))
    changed, not_loaded = not_yet_observed(book), _config_not_loaded(plan)
    problems = [f"{_name(each)}: {each.problem}" for each in book.inputs if each.problem]
    findings = [*problems, *([not_loaded] if not_loaded else [])]
    if changed:
        findings.append(f"changed: {', '.join(map(_name, changed))}")
    requests: list[dg.RunRequest] = []
    waits = False
    for name, mode in plan.config.modes.items():
        if mode.rerun_after_edits and not problems:
            waits |= seen.get("edited") != book.edited
            work, reason = ([], _SETTLING) if waits else _begin(book, name)
            requests += work
            findings.append(f"{name}: {reason}")
    return Look(
        "; ".join(findings) or "nothing has changed",
        waits,
        [*observations(plan, changed), *_evaluation(book, not_loaded)],
        requests,
        {"edited": book.edited},
    )


_SETTLING = "an input has changed; it has to stay as it is for one tick"


def state_of(plan: TournamentPlan, instance: dg.DagsterInstance) -> str | None:
    """Return a state that changes when another look is worthwhile; None if it is unknown.

    It covers the input files, the ledger, the config, the program's settings, and all events.
    """
    files = stamp_inputs(plan)
    if files is None:
        return None
    loaded = [plan.config.model_dump(mode="json"), settings_versions(plan)]
    return fingerprint([files, loaded, instance.event_log_storage.get_maximum_record_id()])


def _begin(book: RecipeBook, mode: Mode) -> tuple[list[dg.RunRequest], str]:
    """Return the first runs of a rerun, or none and why.

    A rerun that failed with the same inputs and settings is not begun again: it would never end.
    """
    if book.kept(Place(ROOT, mode)) is None:
        return [], "it has never run; begin it by hand"
    reruns = find_reruns(book.instance, book.plan, mode=mode)
    for rerun in reruns:
        if rerun.is_unfinished:
            return [], rerun.describe()
    last = reruns[-1] if reruns else None
    if last and last.state is RerunState.FAILED and last.identity.edited == book.edited:
        return [], (
            f"{last.describe()}; the same is not begun twice: execute its failed run again, or edit"
        )
    if not book.out_of_date(book.places_of(mode)):
        return [], "nothing is out of date"
    return begin_rerun(
        book.plan, mode, began_at=datetime.now(UTC), reason="edit", edited=book.edited
    ), "what is out of date runs again"


def _evaluation(book: RecipeBook, not_loaded: str | None) -> list[dg.AssetCheckEvaluation]:
    """Evaluate the check of a tournament with a report, unless its result is as before."""
    key = asset_key(book.plan, ROOT)
    if book.instance.get_latest_materialization_event(key) is None:
        return []
    check = up_to_date(book)
    if not_loaded is not None:
        sentence = not_loaded if check.passed else f"{check.description}; {not_loaded}"
        check = replace(check, passed=False, description=sentence)
    record = book.instance.get_latest_asset_check_evaluation_record(
        dg.AssetCheckKey(key, UP_TO_DATE)
    )
    event = record and record.event and record.event.asset_check_evaluation
    before = (event.passed, event.description) if event else None
    return [] if before == (check.passed, check.description) else [check_evaluation(key, check)]


def _name(version: InputVersion) -> str:
    return version.asset if version.partition is None else f"{version.asset} of {version.partition}"


def _config_not_loaded(plan: TournamentPlan) -> str | None:
    """Return a message that the config was edited after it was loaded, or return None."""
    beginning = f"{plan.config_path.as_posix()} was edited since it was loaded; "
    try:
        now = load_config(plan.project.folder / plan.config_path).config
    except InputError as error:
        return f"{beginning}it cannot be loaded now: {error.problems[0]}"
    if now == plan.config:
        return None
    return f"{beginning}reload the code location for it to count"
