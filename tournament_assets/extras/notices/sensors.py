"""Sensors that report failed runs by e-mail and Slack, with Dagster's own senders.

Environment variables:
    TOURNAMENT_SLACK_TOKEN, TOURNAMENT_SLACK_CHANNEL
                            where failed runs are reported
    TOURNAMENT_EMAIL_FROM, TOURNAMENT_EMAIL_TO, TOURNAMENT_EMAIL_PASSWORD, TOURNAMENT_SMTP_HOST
                            likewise by e-mail, to one address or several, separated by commas;
                            TOURNAMENT_SMTP_PORT, 465 unless given, and TOURNAMENT_SMTP_USER, the
                            sender unless given
    TOURNAMENT_UI_URL       the address of the UI, for links in these messages
"""

import html
from collections.abc import Mapping

import dagster as dg

from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.automation.reruns import PARTITION_TAG, RERUN_TAG

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
    """Name which run failed and at which step, which rerun has stopped there, and why."""
    run = context.dagster_run
    where = ", ".join(str(event.step_key) for event in context.get_step_failure_events())
    partition, rerun_id = run.tags.get(PARTITION_TAG), run.tags.get(RERUN_TAG)
    lines = [
        f"{_name(run)}{f' ({partition})' if partition else ''} failed{where and f' at {where}'}",
        f"rerun {rerun_id} has stopped here, until this succeeds" if rerun_id else "",
        _reason(context)[:_MOST_CHARACTERS],
        f"run {run.run_id}",
    ]
    return "\n".join(line for line in lines if line)


def _name(run: dg.DagsterRun) -> str:
    """Return a run's readable name: its tournament and stage, or else its job."""
    stage = run.tags.get("stage")
    return f"{run.tags.get('tournament', '')} {stage}".strip() if stage else run.job_name


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


ROWS = (build_failure_sensors,)
