"""The sensor that runs again what an edit made out of date."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from tournament_assets.assets.inputs import read_inputs
from tournament_assets.assets.out_of_date import asset_graph
from tournament_assets.assets.partitions import asset_key
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.assets.rerun_states import RerunState, find_reruns
from tournament_assets.assets.reruns import begin_rerun
from tournament_assets.assets.settings_versions import settings_versions
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.fingerprints import fingerprint

_INTERVAL_SECONDS = 30


def build_edit_sensor(plan: TournamentPlan, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Build the sensor of one tournament; `automation.rerun_after_edits` turns it on.

    Args:
        plan: The tournament.
        jobs: The jobs of its stages.
    """
    automation = plan.config.automation

    @dg.sensor(
        name=f"{plan.tournament_id}_rerun_after_edits",
        jobs=jobs,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=(
            dg.DefaultSensorStatus.RUNNING
            if automation.rerun_after_edits
            else dg.DefaultSensorStatus.STOPPED
        ),
        description=(
            "Runs again what an edit made out of date, and nothing else, through to the report: "
            f"in {' and '.join(automation.rerun_modes)}, once it has run there before. It waits "
            "until the files have been left alone for a tick. Where it is off, "
            "automation.rerun_after_edits turns it on."
        ),
    )
    def rerun_after_edits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        seen = json.loads(context.cursor) if context.cursor else {"inputs": None, "begun": {}}
        inputs = read_inputs(plan)
        now = fingerprint([[asdict(each) for each in inputs], settings_versions(plan)])
        problems = [each.problem for each in inputs if each.problem]
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        if problems:
            reasons = problems
        elif now != seen["inputs"]:
            reasons = ["an input has changed; it has to stay as it is for one tick"]
        else:
            for mode in automation.rerun_modes:
                begun_before = seen["begun"].get(mode) == now
                work, reason = _begin(plan, mode, context, begun_before=begun_before)
                requests.extend(work)
                reasons.append(f"{mode}: {reason}")
                if work:
                    seen["begun"][mode] = now
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else "; ".join(reasons),
            cursor=json.dumps({"inputs": now, "begun": seen["begun"]}, sort_keys=True),
        )

    return rerun_after_edits


def _begin(
    plan: TournamentPlan,
    mode: Mode,
    context: dg.SensorEvaluationContext,
    *,
    begun_before: bool,
) -> tuple[list[dg.RunRequest], str]:
    """Return the first runs of a rerun, or none and why.

    Args:
        plan: The tournament.
        mode: The mode.
        context: Of the tick.
        begun_before: Whether the last one was begun for the very same inputs and settings: if that
            has failed, so would the next, and one would be begun for ever.
    """
    latest = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=asset_key(plan, "leaderboard"), asset_partitions=[mode]),
        limit=1,
    )
    if not latest.records:
        return [], "it has never run; begin it by hand"
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
        graph=asset_graph(context),
        instance=context.instance,
        began_at=datetime.now(UTC),
        reason="edit",
    )
    return work, "nothing is out of date"
