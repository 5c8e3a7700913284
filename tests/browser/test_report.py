"""Reads the report as a colleague would: the file alone, from disk, in a real browser."""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.pages import (
    NARROW,
    SCREENSHOTS,
    USES_CHROMIUM,
    WIDE,
    complaints_of,
    find_violations,
    find_violations_folded_and_unfolded,
    open_page,
)
from tests.reports.builders import audit_row, battle_tables, page_of, render_pages, section_row
from tournament_assets.reports.battle_pages import lay_out_battles
from tournament_assets.reports.report_tables import ReportSection, ReportTable
from tournament_assets.reports.run import page as report_page
from tournament_assets.tournament.config import ReportConfig

EVIL = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><!--'
DIMENSIONS = {
    "factuality": {"ada": 1490.0, "bob": 1410.0, "cy": 1300.0, "dan": 1290.0},
    "calibration": {"ada": 1400.0, "bob": 1430.0, "cy": 1390.0, "dan": 1380.0},
}
PROMPTS = [*(f"recall-{n}" for n in range(4)), *(f"vignette-{n}" for n in range(2))]
OUTCOMES = [
    ("ada", "bob", "a_wins"),
    ("ada", "cy", "inconsistent"),
    ("bob", "cy", "tie"),
    ("cy", "dan", "unjudged"),
]
N_BATTLES = len(OUTCOMES) * len(PROMPTS) * len(DIMENSIONS)
TRUST = ReportSection(
    "Trust panel",
    ("Two lights are green.",),
    (
        (
            "Lights",
            ReportTable(
                ("test", "light", "number", "what it means"),
                (
                    ("Swap consistency", "green", "98.2 %", "Both orders of a pair agree."),
                    (
                        "First-slot rate",
                        "amber",
                        "55.0 %",
                        "The judge prefers what it reads first.",
                    ),
                    ("Injections", "red", "3 of 10", "Instructions in a response moved a verdict."),
                    ("Human labels", "grey", "–", "None were given."),
                ),
            ),
        ),
    ),
)

pytestmark = USES_CHROMIUM


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    noted = {"position": 1, "draft": " a\n", "replacement": "b", "start": 0, "end": 3}
    given = page_of(
        DIMENSIONS,
        judge_is_language_model=False,
        audit=[
            audit_row(name, dimension=dimension, replies_refused=int(name in ("cy", "dan")))
            for dimension, means in DIMENSIONS.items()
            for name in means
        ],
        sections=[section_row("trust", TRUST)],
        prices=dict.fromkeys(DIMENSIONS, 0.625),
        battles=battle_tables(
            OUTCOMES,
            dimensions=tuple(DIMENSIONS),
            prompts=PROMPTS,
            text=f"It is the lens. {EVIL}",
            diagnostics={"jury": {"resampled": [noted]}, "p_correct": 0.75},
            alike=("bob", "cy"),
        ),
    )
    for name, page in render_pages(given).items():
        (folder / name).write_text(page)
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Page]:
    """Open the report without a network; what the console says or the page asks for fails."""
    opened = open_page(browser, viewport={"width": 1100, "height": 900}, offline=True)
    complaints = complaints_of(opened)
    opened.on(
        "request",
        lambda request: (
            None if request.url.startswith(("file:", "data:")) else complaints.append(request.url)
        ),
    )
    opened.goto(report)
    yield opened
    hacked = opened.evaluate("window.hacked")
    opened.context.close()
    assert complaints == []
    assert hacked is None


def results(page: Page) -> Locator:
    return page.locator("#results > li")


def expect_count(page: Page, count: int) -> None:
    expect(page.get_by_role("status")).to_contain_text(f"{count} of {N_BATTLES} battles")
    expect(results(page)).to_have_count(min(count, 5))


def test_each_filter_leaves_what_it_says(page: Page) -> None:
    expect_count(page, N_BATTLES)
    for label, choice, count in (
        ("Dimension", "calibration", 24),
        ("Entrant", "cy", 36),
        ("Against", "dan", 12),
        ("Outcome", "one side won", 12),
        ("Outcome", "a tie", 12),
        ("Outcome", "inconsistent", 12),
        ("Outcome", "unjudged", 12),
        ("Both orders", "agree", 24),
        ("Both orders", "flipped: they disagree", 12),
        ("Both orders", "the first shown won twice", 12),
        ("Stratum", "vignette", 16),
    ):
        page.get_by_label(label, exact=True).select_option(label=choice)
        expect_count(page, count)
        page.get_by_role("button", name="Clear").click()
        expect_count(page, N_BATTLES)


