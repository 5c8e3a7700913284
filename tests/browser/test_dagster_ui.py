"""Uses the Dagster UI as a person would: the real webserver and daemon, a real browser."""

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.servers import dagster_dev
from tests.demo import DemoRun, run_demo
from tests.projects import SmallProject, make_project
from tests.torture.rounds import ADAPTIVE, make_larger
from tournament_assets.definitions import build_plan
from tournament_assets.graph.automation.reruns import runs_page
from tournament_assets.graph.table import rows_of
from tournament_assets.project.config_files import load_config
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.storage.tables import rows_of as typed_rows
from tournament_assets.tournament.asset_rows import DecisionRow
from tournament_assets.workflows.adaptive_judging import last_rows

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
STAGES = ("1_prompts", "2_responses", "3_judging", "4_ratings", "5_report")
OPENING_SECONDS = 180
RERUN_SECONDS = 600
AFTER_A_RUBRIC = ("5_estimate", "6_ask_judge", "6_judge_and_rate", "7_report")
"""The jobs of a rerun after an edit of one rubric, each once."""
PRESENTATIONS = 330
"""What three entrants of the larger bank take, but for prompts on which two are of one text."""
RUNS_OF_THE_JOB = "/runs?q[0]=job%3Ademo_6_judge_and_rate"
QUIET_CHROMIUM = (
    "--no-sandbox",  # the tests may run as root, where Chromium's sandbox refuses to
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="chromium is not installed; Debian's package chromium has it",
    ),
]


@pytest.fixture(scope="module")
def address(demo_run: DemoRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("dagster") / "dagster_dev.log"
    with dagster_dev(demo_run.project, demo_run.dagster_home, log) as url:
        yield url


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert CHROMIUM is not None, "chromium is not installed; make test installs it as root"
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET_CHROMIUM))
        opened = browser.new_page(viewport={"width": 2400, "height": 1100})
        opened.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        yield opened
        browser.close()


def save_screenshot(page: Page, name: str) -> None:
    page.wait_for_timeout(1500)  # the graph is drawn after its data has come
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def count_successful_runs(page: Page, address: str) -> int:
    page.goto(f"{address}{RUNS_OF_THE_JOB}")
    succeeded = page.get_by_text("Success", exact=True)
    expect(succeeded.first).to_be_visible()
    return succeeded.count()


def choose_partition(page: Page, value: str) -> None:
    """Choose a partition in the dialog of a launch, as often as its list was still empty."""
    offered = page.get_by_role("menuitem", name=value).or_(page.get_by_role("option", name=value))
    closed = page.get_by_role("dialog").get_by_text("Select a partition or create one").first
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        closed.click()
        try:
            offered.first.click(timeout=5_000)
        except PlaywrightTimeoutError:
            assert time.monotonic() < deadline, f"the dialog does not offer {value!r}"
        else:
            break
    page.keyboard.press("Escape")


def test_the_graph_shows_every_asset_of_the_demo_with_its_state(page: Page, address: str) -> None:
    groups = ",".join(f"global@global:demo_{stage}" for stage in STAGES)
    page.goto(f"{address}/asset-groups?expanded={quote(groups)}")
    search = page.get_by_placeholder("Search and filter assets").or_(
        page.locator(".CodeMirror textarea")
    )
    search.first.focus()
    page.keyboard.type('key:"demo/*"')
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_text("tournament1_1_prompts")).to_have_count(0)
    names = ("prompt_bank", "entrant_responses", "judge_replies", "elo_ratings", "run_artifacts")
    # Assets outside the view are not drawn, nor are any from too far away.
    for _ in range(6):
        page.wait_for_timeout(1000)
        if all(page.get_by_text(name, exact=True).count() for name in names):
            break
        page.get_by_role("button", name="zoom_out").click()
    for name in names:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    save_screenshot(page, "asset_graph")


def test_the_pilot_of_one_dimension_is_materialised_from_the_page(
    page: Page, address: str, demo_run: DemoRun
) -> None:
    ratings = demo_run.project / "storage" / "demo" / "elo_ratings" / "factuality" / "pilot.parquet"
    before = ratings.read_bytes()
    ratings.unlink()
    runs_before = count_successful_runs(page, address)
    page.goto(f"{address}/locations/tournament_assets/jobs/demo_6_judge_and_rate")
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
    expect(succeeded).to_have_count(runs_before + 1, timeout=180_000)
    save_screenshot(page, "runs")
    assert ratings.read_bytes() == before


