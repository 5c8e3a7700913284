"""Reads in a real browser what a report says of people: the file alone, from disk."""

from itertools import combinations
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pages import SCREENSHOTS, USES_CHROMIUM, find_violations, open_page
from tests.browser.test_report import DIMENSIONS, OUTCOMES, PROMPTS
from tests.reports.builders import battle_tables, page_of, render_pages
from tournament_assets.extras.people.judge_calibration import (
    CalibratedPair,
    Labelling,
    Vote,
    calibrate_judge,
)
from tournament_assets.extras.people.labelled_pairs import LabelledPair
from tournament_assets.extras.people.prediction_powered import powered_rows, rate_on_every_basis
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import MeasureRow, RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.verdicts import Outcome

pytestmark = USES_CHROMIUM


@pytest.fixture(scope="module")
def labelled_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of pairs that two people labelled, who see one entrant otherwise than the judge."""
    entrants = tuple(DIMENSIONS["factuality"])
    outcomes: dict[Vote, Outcome] = {
        "a": Outcome.A_WINS,
        "b": Outcome.B_WINS,
        "tie": Outcome.TIE,
    }
    judged: tuple[Vote, ...] = ("a", "a", "a", "b", "tie")
    said: tuple[Vote, ...] = ("a", "a", "b", "b", "tie")
    pairs = []
    for number in range(40):
        for place, (first, second) in enumerate(combinations(entrants, 2)):
            verdict = judged[(number + place) % 5]
            labels = (
                Labelling("Ann", said[(2 * number + place) % 5]),
                Labelling("Dr. Bea-Maria Longname", verdict),
            )
            pairs.append(
                CalibratedPair(
                    f"recall-{number}",
                    "recall" if number % 2 else "vignette",
                    first,
                    second,
                    outcomes[verdict],
                    labels if number < 20 else (),
                    chance=0.5,
                )
            )
    shares = {Outcome.A_WINS: 1.0, Outcome.B_WINS: 0.0, Outcome.TIE: 0.5}
    fits = rate_on_every_basis(
        [
            LabelledPair(
                pair.prompt_id,
                pair.entrant_a,
                pair.entrant_b,
                shares[pair.outcome],
                pair.labelled if pair.labels else None,
                0.5,
            )
            for pair in pairs
        ],
        entrants=entrants,
        confidence=0.95,
    )
    powered = powered_rows(fits, dimension="factuality", settings=RatingSettings())
    measured = [*calibrate_judge(pairs, dimension="factuality", entrants=entrants)]
    given = page_of(
        DIMENSIONS,
        tables={
            "people_ratings": make_table(RatingRow, powered),
            "people_measures": make_table(MeasureRow, measured),
        },
        battles=battle_tables(OUTCOMES, dimensions=tuple(DIMENSIONS), prompts=PROMPTS),
    )
    folder = tmp_path_factory.mktemp("labelled")
    for name, page in render_pages(given).items():
        (folder / name).write_text(page)
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_whether_people_would_agree_is_there_for_every_reader_and_window(
    browser: Browser, labelled_report: str, scheme: Any, width: int
) -> None:
    viewport: Any = {"width": width, "height": 844}
    opened = open_page(browser, viewport=viewport, color_scheme=scheme, offline=True)
    opened.goto(labelled_report)
    section = opened.locator("#people")
    opened.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    for heading in (
        *("How far the judge says what people say", "Wins as people would count them"),
        "Where the judge errs",
    ):
        expect(section.get_by_text(heading, exact=True).first).to_be_visible()
    expect(section.get_by_text("The judge is judge-1.")).to_be_visible()
    assert find_violations(opened, "#people") == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.evaluate(STICKS_OUT) == []
    # The three ladders stand beside one another, and no number lies on another one's bar.
    ladders = section.locator("table.ladder")
    expect(ladders).to_have_count(3)
    assert [ladder.evaluate(OVERLAPS) for ladder in ladders.all()] == [[], [], []]
    boxes = [row.bounding_box() for row in ladders.locator("tbody tr").all()]
    assert {box is not None and box["height"] < 32 for box in boxes} == {True}  # one line each
    ladders.first.scroll_into_view_if_needed()
    opened.screenshot(path=SCREENSHOTS / f"report_people_{scheme}_{width}.png")
    opened.context.close()


STICKS_OUT = """() => [...document.querySelectorAll("#people *")]
  .filter((each) => !each.closest("svg") && !each.closest(".unseen"))
  .filter((each) => {
    for (let box = each.parentElement; box; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible") return false;
    return each.getBoundingClientRect().right > innerWidth + 1;
  }).map((each) => each.outerHTML.slice(0, 120))"""
"""What is wider than the window and in nothing that scrolls by itself."""
OVERLAPS = """(table) => {
  const boxes = [...table.querySelectorAll("tbody th, tbody td:not(.axis), tbody td > svg")]
    .map((each) => [each.outerHTML.slice(0, 60), each.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  return boxes.flatMap(([one, a], index) => boxes.slice(index + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
    .map(([other]) => `${one} on ${other}`));
}"""
"""What of a ladder lies on something else of it."""
