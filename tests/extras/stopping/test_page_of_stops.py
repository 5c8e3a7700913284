"""The table of stops as a colleague would read it, in a real browser."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import SCREENSHOTS, USES_CHROMIUM, open_page
from tests.extras.stopping.test_stopping_tables import STOPPING, row
from tests.reports.builders import page_of, render_pages, section_row
from tournament_assets.extras.stopping.stopping_tables import stopping_section

DIMENSIONS = {
    "factuality": {"ada": 1490.0, "bob": 1410.0},
    "calibration": {"ada": 1400.0, "bob": 1430.0},
}
LONG_NAMES = ("a_head_on_top_of_it_plus_robustness", "a_head_on_top_of_it_only_and_no_more")
STOPS = [
    replace(
        row(5, decided=True, goal=goal),
        dimension=dimension,
        entrant_a=LONG_NAMES[0],
        entrant_b=LONG_NAMES[1],
        side=LONG_NAMES[0],
        prompts=1000,
        low=0.51,
        high=0.59,
        capital=12_345.0,
        threshold=15_600.0,
    )
    for dimension, goal in (("factuality", "bank"), ("calibration", "population"))
]

pytestmark = USES_CHROMIUM


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_stops_is_read_whole_however_long_the_names(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    section = stopping_section(
        STOPS, dict.fromkeys(DIMENSIONS, ()), mode_config=STOPPING, prices={}
    )
    assert section is not None
    report = page_of(DIMENSIONS, sections=[section_row("stopping", section)])
    for name, text in render_pages(report).items():
        (tmp_path / name).write_text(text)
    page = open_page(browser, viewport={"width": width, "height": 900}, offline=True)
    page.goto((tmp_path / "report.html").as_uri())
    page.locator("#stopping > summary").click()
    for dimension in DIMENSIONS:
        page.locator("#stopping label", has_text=dimension).click()
        table = page.locator("#stopping .scroll:has(table)").filter(visible=True)
        expect(table).to_contain_text(f"{LONG_NAMES[0]} : {LONG_NAMES[1]}")
        assert table.evaluate("own => own.scrollWidth <= own.clientWidth")
    page.screenshot(path=SCREENSHOTS / f"report_stopping_{width}.png", full_page=True)
    page.context.close()
