from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.pages import CHROMIUM, PATIENCE_MS, QUIET_CHROMIUM, SCREENSHOTS, open_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "chromium is not installed; make e2e installs it as root"
    SCREENSHOTS.mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(QUIET_CHROMIUM), timeout=3 * PATIENCE_MS
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """Open a page that is large enough for the asset graph."""
    return open_page(browser, viewport={"width": 2400, "height": 1100})
