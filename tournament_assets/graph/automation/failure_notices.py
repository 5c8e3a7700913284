"""Notices of trouble: a run that has failed, or a config that cannot be loaded.

Dagster's own e-mail and Slack sensors report failed runs; a run executed in this process reports
its own failure and checks. A broken config affects no other. Its tournament is missing until it is
repaired; in its place is an asset whose failed check names the file and line.
"""

import html
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import dagster as dg

from tournament_assets.foundation.errors import InputError, InterruptedWorkError, WorkError
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.automation.reruns import PARTITION_TAG, RERUN_TAG
from tournament_assets.graph.outputs import Check

_SLACK = ("TOURNAMENT_SLACK_TOKEN", "TOURNAMENT_SLACK_CHANNEL")
_EMAIL = (
    "TOURNAMENT_EMAIL_FROM",
    "TOURNAMENT_EMAIL_TO",
    "TOURNAMENT_EMAIL_PASSWORD",
    "TOURNAMENT_SMTP_HOST",
)
_MOST_CHARACTERS = 1000


def build_failure_sensors(environment: Mapping[str, str]) -> list[dg.SensorDefinition]:
    """Build the sensors that report failed runs to the services that the environment names.

    Args:
        environment: The environment variables. Their values are kept in memory only.
    """
    sensors: list[dg.SensorDefinition] = []
    if _is_wanted(_SLACK, environment):
        sensors.append(_build_slack_sensor(environment))
    if _is_wanted(_EMAIL, environment):
        sensors.append(_build_email_sensor(environment))
    return sensors


def describe_failure(context: dg.RunFailureSensorContext) -> str:
    """Name which run failed, which rerun has stopped there, and why."""
    run = context.dagster_run
    partition, rerun_id = run.tags.get(PARTITION_TAG), run.tags.get(RERUN_TAG)
    lines = [
        f"{_name(run)} ({partition}) failed" if partition else f"{_name(run)} failed",
        f"rerun {rerun_id} has stopped here, until this succeeds" if rerun_id else "",
        _reason(context)[:_MOST_CHARACTERS],
        f"run {run.run_id}",
    ]
    return "\n".join(line for line in lines if line)


def _name(run: dg.DagsterRun) -> str:
    """Return a run's readable name: its tournament and stage, if it has any."""
    return " ".join(run.tags.get(name, "") for name in ("tournament", "stage")).strip() or (
        run.job_name
    )


def _reason(context: dg.RunFailureSensorContext) -> str:
    for event in context.get_step_failure_events():
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            return str(error.message).strip()
    return context.failure_event.message or ""


def _build_email_sensor(environment: Mapping[str, str]) -> dg.SensorDefinition:
    port = environment.get("TOURNAMENT_SMTP_PORT") or "465"
    if not port.isdigit():
        raise InputError(f"TOURNAMENT_SMTP_PORT is {port!r}; expected a number, such as 465 or 587")
    return dg.make_email_on_run_failure_sensor(
        name="email_on_failure",
        email_from=environment["TOURNAMENT_EMAIL_FROM"],
        email_to=[part.strip() for part in environment["TOURNAMENT_EMAIL_TO"].split(",")],
        email_password=environment["TOURNAMENT_EMAIL_PASSWORD"],
        email_subject_fn=lambda context: f"{_name(context.dagster_run)} failed",
        email_body_fn=_email_body,
        smtp_host=environment["TOURNAMENT_SMTP_HOST"],
        smtp_port=int(port),
        smtp_type="STARTTLS" if port == "587" else "SSL",
        smtp_user=environment.get("TOURNAMENT_SMTP_USER") or None,
        webserver_base_url=environment.get("TOURNAMENT_UI_URL") or None,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )


