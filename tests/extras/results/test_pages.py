"""Looks at the pages of claims and of an audit of judges in a real browser, with axe."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser

from tests.browser.pages import (
    NARROW,
    USES_CHROMIUM,
    WIDE,
    find_violations_folded_and_unfolded,
    open_page,
)
from tournament_assets.cli import main

pytestmark = USES_CHROMIUM
SCORES = [f"i{n},{int(n % 3 > 0)},{n % 2},{int(n % 5 > 1)}" for n in range(60)]
VERDICTS = [
    f"p{n // 2},ada,bob,model_{'ab'[n % 3 > 1]},{('ab', 'ba')[n % 2]},judge-1" for n in range(120)
]


@pytest.mark.parametrize(
    ("command", "header", "rows"),
    [
        (("claims",), "item,ada,bob,cy", SCORES),
        (
            ("judge", "audit"),
            "prompt,model_a,model_b,winner,presentation,judge_model",
            VERDICTS,
        ),
    ],
)
def test_axe_finds_nothing_on_a_page_of_results(
    browser: Browser, tmp_path: Path, command: tuple[str, ...], header: str, rows: list[str]
) -> None:
    table, page = tmp_path / "rows.csv", tmp_path / "page.html"
    table.write_text("\n".join([header, *rows]))
    done = CliRunner().invoke(main, [*command, str(table), "--page", str(page)])
    assert page.is_file(), done.output
    schemes: Any = ("light", "dark")
    for viewport, scheme in zip((NARROW, WIDE), schemes, strict=True):
        opened = open_page(browser, viewport=viewport, color_scheme=scheme, offline=True)
        opened.goto(page.as_uri())
        assert opened.locator("details").count() > 0
        assert find_violations_folded_and_unfolded(opened) == []
        opened.context.close()