def test_filters_work_together_and_the_address_keeps_them(page: Page) -> None:
    page.get_by_label("Entrant", exact=True).select_option("bob")
    page.get_by_label("Outcome", exact=True).select_option("lost")
    expect_count(page, 12)
    page.get_by_label("Search", exact=True).fill("RECALL-2 lens")
    expect_count(page, 2)
    page.get_by_label("Dimension", exact=True).select_option("factuality")
    expect_count(page, 1)
    page.reload()
    expect_count(page, 1)
    expect(page.get_by_label("Search", exact=True)).to_have_value("RECALL-2 lens")
    expect(results(page).get_by_text("What is recall-2?").last).to_be_visible()


def test_equal_responses_can_be_left_out_and_more_is_shown_on_demand(page: Page) -> None:
    page.get_by_label("only where the responses differ", exact=True).check()
    expect_count(page, 36)
    page.get_by_role("button", name="Show more").click()
    expect(results(page)).to_have_count(10)
    expect(results(page).nth(5).locator("summary")).to_be_focused()


def test_a_cell_of_the_win_grid_leads_to_its_battles(page: Page) -> None:
    page.locator("#win-grid label", has_text="calibration").click()
    page.get_by_role("link", name="bob against ada on calibration").click()
    expect_count(page, 6)
    assert page.url.endswith("#battles?dimension=calibration&entrant=bob&versus=ada")
    expect(page.get_by_role("heading", name="Battles")).to_be_focused()
    expect(page.get_by_label("Against", exact=True)).to_have_value("ada")
    page.locator("#win-grid label", has_text="factuality").click()
    page.get_by_role("link", name="ada against bob on factuality").click()
    expect(page.get_by_label("Dimension", exact=True)).to_have_value("factuality")
    expect(page.get_by_label("Against", exact=True)).to_have_value("bob")


def test_a_battle_shows_everything_that_was_written_as_text(page: Page) -> None:
    page.get_by_label("Entrant", exact=True).select_option("ada")
    page.get_by_label("Against", exact=True).select_option("bob")
    battle = results(page).first
    battle.locator("summary").first.click()
    for words in ("What is recall-0?", "Gold answer: lens", "ada is better", "p(correct) 0.750"):
        expect(battle.get_by_text(words).first).to_be_visible()
    expect(battle.get_by_text("ada shown as A, bob as B")).to_be_visible()
    expect(battle.get_by_text("bob shown as A, ada as B")).to_be_visible()
    expect(battle.get_by_text(f"ada: It is the lens. {EVIL}", exact=True)).to_be_visible()
    expect(battle.get_by_text(f"It is the lens. {EVIL} VERDICT: A")).to_have_count(1)
    assert page.locator("#results img, #results script").count() == 0
    marked = battle.locator("mark").first
    expect(marked).to_have_text("ada")
    expect(marked).to_have_attribute("title", "the jury replaced ␣a↵")
    battle.get_by_text("1 token replaced by the jury").first.click()
    expect(battle.get_by_text("token 2: ␣a↵ → ada (marked above)").first).to_be_visible()
    save(page, "report_battle")


def test_a_battle_without_a_reply_says_why(page: Page) -> None:
    page.get_by_label("Outcome", exact=True).select_option("unjudged")
    battle = results(page).first
    battle.locator("summary").first.click()
    for words in ("cy and dan: not judged", "the judge declined", "The judge wrote nothing."):
        expect(battle.get_by_text(words).first).to_be_visible()