def _email_body(context: dg.RunFailureSensorContext) -> str:
    body = html.escape(describe_failure(context)).replace("\n", "<br>\n")
    # The mail is sent as ASCII.
    return body.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _build_slack_sensor(environment: Mapping[str, str]) -> dg.SensorDefinition:
    try:
        from dagster_slack import make_slack_on_run_failure_sensor
    except ImportError as error:
        raise InputError(
            "TOURNAMENT_SLACK_TOKEN is set and dagster-slack is not installed; "
            "run: pip install 'tournament-assets[slack]'"
        ) from error
    sensor: dg.SensorDefinition = make_slack_on_run_failure_sensor(
        name="slack_on_failure",
        slack_token=environment["TOURNAMENT_SLACK_TOKEN"],
        channel=environment["TOURNAMENT_SLACK_CHANNEL"],
        text_fn=describe_failure,
        webserver_base_url=environment.get("TOURNAMENT_UI_URL") or None,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    return sensor


def _is_wanted(names: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    missing = [name for name in names if not environment.get(name)]
    if missing and len(missing) < len(names):
        present = ", ".join(name for name in names if name not in missing)
        raise InputError(
            f"{present} set and {', '.join(missing)} not; expected all of them, or none; "
            "set or unset the rest"
        )
    return not missing


_INTERRUPTED = "DagsterExecutionInterruptedError"
_CHECK_FAILED = "DagsterAssetCheckFailedError"


def raise_failure(result: dg.ExecuteInProcessResult, stage: Stage, label: str) -> NoReturn:
    """Raise a `WorkError` that says why a run failed; `InterruptedWorkError` if it was stopped.

    Args:
        stage: The stage that it was.
        label: Its partition as people read it; empty if it has none.
    """
    for event in result.all_events:
        data = event.event_specific_data
        error = getattr(data, "error", None)
        if not event.is_failure or error is None:
            continue
        cause = error
        while cause.cause is not None:
            cause = cause.cause
        where = f"{stage.title} ({label})" if label else stage.title
        message = _own_message(cause.message)
        if message.endswith(_INTERRUPTED):
            raise InterruptedWorkError(
                f"{where} was interrupted; what was generated and judged until then is in the "
                "ledger: run the same command again to go on"
            )
        if _CHECK_FAILED in message:
            message = "; ".join(check.sentence for check in failed_checks(result, only_errors=True))
        raise WorkError(f"{where} failed: {message}")
    raise WorkError(f"{stage.title} failed; see the run in the UI")


def _own_message(message: str) -> str:
    """Drop the module path that a serialised exception's message begins with."""
    head, separator, rest = message.strip().partition(": ")
    return rest if separator and head.startswith("tournament_assets.") else message.strip()


def recorded_check(evaluation: dg.AssetCheckEvaluation) -> Check:
    """Return a check's result as it was before Dagster recorded it."""
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    name, description = evaluation.check_name, evaluation.description or ""
    return Check(name, passed=evaluation.passed, description=description, metadata=metadata)


def failed_checks(result: dg.ExecuteInProcessResult, *, only_errors: bool = False) -> list[Check]:
    """Return the failed checks of a run.

    Args:
        only_errors: Leave out those that only warn.
    """
    return [
        recorded_check(evaluation)
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed
        and not (only_errors and evaluation.severity is not dg.AssetCheckSeverity.ERROR)
    ]


_CHECK = "config_can_be_loaded"
_INTERVAL_SECONDS = 30


@dataclass(frozen=True, slots=True)
class BrokenConfig:
    """A config that cannot be loaded.

    Attributes:
        name: Its asset's name: the file's name in characters that Dagster accepts.
        problems: What is wrong with it, one sentence each: file, line, found, expected.
    """

    path: Path
    name: str
    problems: tuple[str, ...]

    @property
    def key(self) -> dg.AssetKey:
        """The key of its asset."""
        return dg.AssetKey([self.name, "config_problem"])

    @property
    def line(self) -> int:
        """The first line with a problem; the first of the file, if none is known."""
        place = re.compile(re.escape(str(self.path)) + r":(\d+):")
        return next((int(match[1]) for text in self.problems if (match := place.match(text))), 1)

    def describe(self) -> str:
        """Describe in Markdown what is wrong and what to do; what the file holds stays literal."""
        # Four spaces make text of any content literal; a fence could be closed by it.
        quoted = "\n".join(
            f"    {line}" for problem in self.problems for line in problem.splitlines()
        )
        return (
            f"{self.path.name} cannot be loaded: its tournament is missing here, with its "
            f"schedules and sensors.\n\n{quoted}\n\n"
            "Correct the file, then reload the code location."
        )

    def check_result(self) -> dg.AssetCheckResult:
        """Return the check that fails for it."""
        return dg.AssetCheckResult(
            passed=False,
            asset_key=self.key,
            check_name=_CHECK,
            description=self.describe(),
            metadata={"file": str(self.path), "line": str(self.line)},
        )


def name_broken_config(path: Path, taken: Collection[str]) -> str:
    """Return a name for a config that no other broken config has."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    return name if name not in taken else name_broken_config(path.with_stem(f"{name}_2"), taken)


def build_problem_asset(broken: BrokenConfig) -> dg.AssetSpec:
    """Build the placeholder asset for a config that cannot be loaded; it cannot be run."""
    reference = dg.LocalFileCodeReference(
        file_path=str(broken.path), line_number=broken.line, label=broken.path.name
    )
    return dg.AssetSpec(
        broken.key,
        description=broken.describe(),
        group_name=f"{broken.name}_0_config_problem",
        metadata={
            "file": str(broken.path),
            "line": str(broken.line),
            "problems": dg.MetadataValue.json(list(broken.problems)),
            "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference]),
        },
    )


def build_problem_checks(broken: Sequence[BrokenConfig]) -> list[dg.AssetChecksDefinition]:
    """Build the check that fails for every config that cannot be loaded, if there are any."""
    if not broken:
        return []

    @dg.multi_asset_check(
        name="configs_can_be_loaded",
        specs=[
            dg.AssetCheckSpec(
                _CHECK, asset=config.key, description="Whether the config can be loaded."
            )
            for config in broken
        ],
    )
    def configs_can_be_loaded() -> Iterator[dg.AssetCheckResult]:
        for config in broken:
            yield config.check_result()

    return [configs_can_be_loaded]


def build_problem_sensor(broken: Sequence[BrokenConfig]) -> list[dg.SensorDefinition]:
    """Build the sensor that reports that check's failure automatically, if there is one."""
    if not broken:
        return []

    @dg.sensor(
        name="tell_config_problems",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports once what is wrong with a config that cannot be loaded; runs nothing.",
    )
    def tell_config_problems(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        said_before = json.loads(context.cursor) if context.cursor else {}
        problems = {str(config.path): list(config.problems) for config in broken}
        new = [each for each in broken if said_before.get(str(each.path)) != list(each.problems)]
        return dg.SensorResult(
            asset_events=[dg.AssetCheckEvaluation(**each.check_result()._asdict()) for each in new],
            skip_reason=f"{len(broken)} configs cannot be loaded: {', '.join(sorted(problems))}",
            cursor=json.dumps(problems, sort_keys=True),
        )

    return [tell_config_problems]
