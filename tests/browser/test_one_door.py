"""`tournament ui` as one door: from an asset to its page, from an edit to a rerun in two clicks."""

import re
import socket
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import dagster as dg
import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import RERUN_SECONDS, USES_CHROMIUM, save_screenshot
from tests.browser.servers import dagster_dev
from tests.daemon.daemons import look_often
from tests.projects import FinishedPilot, SmallProject
from tournament_assets.project.project_files import prepare_dagster_home

pytestmark = USES_CHROMIUM


def read(address: str, *headers: tuple[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(address, headers=dict(headers))  # noqa: S310  # loopback
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return response.status, response.read().decode()
    except HTTPError as refused:
        return refused.code, ""


def newest(project: SmallProject, asset: str) -> dg.AssetMaterialization:
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["small", asset]))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


def rerun_in_two_clicks(page: Page, site: str) -> None:
    page.goto(f"{site}/latest/small_pilot/report.html")
    page.get_by_role("link", name="Rerun what is out of date").click()
    page.get_by_role("button", name="Launch Run").click()
    page.wait_for_url(re.compile("/runs/[0-9a-f-]{36}"))


def test_an_edit_is_rerun_in_two_clicks_and_every_asset_leads_to_its_page(
    page: Page, finished_pilot: FinishedPilot, tmp_path: Path
) -> None:
    project = finished_pilot.copy(tmp_path / "project")
    (before,) = (project.folder / "runs").iterdir()
    home = prepare_dagster_home(project.folder, project.environment["DAGSTER_HOME"])
    look_often(home)
    log = tmp_path / "ui.log"
    with dagster_dev(project.folder, home, log) as graph:
        (site,) = re.findall(r"^(http\S+): all reports", log.read_text(), re.MULTILINE)
        page.goto(f"{graph}/assets/small/judge_verdicts")
        links = page.get_by_role("link", name="#battles")
        expect(links).to_have_count(2)  # pilot and headline, though a command made the pilot
        assert str(links.first.get_attribute("href")).startswith(f"{site}/latest/small_")
        page.goto(f"{site}/latest/small_pilot/report.html")
        expect(page.get_by_text("Up to date", exact=True)).to_be_visible()
        rubric = project.folder / "rubrics" / "factuality.txt"
        rubric.write_text(rubric.read_text().replace("# version: 1", "# version: 2"))
        page.reload()
        expect(page.get_by_text(re.compile("asks 24 requests again"))).to_be_visible()
        save_screenshot(page, "site_out_of_date")
        rerun_in_two_clicks(page, site)
        deadline = time.monotonic() + RERUN_SECONDS
        while ">Up to date<" not in read(f"{site}/small_pilot.html")[1]:
            assert time.monotonic() < deadline
            time.sleep(1)
        save_screenshot(page, "rerun_from_the_site")
        page.goto(f"{graph}/runs")
        expect(page.get_by_role("link", name="small_rerun")).to_have_count(1)
        expect(page.get_by_text("{")).to_have_count(0)  # no tag is JSON
        save_screenshot(page, "runs_of_the_site")
        (after,) = {*(project.folder / "runs").iterdir()} - {before}
        run = newest(project, "run_artifacts").metadata["page"].value
        assert run == f"{site}/runs/{after.name}/report.html"
        assert read(str(run))[1] == (after / "report.html").read_text()
        shown = newest(project, "judge_verdicts").metadata["page"].value
        assert shown == f"{site}/latest/small_pilot/report.html#battles"
        assert read(str(shown))[0] == 200
        assert read(site, ("Host", "evil.example"))[0] == 403
        assert read(site, ("Sec-Fetch-Site", "cross-site"))[0] == 403
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(site.rpartition(":")[2])))
