from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.definitions import load_project
from tournament_assets.project.config_files import load_config
from tournament_assets.tournament.errors import InputError


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


def problem_of(project: SmallProject, **schedule: Any) -> str:
    project.edit_config(automation={"headline_schedule": schedule})
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {}, strict=True)
    (problem,) = caught.value.problems
    return problem.removeprefix(f"{project.config_path}:")


def test_nothing_happens_by_itself_unless_the_config_says_so(project: SmallProject) -> None:
    automation = load_config(project.config_path).config.automation
    assert automation.headline_schedule is None
    assert not automation.rerun_after_edits
    assert automation.rerun_modes == ("pilot",)
    assert list(load_project(project.folder, {}).schedules or []) == []


def test_a_schedule_is_stopped_until_somebody_turns_it_on(project: SmallProject) -> None:
    wanted = {"cron": "0 6 * * 1", "time_zone": "Europe/Berlin"}
    project.edit_config(automation={"headline_schedule": wanted})
    schedule = load_project(project.folder, {}).resolve_schedule_def("small_headline_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert (schedule.cron_schedule, schedule.execution_timezone) == tuple(wanted.values())
    assert schedule.job_name == "small_0_observe_inputs"
    link = "/runs?q[0]=tag%3Atournament%3Dsmall&q[1]=tag%3Atournament%2Freason%3Dschedule"
    assert link in (schedule.description or "")


def test_what_happens_by_itself_is_no_part_of_a_result(project: SmallProject) -> None:
    before = load_config(project.config_path).config.fingerprint
    project.edit_config(
        automation={"rerun_after_edits": True, "rerun_modes": ["pilot", "headline"]}
    )
    after = load_config(project.config_path).config
    assert after.automation.rerun_modes == ("pilot", "headline")
    assert after.fingerprint == before


def test_a_cron_without_five_fields_is_refused_with_its_line(project: SmallProject) -> None:
    line, _, message = problem_of(project, cron="6 * *").partition(": ")
    text = project.config_path.read_text().splitlines()[int(line) - 1]
    assert text.strip() == "cron: 6 * *"
    assert message.startswith("automation.headline_schedule.cron: '6 * *' has 3 fields; expected")


@pytest.mark.parametrize("cron", ["61 6 * * 1", "0 6 * * 8", "a b c d e", "0 0 30 2 *"])
def test_a_cron_that_dagster_cannot_fire_is_refused(project: SmallProject, cron: str) -> None:
    problem = problem_of(project, cron=cron)
    assert f"automation.headline_schedule.cron is {cron!r}; expected minute, hour" in problem


@pytest.mark.parametrize("name", ["Europe/Berlim", "Europe", "", "../../etc/passwd", "CET+9"])
def test_a_time_zone_that_nobody_knows_is_refused(project: SmallProject, name: str) -> None:
    problem = problem_of(project, cron="0 6 * * 1", time_zone=name)
    assert f"{name!r} is not a time zone; expected an IANA name such as 'Europe/Berlin'" in problem
    assert ("did you mean 'Europe/Berlin'?" in problem) == (name == "Europe/Berlim")


def test_an_unknown_key_is_named_beside_the_known_ones(project: SmallProject) -> None:
    problem = problem_of(project, cron="0 6 * * 1", timezone="UTC")
    assert "'automation.headline_schedule.timezone'; expected one of cron, time_zone" in problem
    assert "did you mean 'time_zone'?" in problem


def test_the_modes_of_edits_are_known_ones(project: SmallProject) -> None:
    project.edit_config(automation={"rerun_modes": ["pilots"]})
    with pytest.raises(InputError, match=r"automation.rerun_modes.0 is 'pilots'; expected"):
        load_config(project.config_path)
    project.edit_config(automation={"rerun_modes": []})
    with pytest.raises(InputError, match=r"automation.rerun_modes"):
        load_config(project.config_path)
