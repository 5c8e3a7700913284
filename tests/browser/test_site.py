"""Looks at the pages over all runs in a real browser, from disk, with axe."""

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, sync_playwright

from tests.reports.test_site import write_run
from tournament_assets.reports.site import read_runs, write_site

CHROMIUM = shutil.which("chromium")
AXE = find_spec("axe_playwright_python")
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        (CHROMIUM is None or AXE is None) and not os.environ.get("CI"),
        reason="chromium or axe-playwright-python is not installed; `make test` installs both",
    ),
]


def test_axe_finds_nothing_on_the_pages_of_a_site_and_nothing_is_loaded(tmp_path: Path) -> None:
    for day in range(1, 8):
        write_run(tmp_path / "runs", day, ada=1430.0 + 5 * day, loser="bob")
    write_site(read_runs(tmp_path / "runs")[0], tmp_path / "site")
    assert AXE is not None
    assert AXE.origin is not None
    axe = (Path(AXE.origin).parent / "axe.min.js").read_text()
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
        )
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            context = browser.new_context(
                viewport={"width": width, "height": 844},
                color_scheme="dark" if scheme == "dark" else "light",
                offline=True,
            )
            page = context.new_page()
            complaints: list[str] = []
            page.on("console", _listener(complaints))
            for name in ("index", "vision_pilot"):
                page.goto((tmp_path / "site" / f"{name}.html").as_uri())
                page.evaluate(axe)
                found = page.evaluate("axe.run().then(found => found.violations)")
                assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                page.screenshot(path=SCREENSHOTS / f"site_{name}_{width}_{scheme}.png")
            assert complaints == []
            context.close()
        browser.close()


def _listener(complaints: list[str]) -> Callable[[ConsoleMessage], None]:
    return lambda message: complaints.append(message.text)
