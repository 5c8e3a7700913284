"""The sensor that sees edits: within a minute everything that they make out of date says so."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import dagster as dg

from tournament_assets.adapters.config_files import load_config
from tournament_assets.assets.currency import (
    CHECKS,
    CurrencyCheck,
    currency_result,
    find_outdated,
    leaderboard_result,
)
from tournament_assets.assets.inputs import (
    InputVersion,
    not_yet_observed,
    observations,
    read_inputs,
)
from tournament_assets.assets.partitions import asset_key
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.tournament.errors import InputError

_INTERVAL_SECONDS = 30


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
        evaluations = list(_evaluate_checks(plan, inputs, context.instance))
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
            skip_reason=_describe(plan, inputs, changed),
            cursor=json.dumps(said, sort_keys=True),
        )

    return watch_inputs


def _name(each: InputVersion) -> str:
    return each.asset if each.partition is None else f"{each.asset} of {each.partition}"


def _evaluate_checks(
    plan: TournamentPlan, inputs: Sequence[InputVersion], instance: dg.DagsterInstance
) -> Iterator[dg.AssetCheckEvaluation]:
    """Evaluate the checks on assets that exist."""
    evaluate_by_asset: dict[str, Callable[[], dg.AssetCheckResult]] = {
        **{check.asset: partial(_currency_of, plan, check, inputs, instance) for check in CHECKS},
        "leaderboard": partial(leaderboard_result, plan, inputs, instance),
    }
    for asset, evaluate in evaluate_by_asset.items():
        key = asset_key(plan, asset)
        if _last_run(key, instance) is None:
            continue
        result = evaluate()
        yield dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=str(result.check_name),
            passed=result.passed,
            severity=result.severity,
            description=result.description,
            metadata=result.metadata,
        )


def _currency_of(
    plan: TournamentPlan,
    check: CurrencyCheck,
    inputs: Sequence[InputVersion],
    instance: dg.DagsterInstance,
) -> dg.AssetCheckResult:
    return currency_result(check, find_outdated(plan, check, inputs, instance))


def _last_run(key: dg.AssetKey, instance: dg.DagsterInstance) -> str | None:
    latest = instance.get_latest_materialization_event(key)
    return None if latest is None else latest.run_id


def _describe(
    plan: TournamentPlan, inputs: Sequence[InputVersion], changed: Sequence[InputVersion]
) -> str:
    sentences = [f"{_name(each)}: {each.problem}" for each in inputs if each.problem]
    if changed:
        sentences.append(f"changed: {', '.join(_name(each) for each in changed)}")
    if _config_was_edited(plan):
        sentences.append(
            f"{plan.config_path.as_posix()} was edited since it was loaded; reload the code "
            "location for it to count"
        )
    return "; ".join(sentences) or "nothing has changed"


def _config_was_edited(plan: TournamentPlan) -> bool:
    try:
        now = load_config(plan.project.folder / plan.config_path).config
    except InputError:
        return True
    return now.fingerprint != plan.config.fingerprint
