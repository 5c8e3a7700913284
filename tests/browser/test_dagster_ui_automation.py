"""Turns the switches of a tournament's automation in the Dagster UI, and sees what they begin."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.browser.pages import (
    RERUN_SECONDS,
    USES_CHROMIUM,
    count_made,
    save_screenshot,
    wait_for_report,
)
from tests.browser.servers import dagster_dev
from tests.daemon.daemons import look_often
from tests.demo import run_demo
from tests.projects import SmallProject, make_project
from tournament_assets.graph.automation.reruns import runs_page
from tournament_assets.project.project_files import prepare_dagster_home

AFTER_A_RUBRIC = ("4_estimate", "5_ask_judge", "5_judge_and_rate", "6_report")
"""The jobs of a rerun after an edit of one rubric, each once."""

pytestmark = USES_CHROMIUM


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallProject, str]]:
    """A tournament of two whose pilot was run, with a schedule that is not due for months."""
    folder = tmp_path_factory.mktemp("ran")
    project = make_project(folder / "project")
    entrants = yaml.safe_load(project.config_path.read_text())["entrants"]
    schedule = {"cron": "0 6 1 1 *"}
    project.edit_config(entrants=entrants[:2], automation={"headline_schedule": schedule})
    run_demo(project.folder, config=project.config_path.name)
    home = prepare_dagster_home(project.folder, project.environment["DAGSTER_HOME"])
    look_often(home)
    with dagster_dev(project.folder, home, folder / "dagster_dev.log") as url:
        yield project, url


def switch_on(page: Page, url: str, automation: str) -> None:
    """Turn the switch of a schedule (`schedules/NAME`) or of a sensor (`sensors/NAME`)."""
    page.goto(f"{url}/locations/tournament_assets/{automation}")
    switch = page.get_by_role("checkbox")
    expect(switch).to_have_count(1)
    expect(switch).not_to_be_checked()
    switch.locator("xpath=..").click()
    expect(switch).to_be_checked()


def runs_tagged(**tags: str) -> str:
    """Return the path of the page of runs with tags whose names begin with `tournament/`."""
    return runs_page({f"tournament/{name}": value for name, value in tags.items()})


def test_an_edited_rubric_is_rerun_where_it_matters_once_the_sensor_is_switched_on(
    page: Page, ran: tuple[SmallProject, str]
) -> None:
    project, url = ran
    replies = project.folder / "storage" / "small" / "judge_replies"
    written = {
        name: (replies / name / "pilot.parquet").stat().st_mtime_ns
        for name in ("factuality", "calibration")
    }
    rubric = project.folder / "rubrics" / "factuality.txt"
    rubric.write_text(
        "# version: 2\n# dimension: factuality\n\nPrefer the response that is true.\n"
    )
    switch_on(page, url, "sensors/small_rerun_after_edits")
    page.goto(f"{url}{runs_tagged(reason='edit')}")
    succeeded = page.get_by_text("Success", exact=True)
    expect(succeeded).to_have_count(len(AFTER_A_RUBRIC), timeout=RERUN_SECONDS * 1000)
    for job in AFTER_A_RUBRIC:
        expect(page.get_by_role("link", name=f"small_{job}")).to_have_count(1)
    save_screenshot(page, "rerun_after_edit")
    again = {name: (replies / name / "pilot.parquet").stat().st_mtime_ns for name in written}
    assert {name for name in written if again[name] != written[name]} == {"factuality"}


def test_unsynced_assets_that_the_graph_offers_are_never_tests_of_the_judge(
    page: Page, ran: tuple[SmallProject, str]
) -> None:
    """The headline was never run, so the dialog offers every asset that the graph makes."""
    project, url = ran
    selection = quote('key:"small/*"')
    page.goto(f"{url}/asset-groups?asset-selection={selection}")
    button = page.get_by_role("button", name=f"Materialize all ({count_made(project)})")
    button.locator("xpath=following::button[1]").click()
    page.get_by_role("menuitem", name="Materialize unsynced").click()
    dialog = page.get_by_role("dialog")
    expect(
        dialog.get_by_role("button", name=f"Materialize {count_made(project)} assets")
    ).to_be_visible()
    expect(dialog.get_by_text("judge_replies").first).to_be_visible()
    expect(dialog.get_by_text(re.compile("judge_(agreement|controls|drift|retest)"))).to_have_count(
        0
    )
    save_screenshot(page, "materialize_unsynced")


def test_a_schedule_that_is_switched_on_and_ticked_runs_the_headline_to_its_report(
    page: Page, ran: tuple[SmallProject, str]
) -> None:
    project, url = ran
    switch_on(page, url, "schedules/small_headline_schedule")
    page.get_by_role("button", name="Preview tick result").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name=re.compile("Launch all")).click()
    page.goto(f"{url}{runs_tagged(reason='schedule')}")
    wait_for_report(page, project, "headline")
    expect(page.get_by_role("link", name="small_6_report")).to_have_count(1)
    save_screenshot(page, "scheduled_rerun")
