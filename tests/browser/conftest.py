from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.pages import CHROMIUM, QUIET_CHROMIUM, SCREENSHOTS


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