def test_everything_is_reached_by_keyboard_and_shows_where_it_is(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the ratings")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the ratings")).to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Read the first battle")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Dark colours")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_label("Dimension", exact=True).focus()
    names = []
    for _ in range(11):
        names.append(page.evaluate("document.activeElement.name || document.activeElement.type"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("Tab")
    assert names == [
        *(
            "dimension",
            "entrant",
            "versus",
            "outcome",
            "orders",
            "size",
            "source",
            "prompt",
            "q",
            "differing",
        ),
        "reset",
    ]
    expect(results(page).first.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(results(page).first.get_by_text("What the judge wrote")).to_be_visible()


def test_the_first_battle_is_three_keys_away_and_n_leads_to_the_next(page: Page) -> None:
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    first, second = results(page).first, results(page).nth(1)
    expect(first.get_by_text("What the judge wrote")).to_be_visible()
    expect(first).to_contain_text("ada beats bob")  # what is decided comes before ties
    page.keyboard.press("n")
    expect(second.locator("summary").first).to_be_focused()
    expect(first.get_by_text("What the judge wrote")).to_be_hidden()
    page.keyboard.press("p")
    expect(first.locator("summary").first).to_be_focused()


def test_words_that_only_one_response_has_are_marked(browser: Browser, tmp_path: Path) -> None:
    given = page_of(DIMENSIONS, battles=battle_tables([("ada", "bob", "a_wins")]))
    for name, text in render_pages(given).items():
        (tmp_path / name).write_text(text)
    opened = open_page(browser, offline=True)
    opened.goto((tmp_path / "report.html").as_uri())
    results(opened).first.locator("summary").click()
    expect(opened.locator("mark.own")).to_have_text(["ada:", "bob:"])
    opened.context.close()


WRITTEN = f"""Look:

```python
def dose(weight):
    return 5 * weight  # {EVIL}
```

| drug | dose |
|---|---:|
| aspirin | 75 mg |
| a long name of a drug | 5 mg |

1. First
   - wait
שלום: 5 mg
"""
HEBREW = "שלום: 5 mg"


@pytest.fixture
def read_battle(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Open a battle whose responses hold code, a table, a list and a line of Hebrew."""
    given = page_of(DIMENSIONS, battles=battle_tables([("ada", "bob", "a_wins")], text=WRITTEN))
    for name, text in render_pages(given).items():
        (tmp_path / name).write_text(text)
    opened = open_page(browser, viewport={"width": 1280, "height": 900}, offline=True)
    opened.goto((tmp_path / "report.html").as_uri())
    expect(results(opened).first.locator("details")).to_have_attribute("open", "")
    yield opened
    assert opened.evaluate("window.hacked") is None
    opened.context.close()


def test_code_tables_and_lists_in_a_response_look_like_it_and_no_character_is_lost(
    read_battle: Page,
) -> None:
    response = read_battle.locator(".pair .text").first
    assert response.evaluate("box => box.textContent") == f"ada: {WRITTEN}"
    code = response.locator(".code:not(.line)")
    expect(code.locator(".line")).to_have_count(4)
    assert "mono" in code.evaluate("box => getComputedStyle(box).fontFamily")
    lefts = "rows => rows.map(row => Math.round(row.children[1].getBoundingClientRect().left))"
    columns = response.locator(".table .line").evaluate_all(lefts)
    assert len(columns) == 4
    assert len({*columns}) == 1
    expect(response.locator(".item")).to_have_count(2)
    save(read_battle, "report_readable")


def test_every_line_of_a_response_has_its_own_direction(read_battle: Page) -> None:
    place = """line => {
      const range = document.createRange();
      range.selectNodeContents(line);
      return [range.getBoundingClientRect().left, line.getBoundingClientRect().left];
    }"""
    response = read_battle.locator(".pair .text").first
    text, box = response.locator(".line", has_text=HEBREW).evaluate(place)
    assert text > box + 50
    text, box = response.locator(".line", has_text="Look").evaluate(place)
    assert text < box + 1


def test_the_winning_response_and_what_was_searched_for_are_marked(read_battle: Page) -> None:
    sides = read_battle.locator(".pair").first.locator("section")
    expect(sides.nth(0).get_by_text("won", exact=True)).to_be_visible()
    expect(sides.nth(1).get_by_text("won", exact=True)).to_have_count(0)
    read_battle.get_by_label("Search", exact=True).fill("ASPIRIN 75")
    hits = read_battle.locator(".pair").first.locator("mark.hit")
    expect(hits).to_have_text(["aspirin", "75", "aspirin", "75"])


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (390, "light")])
def test_axe_finds_nothing_as_it_opens_and_with_everything_unfolded(
    browser: Browser, report: str, width: int, scheme: Any
) -> None:
    viewport: Any = {"width": width, "height": 844}
    opened = open_page(browser, viewport=viewport, color_scheme=scheme, offline=True)
    opened.goto(report)
    assert find_violations(opened) == []
    results(opened).first.locator("summary").click()
    opened.get_by_role("button", name="Unfold everything").click()
    assert find_violations(opened) == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.context.close()


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _long_names(n: int) -> list[str]:
    """Return names of 35 letters in words that no two share."""
    letters = [
        [_LETTERS[(7 * number + step * place) % 26] for place in range(35)]
        for number, step in zip(range(n), itertools.cycle((1, 3, 5, 9, 11)), strict=False)
    ]
    return [
        "-".join(("".join(row[:11]), "".join(row[12:23]), "".join(row[24:]))) for row in letters
    ]


@pytest.mark.parametrize(("width", "height", "most_lines"), [(1280, 800, 2), (390, 844, 4)])
@pytest.mark.parametrize(("n", "most_screens"), [(2, 6), (10, 6), (40, 8)])
def test_the_first_screen_is_short_for_any_number_of_entrants_with_long_names(
    browser: Browser,
    tmp_path: Path,
    n: int,
    most_screens: int,
    width: int,
    height: int,
    most_lines: int,
) -> None:
    names = _long_names(n)
    assert {len(name) for name in names} == {35}
    turned = [names[place:] + names[:place] for place in range(3)]
    dimensions = ("factuality", "calibration", "helpfulness")
    standings = {
        on: {name: 1700.0 - 10 * place for place, name in enumerate(order)}
        for on, order in zip(dimensions, turned, strict=True)
    }
    question = ReportConfig(
        question="Which of these models answers, and which says so if it cannot?"
    )
    page = page_of(standings, named={"report": question}, judge_is_language_model=False)
    for name, text in render_pages(page).items():
        (tmp_path / name).write_text(text)
    opened = open_page(browser, viewport={"width": width, "height": height}, offline=True)
    opened.goto((tmp_path / "report.html").as_uri())
    top = opened.locator(".ladders").evaluate("box => box.getBoundingClientRect().top")
    assert top <= 400 if width == 1280 else top <= height / 2
    assert opened.locator(".headline").evaluate(N_LINES) <= most_lines
    lines = opened.locator("#ladder .name, .headline .name").evaluate_all(
        f"all => all.map({N_LINES})"
    )
    assert len(lines) > n
    assert {*lines} == {1}
    rows = opened.locator(".ladder tbody tr").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    assert len(rows) == 3 * n
    assert max(rows) < 32
    cells = opened.locator(".ladder tbody tr :is(td, th)").evaluate_all(TOO_NARROW)
    assert cells == []
    opened.evaluate("document.querySelectorAll('details').forEach((part) => part.open = false)")
    screens = opened.evaluate("document.documentElement.scrollHeight / innerHeight")
    assert screens <= most_screens
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    save(opened, f"report_{n}_long_names_{width}")
    opened.context.close()


N_LINES = """box => {
  return Math.round(box.offsetHeight / parseFloat(getComputedStyle(box).lineHeight));
}"""
TOO_NARROW = """cells => cells
  .filter((cell) => getComputedStyle(cell).opacity === "1")
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
  .map((cell) => cell.textContent)"""


def test_axe_finds_nothing_on_a_page_of_battles(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "lay_out_battles", partial(lay_out_battles, inline_bytes=100))
    tables = battle_tables(OUTCOMES, dimensions=tuple(DIMENSIONS), prompts=PROMPTS)
    for name, text in render_pages(page_of(DIMENSIONS, battles=tables)).items():
        (tmp_path / name).write_text(text)
    for viewport in (WIDE, NARROW):
        opened = open_page(browser, viewport=viewport, offline=True)
        opened.goto((tmp_path / "report_battles_factuality.html").as_uri())
        assert find_violations_folded_and_unfolded(opened) == []
        opened.context.close()


def test_the_first_screen_holds_the_answer_and_the_top_of_the_ladder(
    browser: Browser, report: str
) -> None:
    opened = open_page(browser, viewport={"width": 1280, "height": 800}, offline=True)
    opened.goto(report)
    bottoms = [
        opened.locator(each).first.evaluate("own => own.getBoundingClientRect().bottom")
        for each in (".alarm", ".headline", ".ladder tbody tr", ".answers li")
    ]
    assert bottoms == sorted(bottoms)
    assert bottoms[-1] < 800
    save(opened, "report_first_screen")
    opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page: Page, scheme: str) -> None:
    page.get_by_role("button", name="Dark colours").click()
    if scheme == "light":
        page.get_by_role("button", name="Dark colours").click()
    every_shade = "document.querySelectorAll('.grid tbody td').forEach"
    page.evaluate(f"{every_shade}((cell, i) => cell.className = `r${{i % 21}}`)")
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    expect(page.locator("mark").first).to_be_visible()
    weak = page.evaluate(CONTRAST)
    assert weak["checked"] > 300
    assert weak["found"] == []


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) =>
    [r, g, b].map((value, i) => value * a + below[i] * (1 - a));
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const own = channels(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  let checked = 0;
  for (const element of document.body.querySelectorAll("*")) {
    const words = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (!words.length || !element.checkVisibility() || element.matches("option, script")) continue;
    checked += 1;
    const paper = behind(element);
    const ink = over(channels(getComputedStyle(element).color), paper);
    const [low, high] = [luminance(ink), luminance(paper)].sort((one, other) => one - other);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`${element.tagName} ${words[0].data.trim().slice(0, 40)} ${ratio}`);
  }
  return { checked, found };
}"""


def test_dark_colours_are_kept_and_colour_the_pictures_too(page: Page) -> None:
    title = page.locator(".drawn text").first
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    expect(title).to_have_css("fill", "rgb(34, 48, 58)")
    save(page, "report_light")
    page.get_by_role("button", name="Dark colours").click()
    expect(title).to_have_css("fill", "rgb(228, 235, 240)")
    page.reload()
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    expect(page.get_by_role("button", name="Dark colours")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(title).to_have_css("fill", "rgb(228, 235, 240)")
    save(page, "report_dark")
    page.emulate_media(media="print")
    expect(title).to_have_css("fill", "rgb(34, 48, 58)")
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator("#battles")).to_be_hidden()
    expect(page.locator("#provenance table")).to_be_visible()
    save(page, "report_print")


def test_what_is_unfolded_stays_in_the_address_and_one_switch_moves_all(page: Page) -> None:
    page.locator("#trust > summary").click()
    page.locator("#numbers > summary").click()
    expect(page).to_have_url(re.compile(r"#trust\+numbers$"))
    page.locator("#numbers label", has_text="calibration").click()
    expect(page.locator("#win-grid input:checked")).to_have_value("calibration")
    expect(page.locator("#win-grid table").nth(1)).to_be_visible()
    expect(page.locator("#win-grid table").nth(0)).to_be_hidden()
    page.reload()
    expect(page.locator("#numbers table").first).to_be_visible()
    page.emulate_media(media="print")
    for nth in (0, 1):
        expect(page.locator("#win-grid table").nth(nth)).to_be_visible()
    expect(page.locator("#cost table")).to_be_hidden()


def test_a_narrow_window_scrolls_down_only(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    results(page).first.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    save(page, "report_narrow")


def test_without_scripts_every_table_is_there(browser: Browser, report: str) -> None:
    opened = open_page(browser, java_script_enabled=False, offline=True)
    opened.goto(report)
    expect(opened.get_by_text("Reading battles here needs scripts.")).to_be_visible()
    for section in ("ladder", "win-grid"):
        expect(opened.locator(f"#{section} table").first).to_be_visible()
    for section in ("verdict", "numbers", "trust", "cost", "provenance"):
        opened.locator(f"#{section} > summary").click()
        expect(opened.locator(f"#{section} table").first).to_be_visible()
    expect(opened.locator("#browser")).to_be_hidden()
    opened.context.close()


def test_a_script_that_is_not_the_page_s_own_does_not_run(browser: Browser, report: str) -> None:
    opened = open_page(browser, offline=True)
    opened.goto(report)
    with opened.expect_console_message(lambda message: "Content Security Policy" in message.text):
        opened.evaluate(
            "const own = document.createElement('script');"
            "own.textContent = 'window.hacked = 1'; document.body.append(own)"
        )
    assert opened.evaluate("window.hacked") is None
    opened.context.close()


def save(page: Page, name: str) -> None:
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
