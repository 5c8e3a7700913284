"""The sensor that runs again what an edit made out of date."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from tournament_assets.assets.inputs import read_inputs
from tournament_assets.assets.out_of_date import asset_graph
from tournament_assets.assets.partitions import TournamentPlan
from tournament_assets.assets.rerun_states import find_reruns
from tournament_assets.assets.reruns import begin_rerun
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
        now = fingerprint([asdict(each) for each in inputs])
        problems = [each.problem for each in inputs if each.problem]
        requests: list[dg.RunRequest] = []
        reasons: list[str] = []
        if problems:
            reasons = problems
        elif now != seen["inputs"]:
            reasons = ["an input has changed; it has to stay as it is for one tick"]
        else:
            for mode in automation.rerun_modes:
                begun = seen["begun"].get(mode)
                work, reason = _begin(plan, mode, context, inputs=now, begun=begun)
                requests.extend(work)
                reasons.append(f"{mode}: {reason}")
                if work:
                    seen["begun"][mode] = _signature(plan, mode, context, inputs=now, work=work)
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
    inputs: str,
    begun: str | None,
) -> tuple[list[dg.RunRequest], str]:
    """Return the first runs of a rerun, or none and why."""
    if _newest_leaderboard(plan, mode, context.instance) is None:
        return [], "it has never run; begin it by hand"
    reruns = find_reruns(context.instance, plan, mode=mode)
    for rerun in reruns:
        if rerun.is_unfinished:
            return [], rerun.describe()
    work = begin_rerun(
        plan,
        mode,
        graph=asset_graph(context),
        instance=context.instance,
        began_at=datetime.now(UTC),
        reason="edit",
    )
    if not work:
        return [], "nothing is out of date"
    if _signature(plan, mode, context, inputs=inputs, work=work) == begun:
        last = f"{reruns[-1].describe()}; " if reruns else ""
        return [], f"{last}the same is not begun twice: execute its failed run again, or edit"
    return work, ""


def _signature(
    plan: TournamentPlan,
    mode: Mode,
    context: dg.SensorEvaluationContext,
    *,
    inputs: str,
    work: Sequence[dg.RunRequest],
) -> str:
    """Identify a rerun by what it is begun for, so that one that failed is not begun for ever."""
    first = [
        [
            request.job_name,
            request.partition_key,
            [str(key) for key in request.asset_selection or ()],
        ]
        for request in work
    ]
    return fingerprint([inputs, first, _newest_leaderboard(plan, mode, context.instance)])


def _newest_leaderboard(
    plan: TournamentPlan, mode: Mode, instance: dg.DagsterInstance
) -> str | None:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=plan.key("leaderboard"), asset_partitions=[mode]), limit=1
    ).records
    return records[0].run_id if records else None
