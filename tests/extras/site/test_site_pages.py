"""Looks at the pages over all runs in a real browser, from disk, with axe."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import (
    SCREENSHOTS,
    USES_CHROMIUM,
    complaints_of,
    find_violations,
    open_page,
)
from tests.extras.site.test_site import write_run
from tournament_assets.extras.site.site import read_runs, write_site

pytestmark = USES_CHROMIUM


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_on_the_pages_of_a_site_and_nothing_is_loaded(
    browser: Browser, tmp_path: Path, width: int, scheme: Any
) -> None:
    for day in range(1, 8):
        write_run(tmp_path / "runs", day, ada=1430.0 + 5 * day, loser="bob")
    write_site(read_runs(tmp_path / "runs")[0], tmp_path / "site")
    viewport: Any = {"width": width, "height": 844}
    page = open_page(browser, viewport=viewport, color_scheme=scheme, offline=True)
    complaints = complaints_of(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index", "vision_pilot"):
        page.goto((tmp_path / "site" / f"{name}.html").as_uri())
        assert find_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=SCREENSHOTS / f"site_{name}_{width}_{scheme}.png")
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.context.close()
