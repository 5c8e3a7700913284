"""Uses the Dagster UI as a person would: the real webserver and daemon, a real browser."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import USES_CHROMIUM, choose_partition, narrow_to, save_screenshot
from tests.browser.servers import dagster_dev
from tests.daemon.daemons import look_often
from tests.demo import DemoRun

STAGES = ("prompts", "responses", "judging", "ratings", "report")
RUNS_OF_THE_JOB = "/runs?q[0]=tag%3Astage%3Djudging"

pytestmark = USES_CHROMIUM


@pytest.fixture(scope="module")
def demo(short_demo_run: DemoRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project folder of the demo after its pilot."""
    folder = tmp_path_factory.mktemp("demo") / "project"
    shutil.copytree(short_demo_run.project, folder)
    return folder


@pytest.fixture(scope="module")
def address(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("dagster") / "dagster_dev.log"
    look_often(demo / ".dagster_home")
    with dagster_dev(demo, demo / ".dagster_home", log) as url:
        yield url


def test_the_graph_shows_every_asset_of_the_demo_with_its_state(page: Page, address: str) -> None:
    groups = ",".join(f"global@global:demo_{stage}" for stage in STAGES)
    page.goto(f"{address}/asset-groups?expanded={quote(groups)}")
    narrow_to(page, 'key:"demo/*"')
    names = ("prompt_bank", "entrant_responses", "judge_replies", "elo_ratings", "run_artifacts")
    expect(page.get_by_text("elo_ratings", exact=True).first).to_be_visible()
    # Assets outside the view are not drawn, nor are any from too far away.
    for _ in range(6):
        page.wait_for_timeout(3000)
        if all(page.get_by_text(name, exact=True).count() for name in names):
            break
        page.get_by_role("button", name="zoom_out").click()
    for name in names:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    save_screenshot(page, "asset_graph")


def test_the_pilot_of_one_dimension_is_materialised_from_the_page(
    page: Page, address: str, demo: Path
) -> None:
    ratings = demo / "storage" / "demo" / "elo_ratings" / "factuality" / "pilot.parquet"
    before = ratings.read_bytes()
    ratings.unlink()
    page.goto(f"{address}/locations/tournament_assets/jobs/__ASSET_JOB_demo_judging")
    page.get_by_role("button", name=re.compile("Materialize all")).click()
    dialog = page.get_by_role("dialog")
    choose_partition(page, "factuality")
    choose_partition(page, "pilot")
    expect(dialog.get_by_text("1 partition", exact=False).first).to_be_visible()
    save_screenshot(page, "choose_partition")
    dialog.get_by_role("button", name=re.compile("Launch")).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{address}{RUNS_OF_THE_JOB}")
    succeeded = page.get_by_text("Success", exact=True)
    expect(succeeded).to_have_count(1, timeout=180_000)
    save_screenshot(page, "runs")
    assert ratings.read_bytes() == before


def test_the_leaderboard_is_where_a_reader_looks_for_it(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/elo_ratings?view=partitions&partition=factuality%7Cpilot")
    expect(page.get_by_text("sem", exact=True).first).to_be_visible()
    for entrant in ("base_olmo", "security_only", "security_plus_robustness", "full_poe"):
        expect(page.get_by_text(entrant, exact=True).first).to_be_visible()
    expect(page.get_by_text("loopback (lexical, not a language model)").first).to_be_visible()
    save_screenshot(page, "elo_ratings")
    page.goto(f"{address}/assets/demo/leaderboard?view=partitions&partition=pilot")
    expect(page.get_by_text("places and group").first).to_be_visible()
    expect(page.get_by_text(re.compile("On factuality ")).first).to_be_visible()
    save_screenshot(page, "leaderboard")


def test_what_cost_money_says_what_it_cost(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/judge_replies?view=partitions&partition=factuality%7Cpilot")
    for name in ("requests_submitted_now", "cost_usd", "cache_read_share", "rubric_version"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    save_screenshot(page, "judge_replies")


def test_an_edited_rubric_is_seen_within_a_minute_where_people_look(
    page: Page, address: str, demo: Path
) -> None:
    rubric = demo / "rubrics" / "factuality.txt"
    text = rubric.read_text()
    checks = f"{address}/assets/demo/report?view=checks"
    partition = f"{address}/assets/demo/judge_replies?view=partitions&partition="
    unsynced = re.compile("Unsynced")
    rubric.write_text(text.replace(text.splitlines()[0], "# version: 99"))
    try:
        page.goto(checks)
        sentence = re.compile(r"rubrics factuality was v1 \(.*, is v99")
        expect(page.get_by_text(sentence).first).to_be_visible(timeout=180_000)
        save_screenshot(page, "rubric_edit_check")
        page.goto(f"{partition}factuality%7Cpilot")
        expect(page.get_by_text(unsynced).first).to_be_visible()
        save_screenshot(page, "rubric_edit_partition")
        page.goto(f"{partition}calibration%7Cpilot")
        expect(page.get_by_text("requests_submitted_now").first).to_be_visible()
        expect(page.get_by_text(unsynced)).to_have_count(0)
    finally:
        rubric.write_text(text)
    page.goto(checks)
    expect(page.get_by_text("Up to date.", exact=True)).to_have_count(1, timeout=180_000)


def test_ratings_are_plotted_by_mode(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/leaderboard?view=overview")
    page.get_by_role("button", name="Plots").click()
    plotted = page.get_by_text("elo_clinical_utility_base_olmo").last
    plotted.scroll_into_view_if_needed()
    expect(plotted).to_be_visible()
    save_screenshot(page, "leaderboard_plots")
    page.goto(f"{address}/automation")
    expect(page.get_by_text("tournaments").first).to_be_visible()
    save_screenshot(page, "automation")
