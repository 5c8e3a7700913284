"""What the tests in a browser share: pages of Chromium, their pictures, and Dagster's dialogs."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH  # type: ignore[import-untyped]
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.projects import SmallProject
from tournament_assets.graph.table import rows_of
from tournament_assets.project.plan import load_plan

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
PATIENCE_MS = 60_000
OPENING_SECONDS = 180
RERUN_SECONDS = 600
QUIET_CHROMIUM = (
    "--no-sandbox",  # the tests may run as root, where Chromium's sandbox refuses to
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--lang=en-US",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ABOUT_THE_NETWORK = (
    "Failed to load resource",
    "An unknown error occurred when fetching the script",
    "[Intervention]",
)
"""How begins what Chromium itself says on a console, of lost connections above all."""

USES_CHROMIUM = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="chromium is not installed; Debian's package chromium has it",
    ),
]


@contextmanager
def running_browser(*options: str) -> Iterator[Browser]:
    assert CHROMIUM is not None, "chromium is not installed; make e2e installs it as root"
    SCREENSHOTS.mkdir(exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET_CHROMIUM, *options], timeout=3 * PATIENCE_MS
        )
        yield launched
        launched.close()


def open_page(browser: Browser, **options: Any) -> Page:
    """Open a page in a context of its own, patient enough for a busy machine."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def complaints_of(page: Page) -> list[str]:
    """Return a list that fills with what a page's scripts raise and print on its console."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            None if message.text.startswith(ABOUT_THE_NETWORK) else complaints.append(message.text)
        ),
    )
    return complaints


WIDE: Any = {"width": 1280, "height": 844}
NARROW: Any = {"width": 390, "height": 844}
LEVELS = ("wcag2a", "wcag2aa", "wcag2aaa", "wcag21a", "wcag21aa", "wcag22aa")
ALL_RULES = {"runOnly": [*LEVELS, "best-practice", "experimental"]}


def find_violations(page: Page, context: str | None = None) -> list[tuple[str, str]]:
    """Let axe look at a page, or a part of it; return each rule that is broken, and where.

    A newer axe than the pinned package has can be named by AXE_SCRIPT: the path of an axe.min.js.
    """
    axe = Axe.from_file(os.environ.get("AXE_SCRIPT", AXE_FILE_PATH))
    found = axe.run(page, context=context, options=ALL_RULES).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def find_violations_folded_and_unfolded(page: Page) -> list[tuple[str, str]]:
    """Let axe look at a page as it opens and with all its parts open; nothing may stick out."""
    folded = find_violations(page)
    page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
    width = page.evaluate("innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    return folded + find_violations(page)


def save_screenshot(page: Page, name: str) -> None:
    page.wait_for_timeout(1500)  # the graph is drawn after its data has come
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


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


def narrow_to(page: Page, selection: str) -> None:
    """Type into the search of the asset graph what it is to show."""
    search = page.get_by_placeholder("Search and filter assets").or_(
        page.locator(".CodeMirror textarea")
    )
    search.first.focus()
    page.keyboard.type(selection)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")


def count_made(project: SmallProject) -> int:
    """Count what the graph makes: neither read from outside nor made on request."""
    rows = rows_of(load_plan(project.config_path, project.environment)).values()
    return sum(row.stored_as != "file" and not row.on_request for row in rows)


def wait_for_report(page: Page, project: SmallProject, mode: str) -> None:
    deadline = time.monotonic() + RERUN_SECONDS
    while not list(project.folder.glob(f"runs/{mode}_*/report.html")):
        assert time.monotonic() < deadline, "the runs have not reached the report"
        page.wait_for_timeout(1000)
