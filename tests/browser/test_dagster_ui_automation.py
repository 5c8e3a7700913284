"""Turns the switches of a tournament's automation in the Dagster UI, and sees what they begin.

A headline that was begun changes what an edit reruns, so the order of what is done is fixed here.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import (
    RERUN_SECONDS,
    USES_CHROMIUM,
    count_made,
    save_screenshot,
)
from tests.browser.servers import dagster_dev
from tests.daemon.daemons import look_often
from tests.projects import FinishedPilot, SmallProject
from tournament_assets.project.project_files import prepare_dagster_home

pytestmark = USES_CHROMIUM


@pytest.fixture(scope="module")
def ran(
    finished_pilot: FinishedPilot, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SmallProject, str]]:
    """A tournament whose pilot was run, with a schedule that is not due for months."""
    folder = tmp_path_factory.mktemp("ran")
    project = finished_pilot.copy(folder / "project")
    project.merge_config(modes={"headline": {"schedule": {"cron": "0 6 1 1 *"}}})
    project.merge_config(modes={"pilot": {"rerun_after_edits": True}})
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
    filters = (f"tag:tournament/{name}={value}" for name, value in tags.items())
    return "/runs?" + urlencode({f"q[{place}]": each for place, each in enumerate(filters)})


def test_switches_begin_what_they_are_for_and_the_graph_never_offers_tests_of_the_judge(
    page: Page, ran: tuple[SmallProject, str]
) -> None:
    project, url = ran
    rerun_an_edited_rubric(page, project, url)
    look_at_unsynced_assets(page, project, url)
    begin_the_scheduled_headline(page, url)


def rerun_an_edited_rubric(page: Page, project: SmallProject, url: str) -> None:
    """It is rerun where it matters."""
    replies = project.folder / "storage" / "small" / "judge_replies"
    written = {
        name: (replies / name / "pilot.parquet").stat().st_mtime_ns
        for name in ("factuality", "calibration")
    }
    rubric = project.folder / "rubrics" / "factuality.txt"
    rubric.write_text(
        "# version: 2\n# dimension: factuality\n\nPrefer the response that is true.\n"
    )
    page.goto(f"{url}{runs_tagged(reason='edit')}")
    succeeded = page.get_by_text("Success", exact=True)
    expect(succeeded).to_have_count(1, timeout=RERUN_SECONDS * 1000)
    save_screenshot(page, "rerun_after_edit")
    again = {name: (replies / name / "pilot.parquet").stat().st_mtime_ns for name in written}
    assert {name for name in written if again[name] != written[name]} == {"factuality"}


def look_at_unsynced_assets(page: Page, project: SmallProject, url: str) -> None:
    """The headline was never run, so the dialog offers every asset that the graph makes."""
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
    expect(dialog.get_by_text(re.compile("judge_(agreement|controls|repeats)"))).to_have_count(0)
    save_screenshot(page, "materialize_unsynced")


def begin_the_scheduled_headline(page: Page, url: str) -> None:
    """How a rerun goes on to its report is in `tests/daemon`."""
    switch_on(page, url, "schedules/small_headline_schedule")
    page.get_by_role("button", name="Preview tick result").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name=re.compile("Launch all")).click()
    page.goto(f"{url}{runs_tagged(reason='schedule')}")
    link = page.get_by_role("link", name="small_run")
    expect(link).to_have_count(1, timeout=RERUN_SECONDS * 1000)
    save_screenshot(page, "scheduled_rerun")
