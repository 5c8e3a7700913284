import smtplib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import dagster as dg
import pytest

from tests.projects import SmallProject, make_project, write_json_lines
from tournament_assets.definitions import load_project
from tournament_assets.extras.notices.sensors import build_failure_sensors, describe_failure
from tournament_assets.foundation.errors import InputError

EMAIL = {
    "TOURNAMENT_EMAIL_FROM": "tournament@example.com",
    "TOURNAMENT_EMAIL_TO": "ada@example.com, bob@example.com",
    "TOURNAMENT_EMAIL_PASSWORD": "hunter2",
    "TOURNAMENT_SMTP_HOST": "mail.example.com",
}
RERUN = "small_headline_20261123T050000Z"
SLACK = {"TOURNAMENT_SLACK_TOKEN": "xoxb-secret", "TOURNAMENT_SLACK_CHANNEL": "#judges"}


class Mailbox:
    """Stands where the SMTP server would be."""

    letters: list[tuple[str, int, str, str, str, list[str], str]]

    def __init__(self, host: str, port: int, **options: Any) -> None:
        self._server, self._options = (host, port), options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def login(self, user: str, password: str) -> None:
        self._login = user, password

    def sendmail(self, sender: str, to: list[str], message: str) -> None:
        message.encode("ascii")
        type(self).letters.append((*self._server, *self._login, sender, to, message))


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project", dimensions=("factuality",))


@contextmanager
def failed_run(
    project: SmallProject, job: str = "__ASSET_JOB_small_prompts", partition: str = "pilot"
) -> Iterator[dg.RunFailureSensorContext]:
    """Fail to read the bank, in a rerun, and yield what a sensor is told of it."""
    row = {"prompt_id": "p", "text": "t", "source": "curated", "expected_behavior": "<b>ä</b>"}
    write_json_lines(project.folder / "bank.jsonl", [row])
    with dg.DagsterInstance.ephemeral() as instance:
        result = (
            load_project(project.folder, {})
            .resolve_job_def(job)
            .execute_in_process(
                instance=instance,
                partition_key=partition,
                tags={"tournament/rerun": RERUN},
                raise_on_error=False,
            )
        )
        yield dg.build_run_status_sensor_context(
            sensor_name="email_on_failure",
            dagster_instance=instance,
            dagster_run=result.dagster_run,
            dagster_event=result.get_run_failure_event(),
        ).for_run_failure()


def test_a_message_names_the_run_the_rerun_that_stopped_and_the_reason(
    project: SmallProject,
) -> None:
    with failed_run(project) as context:
        first, second, *reason = describe_failure(context).splitlines()
    assert first.split()[:3] == ["small", "prompts", "(pilot)"]
    assert RERUN in second
    assert "bank.jsonl:1: " in " ".join(reason)


@pytest.mark.parametrize(
    ("job", "partition", "name"),
    [
        ("__ASSET_JOB_small_pairs", "factuality|pilot", "small pairs (factuality|pilot) failed at"),
        ("small_rerun", "pilot", "small_rerun (pilot) failed at inputs\n"),
    ],
)
def test_a_message_names_the_partition_and_the_step(
    project: SmallProject, job: str, partition: str, name: str
) -> None:
    with failed_run(project, job, partition) as context:
        assert describe_failure(context).startswith(name)


def test_a_failed_run_is_told_of_by_e_mail(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtplib, "SMTP_SSL", Mailbox)
    Mailbox.letters = []
    (sensor,) = build_failure_sensors({**EMAIL, "TOURNAMENT_UI_URL": "http://dagster.test"})
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    with failed_run(project) as context:
        sensor(context)
    ((host, port, user, password, sender, to, message),) = Mailbox.letters
    assert (host, port) == ("mail.example.com", 465)
    assert (user, password) == ("tournament@example.com", "hunter2")
    assert (sender, to) == ("tournament@example.com", ["ada@example.com", "bob@example.com"])
    assert "Subject: small prompts failed" in message
    assert "&lt;b&gt;&#228;&lt;/b&gt;" in message
    assert f"http://dagster.test/runs/{context.dagster_run.run_id}" in message


def test_nobody_is_told_of_anything_unless_the_environment_says_so(project: SmallProject) -> None:
    names = {sensor.name for sensor in load_project(project.folder, {}).sensors or []}
    assert "tournaments" in names
    assert not names & {"email_on_failure", "slack_on_failure"}


def test_a_service_that_is_set_up_by_half_is_refused() -> None:
    with pytest.raises(InputError, match=r"EMAIL_FROM .*_EMAIL_TO, .*_SMTP_HOST"):
        build_failure_sensors({"TOURNAMENT_EMAIL_FROM": "tournament@example.com"})
    with pytest.raises(InputError, match="TOURNAMENT_SLACK_CHANNEL"):
        build_failure_sensors({"TOURNAMENT_SLACK_TOKEN": "xoxb"})
    with pytest.raises(InputError, match=r"_SMTP_PORT .*'smtp'"):
        build_failure_sensors({**EMAIL, "TOURNAMENT_SMTP_PORT": "smtp"})


def test_slack_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_slack", None)
    with pytest.raises(InputError, match=r"'tournament-assets\[slack\]'"):
        build_failure_sensors(SLACK)


def test_a_failed_run_is_told_of_on_slack(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dagster_slack")
    from slack_sdk.web.client import WebClient

    posted: list[dict[str, Any]] = []
    monkeypatch.setattr(
        WebClient, "chat_postMessage", lambda self, **message: posted.append(message)
    )
    (sensor,) = build_failure_sensors(SLACK)
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    with failed_run(project) as context:
        sensor(context)
    (message,) = posted
    assert message["channel"] == "#judges"
    assert "small prompts (pilot)" in str(message)


def test_the_secrets_are_in_nothing_that_dagster_shows(project: SmallProject) -> None:
    loaded = load_project(project.folder, EMAIL)
    assert "email_on_failure" in {sensor.name for sensor in loaded.sensors or []}
    assert "hunter2" not in repr(loaded)
