"""The sensor that runs again what an edit made out of date.

The sensor that sees edits: within a minute everything that they make out of date says so.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from tournament_assets.graph.adapter import check_evaluation
from tournament_assets.graph.assets.freshness import (
    CHECKS,
    FreshnessCheck,
    find_outdated,
    freshness_result,
    leaderboard_result,
)
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
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.partitions import asset_key, recorded_of
from tournament_assets.graph.table import settings_versions
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.runs.provenance import Records
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint

_INTERVAL_SECONDS = 30
_NOTHING = "nothing is out of date"
_NEVER_RUN = "it has never run; begin it by hand"


def build_edit_sensor(plan: TournamentPlan, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Build the sensor of one tournament; `rerun_after_edits` of a mode turns it on.

    Args:
        jobs: The jobs of its stages.
    """
    wanted = [name for name, mode in plan.config.modes.items() if mode.rerun_after_edits]
    modes = wanted or ["pilot"]  # where somebody turns it on in the UI

    @dg.sensor(
        name=f"{plan.tournament_id}_rerun_after_edits",
        jobs=jobs,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=(
            dg.DefaultSensorStatus.RUNNING if wanted else dg.DefaultSensorStatus.STOPPED
        ),
        description=(
            "Runs again what an edit made out of date, and nothing else, through to the report: "
            f"in {' and '.join(modes)}, once it has run there before. It waits "
            "until the files have been left alone for a tick. Where it is off, "
            "rerun_after_edits of a mode turns it on."
        ),
    )
    def rerun_after_edits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        seen = json.loads(context.cursor) if context.cursor else {"inputs": None, "begun": {}}
        state = _state(plan, context.instance)
        if state is not None and seen.get("quiet_state") == state:
            return dg.SensorResult(skip_reason=seen["quiet_reason"], cursor=context.cursor)
        inputs = read_inputs(plan)
        now = fingerprint([[asdict(each) for each in inputs], settings_versions(plan)])
        problems = [each.problem for each in inputs if each.problem]
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        quiet = False
        if problems:
            reasons = problems
        elif now != seen["inputs"]:
            reasons = ["an input has changed; it has to stay as it is for one tick"]
        else:
            quiet = True
            for mode in modes:
                begun_before = seen["begun"].get(mode) == now
                work, reason = _begin(plan, mode, context, begun_before=begun_before)
                requests.extend(work)
                reasons.append(f"{mode}: {reason}")
                quiet &= not work and reason in (_NOTHING, _NEVER_RUN)
                if work:
                    seen["begun"][mode] = now
        remembered = {"quiet_state": state, "quiet_reason": "; ".join(reasons)} if quiet else {}
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else "; ".join(reasons),
            cursor=json.dumps(
                {"inputs": now, "begun": seen["begun"], **remembered}, sort_keys=True
            ),
        )

    return rerun_after_edits


def _state(plan: TournamentPlan, instance: dg.DagsterInstance) -> str | None:
    """Return what has to change for another look to be worth its time; None if it cannot be said.

    That is a file among the inputs, the config, a setting of the program's, and any event.
    """
    files = stamp_inputs(plan)
    if files is None:
        return None
    last_event = instance.event_log_storage.get_maximum_record_id()
    config = plan.config.model_dump(mode="json")
    return fingerprint([files, config, settings_versions(plan), last_event])


def _begin(
    plan: TournamentPlan,
    mode: Mode,
    context: dg.SensorEvaluationContext,
    *,
    begun_before: bool,
) -> tuple[list[dg.RunRequest], str]:
    """Return the first runs of a rerun, or none and why.

    Args:
        context: Of the tick.
        begun_before: Whether the last one was begun for the very same inputs and settings: if that
            has failed, so would the next, and one would be begun for ever.
    """
    latest = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=asset_key(plan, "leaderboard"), asset_partitions=[mode]),
        limit=1,
    )
    if not latest.records:
        return [], _NEVER_RUN
    reruns = find_reruns(context.instance, plan, mode=mode)
    for rerun in reruns:
        if rerun.is_unfinished:
            return [], rerun.describe()
    if begun_before and reruns and reruns[-1].state is RerunState.FAILED:
        return [], (
            f"{reruns[-1].describe()}; the same is not begun twice: execute its failed run again, "
            "or edit"
        )
    work = begin_rerun(
        plan,
        mode,
        instance=context.instance,
        began_at=datetime.now(UTC),
        reason="edit",
    )
    return work, _NOTHING


