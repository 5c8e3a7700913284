import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages import open_page


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """Open a page that is large enough for the asset graph."""
    return open_page(browser, viewport={"width": 2400, "height": 1100})