def test_the_leaderboard_is_where_a_reader_looks_for_it(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/elo_ratings?view=partitions&partition=factuality%7Cpilot")
    expect(page.get_by_text("places and group").first).to_be_visible()
    for entrant in ("base_olmo", "security_only", "security_plus_robustness", "full_poe"):
        expect(page.get_by_text(entrant, exact=True).first).to_be_visible()
    expect(page.get_by_text("loopback (lexical, not a language model)").first).to_be_visible()
    save_screenshot(page, "elo_ratings")
    page.goto(f"{address}/assets/demo/leaderboard?view=partitions&partition=pilot")
    expect(page.get_by_text("sampling interval").first).to_be_visible()
    expect(page.get_by_text(re.compile("On factuality, ")).first).to_be_visible()
    save_screenshot(page, "leaderboard")


def test_what_cost_money_says_what_it_cost(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/judge_replies?view=partitions&partition=factuality%7Cpilot")
    for name in ("requests_submitted_now", "cost_usd", "cache_read_share", "rubric_version"):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    save_screenshot(page, "judge_replies")


def test_an_edited_rubric_is_seen_within_a_minute_where_people_look(
    page: Page, address: str, demo_run: DemoRun
) -> None:
    rubric = demo_run.project / "rubrics" / "factuality.txt"
    text = rubric.read_text()
    checks = f"{address}/assets/demo/judge_replies?view=checks"
    partition = f"{address}/assets/demo/judge_replies?view=partitions&partition="
    unsynced = re.compile("Unsynced")
    rubric.write_text(text.replace(text.splitlines()[0], "# version: 99"))
    try:
        page.goto(checks)
        sentence = re.compile(r"factuality, pilot: judged with rubric v1 \(.*it is v99")
        expect(page.get_by_text(sentence).first).to_be_visible(timeout=90_000)
        save_screenshot(page, "rubric_edit_check")
        page.goto(f"{partition}factuality%7Cpilot")
        expect(page.get_by_text(unsynced).first).to_be_visible()
        save_screenshot(page, "rubric_edit_partition")
        page.goto(f"{partition}calibration%7Cpilot")
        expect(page.get_by_text("requests_submitted_now").first).to_be_visible()
        expect(page.get_by_text(unsynced)).to_have_count(0)
        page.goto(f"{address}/assets/demo/leaderboard?view=checks")
        expect(page.get_by_text("inputs_are_current").first).to_be_visible()
        save_screenshot(page, "leaderboard_checks")
    finally:
        rubric.write_text(text)
    page.goto(checks)
    current = "Everything was judged with the rubric as it is now."
    # Once it describes the check, and once it is what the check says.
    expect(page.get_by_text(current)).to_have_count(2, timeout=90_000)


def test_ratings_are_plotted_by_mode(page: Page, address: str) -> None:
    page.goto(f"{address}/assets/demo/leaderboard?view=overview")
    page.get_by_role("button", name="Plots").click()
    plotted = page.get_by_text("elo_clinical_utility_base_olmo").last
    plotted.scroll_into_view_if_needed()
    expect(plotted).to_be_visible()
    save_screenshot(page, "leaderboard_plots")
    page.goto(f"{address}/automation")
    expect(page.get_by_text("demo_watch_inputs").first).to_be_visible()
    save_screenshot(page, "automation")


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
    with dagster_dev(project.folder, home, tmp_path / "dagster_dev.log") as url:
        yield project, url


def count_made(project: SmallProject) -> int:
    """Count what the graph makes: neither read from outside nor made on request."""
    rows = rows_of(build_plan(load_config(project.config_path), project.environment)).values()
    return sum(row.stored_as != "file" and not row.on_request for row in rows)


def count_replies(project: SmallProject) -> int:
    """Count what the judge was paid for: replies in the ledger."""
    with closing(sqlite3.connect(project.folder / "ledger" / "ledger.sqlite")) as ledger:
        (count,) = ledger.execute("SELECT count(*) FROM judge_replies").fetchone()
    return int(count)


def count_not_needed(project: SmallProject) -> int:
    """Count the presentations that the stored decisions made needless."""
    stored = project.folder / "storage" / "small" / "judging_decisions" / "factuality"
    frame = decode_parquet("judging_decisions", (stored / "headline.parquet").read_bytes())
    return 2 * sum(row.not_needed for row in last_rows(typed_rows(DecisionRow, frame)))


def wait_for_report(page: Page, project: SmallProject, mode: str) -> None:
    deadline = time.monotonic() + RERUN_SECONDS
    while not list(project.folder.glob(f"runs/{mode}_*/report.html")):
        assert time.monotonic() < deadline, "the runs have not reached the report"
        page.wait_for_timeout(1000)


def test_the_button_runs_an_adaptive_headline_of_one_tournament_to_its_report_in_five_clicks(
    page: Page, fresh: tuple[SmallProject, str]
) -> None:
    project, url = fresh
    page.goto(f"{url}/asset-groups")
    search = page.get_by_placeholder("Search and filter assets").or_(
        page.locator(".CodeMirror textarea")
    )
    search.first.focus()
    page.keyboard.type('key:"small/*"')
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_text("twin_1_prompts")).to_have_count(0)
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
    assert not tested & {"judge_agreement", "judge_controls", "judge_drift", "judge_retest"}
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


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallProject, str]]:
    """A tournament whose pilot was run, with a schedule that is not due for months."""
    folder = tmp_path_factory.mktemp("ran")
    project = make_project(folder / "project")
    project.edit_config(automation={"headline_schedule": {"cron": "0 6 1 1 *"}})
    run_demo(project.folder, config=project.config_path.name)
    home = prepare_dagster_home(project.folder, project.environment["DAGSTER_HOME"])
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
    expect(page.get_by_role("link", name="small_7_report")).to_have_count(1)
    save_screenshot(page, "scheduled_rerun")
