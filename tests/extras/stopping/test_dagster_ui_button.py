"""Runs an adaptive tournament that was never run with one button of the Dagster UI."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import (
    USES_CHROMIUM,
    choose_partition,
    count_made,
    narrow_to,
    open_page,
    save_screenshot,
    wait_for_report,
)
from tests.browser.servers import dagster_dev
from tests.daemon.daemons import look_often
from tests.projects import SmallProject, make_project
from tests.torture.rounds import ADAPTIVE, make_larger
from tournament_assets.extras.stopping.decisions import DecisionRow, last_rounds
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.storage.tables import decode_parquet, rows_of

PRESENTATIONS = 330
"""What three entrants of the larger bank take, but for prompts on which two are of one text."""

pytestmark = USES_CHROMIUM


@pytest.fixture
def page(browser: Browser) -> Page:
    """Open a page that is large enough for the asset graph."""
    return open_page(browser, viewport={"width": 2400, "height": 1100})


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[SmallProject, str]]:
    """Two adaptive tournaments that were never run, in a home that nobody has used."""
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    make_larger(project, adaptive=ADAPTIVE)
    project.edit_config(checks={"max_length_effect": None})
    text = project.config_path.read_text()
    twin = text.replace("tournament_id: small", "tournament_id: twin")
    (project.config_path.parent / "twin.yaml").write_text(twin)
    home = prepare_dagster_home(project.folder, project.environment["DAGSTER_HOME"])
    look_often(home)
    with dagster_dev(project.folder, home, tmp_path / "dagster_dev.log") as url:
        yield project, url


def count_replies(project: SmallProject) -> int:
    """Count what the judge was paid for: replies in the ledger."""
    with closing(sqlite3.connect(project.folder / "ledger" / "ledger.sqlite")) as ledger:
        (count,) = ledger.execute("SELECT count(*) FROM judge_replies").fetchone()
    return int(count)


def count_not_needed(project: SmallProject) -> int:
    """Count the presentations that the stored decisions made needless."""
    stored = project.folder / "storage" / "small" / "judging_decisions" / "factuality"
    frame = decode_parquet(DecisionRow, (stored / "headline.parquet").read_bytes())
    return 2 * sum(row.not_needed for row in last_rounds(rows_of(DecisionRow, frame)))


def test_the_button_runs_an_adaptive_headline_of_one_tournament_to_its_report_in_five_clicks(
    page: Page, fresh: tuple[SmallProject, str]
) -> None:
    project, url = fresh
    page.goto(f"{url}/asset-groups")
    narrow_to(page, 'key:"small/*"')
    expect(page.get_by_text("twin_prompts")).to_have_count(0)
    page.get_by_role("button", name=f"Materialize all ({count_made(project)})").click()
    choose_partition(page, "headline")
    save_screenshot(page, "choose_mode")
    page.get_by_role("button", name="Launch backfill").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{url}/runs?view=backfills")
    wait_for_report(page, project, "headline")
    save_screenshot(page, "backfill")
    (run,) = (project.folder / "runs").iterdir()
    assert run.name.startswith("headline_")
    stored = {path.name for path in (project.folder / "storage").iterdir()}
    assert stored == {"small"}
    tested = {path.name for path in (project.folder / "storage" / "small").iterdir()}
    assert not tested & {"judge_agreement", "judge_controls", "judge_repeats"}
    not_needed = count_not_needed(project)
    assert 0 < count_replies(project) == PRESENTATIONS - not_needed < PRESENTATIONS
    page.goto(
        f"{url}/assets/small/judging_decisions?view=partitions&partition=factuality%7Cheadline"
    )
    expect(page.get_by_text("pairs_stopped", exact=True).first).to_be_visible()
    save_screenshot(page, "judging_decisions")
    page.goto((run / "report.html").as_uri())
    page.get_by_text("Where judging stopped").first.click()
    section = page.locator("#stopping")
    expect(section).to_contain_text("who would win if every prompt of this bank were judged")
    expect(section).to_contain_text(f"{not_needed} of {PRESENTATIONS} (")
    save_screenshot(page, "report_stopping")