def build_watching_sensor(plan: TournamentPlan) -> dg.SensorDefinition:
    """Build the sensor of one tournament."""

    @dg.sensor(
        name=f"{plan.tournament_id}_watch_inputs",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Looks at the bank's file, the entrants, the rubrics and the price list, and says what "
            "an edit made out of date: in the partitions themselves, and in checks. It runs "
            "nothing."
        ),
    )
    def watch_inputs(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        said_before = json.loads(context.cursor) if context.cursor else {}
        inputs = read_inputs(plan)
        # Runs of the command line observe too, with or without this sensor.
        changed = not_yet_observed(plan, inputs, context.instance)
        not_loaded = _config_not_loaded(plan)
        evaluations = list(_evaluate_checks(plan, inputs, context.instance, not_loaded))
        said = {
            # A materialisation speaks for itself, and knows less: then it is said again.
            each.check_name: [each.description, _last_run(each.asset_key, context.instance)]
            for each in evaluations
        }
        return dg.SensorResult(
            asset_events=[
                *observations(plan, changed),
                *(
                    each
                    for each in evaluations
                    if said[each.check_name] != said_before.get(each.check_name)
                ),
            ],
            skip_reason=_describe(inputs, changed, not_loaded),
            cursor=json.dumps(said, sort_keys=True),
        )

    return watch_inputs


def _name(each: InputVersion) -> str:
    return each.asset if each.partition is None else f"{each.asset} of {each.partition}"


def _evaluate_checks(
    plan: TournamentPlan,
    inputs: Sequence[InputVersion],
    instance: dg.DagsterInstance,
    not_loaded: str | None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate the checks on assets that exist."""
    records, modes = partial(recorded_of, plan, instance), plan.config.mode_names
    results = {check.asset: _freshness_of(check, inputs, records, modes) for check in CHECKS}
    results["leaderboard"] = partial(_leaderboard_of, inputs, records, modes, not_loaded)
    for asset, evaluate in results.items():
        key = asset_key(plan, asset)
        if _last_run(key, instance) is None:
            continue
        yield check_evaluation(key, evaluate())


def _freshness_of(
    check: FreshnessCheck,
    inputs: Sequence[InputVersion],
    records: Records,
    modes: Sequence[Mode],
) -> Callable[[], Check]:
    return lambda: freshness_result(check, find_outdated(check, inputs, records, modes=modes))


def _leaderboard_of(
    inputs: Sequence[InputVersion],
    records: Records,
    modes: Sequence[Mode],
    not_loaded: str | None,
) -> Check:
    check = leaderboard_result(inputs, records, modes)
    if not_loaded is None:
        return check
    said = not_loaded if check.passed else f"{check.description}; {not_loaded}"
    return replace(check, passed=False, description=said)


def _last_run(key: dg.AssetKey, instance: dg.DagsterInstance) -> str | None:
    latest = instance.get_latest_materialization_event(key)
    return None if latest is None else latest.run_id


def _describe(
    inputs: Sequence[InputVersion], changed: Sequence[InputVersion], not_loaded: str | None
) -> str:
    sentences = [f"{_name(each)}: {each.problem}" for each in inputs if each.problem]
    if changed:
        sentences.append(f"changed: {', '.join(_name(each) for each in changed)}")
    if not_loaded is not None:
        sentences.append(not_loaded)
    return "; ".join(sentences) or "nothing has changed"


def _config_not_loaded(plan: TournamentPlan) -> str | None:
    """Say that the config was edited after it was loaded, or return None."""
    told = f"{plan.config_path.as_posix()} was edited since it was loaded; "
    try:
        now = load_config(plan.project.folder / plan.config_path).config
    except InputError as error:
        return f"{told}it cannot be loaded now: {error.problems[0]}"
    if now == plan.config:
        return None
    return f"{told}reload the code location for it to count"
