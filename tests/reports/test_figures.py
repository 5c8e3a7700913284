import base64
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from markdown_it import MarkdownIt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.canvas import (
    ACCENT,
    BAND,
    GRID,
    INK,
    PAPER,
    QUIET,
    SAMPLING,
    short_label,
    to_page,
    to_png,
)
from tournament_assets.reports.figures.figures import (
    EntrantEconomy,
    PlacedEntrant,
    WinRate,
    draw_front,
    draw_win_grid,
    figure_files,
    figure_markdown,
    known_measures,
    place_entrants,
    spread,
    win_rate_matrix,
)
from tournament_assets.reports.figures.forest import draw_forest
from tournament_assets.reports.figures.ladder import (
    draw_ladder,
    draw_ladders,
    ladder_span,
    misdrawn,
    place_on_ladder,
)
from tournament_assets.reports.rendering import render_template
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import LeaderboardRow

from .builders import leader_row, page_of, pair_row, render_html

BAD_MATH = "$\\frac$"
"""matplotlib would refuse it if it took it for mathematics."""

LADDER = [
    leader_row("ada", 1450.0, interval=(1420.0, 1480.0)),
    leader_row(BAD_MATH, 1400.0, interval=(None, 1440.0)),
    leader_row("cy", 1390.0),
    leader_row("idle", None, n=0, note="no match"),
]
PAIRS = [
    pair_row(BAD_MATH, "ada", wins_a=1),
    pair_row("ada", "bob", wins_a=6, wins_b=2, ties=2),
    pair_row("ada", "cy", unjudged=4),
    pair_row("bob", "cy", wins_a=1, wins_b=3),
]

FOREST = Statements.of(
    [
        leader_row("ada", 1450.0, above=["bob"]),
        leader_row("bob", 1400.0, rank=2),
        leader_row(BAD_MATH, None, rank=3, note="lost every match: no lower bound"),
    ],
    [
        pair_row(
            *("ada", "bob"), wins_a=6, wins_b=2, claim="a_better", difference=(50.0, 10.0, None)
        ),
        pair_row(BAD_MATH, "ada", wins_b=4, claim="undecided"),
    ],
    dimension="factuality",
)

ECONOMIES = [EntrantEconomy("ada", 2.0, 9.0), EntrantEconomy(BAD_MATH, 1.0, 4.0)]
FIGURES: dict[str, Callable[[], str]] = {
    "ladder": lambda: to_page(draw_ladder(LADDER, "factuality")),
    "empty ladder": lambda: to_page(draw_ladder([], "factuality")),
    "ladders": lambda: to_page(draw_ladders({"factuality": LADDER, "calibration": LADDER[1:]})),
    "empty ladders": lambda: to_page(draw_ladders({})),
    "win grid": lambda: to_page(draw_win_grid(PAIRS, ["ada", "bob", "cy", BAD_MATH])),
    "empty win grid": lambda: to_page(draw_win_grid([], [])),
    "forest": lambda: to_page(draw_forest(FOREST, equivalent_within=20.0, judge_label="x")),
    "front": lambda: to_page(draw_front(LADDER, ECONOMIES)),
}


@pytest.mark.parametrize("name", FIGURES)
def test_equal_rows_give_equal_bytes_without_a_trace_of_the_software(name: str) -> None:
    drawn = FIGURES[name]()
    assert drawn == FIGURES[name]()
    assert "matplotlib" not in drawn.lower()


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_is_modest_in_size(name: str) -> None:
    assert len(FIGURES[name]()) < 60_000


def test_pictures_of_many_entrants_are_modest_in_size() -> None:
    names = [f"entrant_with_a_long_name_{index:02d}" for index in range(40)]
    pairs = [
        pair_row(one, other, wins_a=index % 9 + 1, wins_b=3)
        for index, one in enumerate(names)
        for other in names[index + 1 :]
    ]
    rows = [
        leader_row(name, 1500.0 - 4 * index, interval=(1300.0, 1600.0))
        for index, name in enumerate(names)
    ]
    sizes = [
        len(to_page(draw_win_grid(pairs, names))),
        len(to_page(draw_ladder(rows, "factuality"))),
    ]
    assert max(sizes) < 60_000


def test_the_win_grid_is_seen_from_the_row() -> None:
    grid = win_rate_matrix(PAIRS, ["bob", "ada", "cy"])
    assert grid[1][0] == WinRate(0.7, 10, 0)
    assert grid[0][1] is not None
    assert grid[0][1].rate == pytest.approx(0.3)
    assert grid[1][2] is None
    assert [grid[i][i] for i in range(3)] == [None, None, None]


def test_a_shared_axis_holds_every_bound_and_ignores_the_unrated() -> None:
    rows = [*LADDER, leader_row("odd", None, bar=(9000.0, 9100.0), n=0)]
    low, high = ladder_span(rows)
    assert low < 1390.0 < 1480.0 < high < 1600.0


def test_a_picture_says_who_judged() -> None:
    order = ["ada", "bob", "cy"]
    for figure in (
        draw_win_grid(PAIRS, order, judge_label="nobody"),
        draw_ladder([replace(row, judge="nobody") for row in LADDER], "factuality"),
    ):
        assert "judge: nobody" in to_page(figure)


def test_labels_are_moved_apart_and_keep_their_middle() -> None:
    moved = spread([0.0, 0.0, 0.0, 10.0], gap=1.0)
    assert all(b - a >= 1.0 for a, b in pairwise(moved))
    assert sum(moved) == pytest.approx(10.0)
    assert spread([], gap=1.0) == []


def test_a_picture_in_markdown_is_one_image_with_its_alternative_text() -> None:
    written = figure_markdown(draw_win_grid([], []), "a ] b")
    reader = MarkdownIt("commonmark")
    reader.validateLink = lambda _: True  # type: ignore[method-assign, assignment]
    (inline,) = (token for token in reader.parse(written) if token.type == "inline")
    (image,) = inline.children or []
    assert (image.type, image.content) == ("image", "a ] b".replace("]", "\\]"))
    scheme, _, packed = str(image.attrs["src"]).partition(",")
    assert scheme == "data:image/svg+xml;base64"
    assert base64.b64decode(packed).decode() == to_page(draw_win_grid([], []))


def _files() -> dict[str, bytes]:
    return figure_files(
        leaderboard={"factuality": LADDER},
        win_rates={"factuality": PAIRS},
        judge_label="judge-1",
        equivalent_within=20.0,
    )


def test_the_pictures_of_a_paper_are_svg_and_the_same_each_time() -> None:
    files = _files()
    names = ("ladders", "ladder_factuality", "forest_factuality", "win_rates_factuality")
    assert set(files) == {f"{name}.svg" for name in names}
    assert files == _files()
    for content in files.values():
        assert content.startswith(b"<?xml")
        assert content.endswith(b"</svg>\n")
        assert b"<text" in content  # which can be selected
        for word in (b"<dc:date>", b"<dc:creator>", b"<script"):
            assert word not in content


def test_drawings_on_a_page_take_its_colours_and_hold_nothing_that_it_forbids() -> None:
    evil = '<b style="fill: red" id="x_1">-->'
    rows = [leader_row(evil, 1450.0, above=["bob"]), leader_row("bob", 1400.0, rank=2)]
    pairs = [pair_row(evil, "bob", wins_a=6, claim="undecided", difference=(50.0, 10.0, None))]
    found = Statements.of(rows, pairs, dimension="factuality")
    forest = to_page(draw_forest(found, equivalent_within=20.0), salt="a")
    assert forest == to_page(draw_forest(found, equivalent_within=20.0), salt="a")
    front = to_page(draw_front(LADDER, ECONOMIES), salt="b")
    roots = [ElementTree.fromstring(drawing) for drawing in (forest, front)]  # noqa: S314 - ours
    parts = [part for root in roots for part in root.iter()]
    assert f"factuality: {short_label(evil)} above …" in {part.text for part in parts}
    values = [value for part in parts for value in part.attrib.values()]
    colours = {colour for value in values for colour in re.findall("#[0-9a-f]{6}", value)}
    assert {PAPER, INK, QUIET, GRID, ACCENT, SAMPLING, BAND} == colours
    assert not {"style", "class"} & {key for part in parts for key in part.attrib}
    names = [part.attrib["id"] for part in parts if "id" in part.attrib]
    assert len(names) == len(set(names))


def test_a_name_stands_at_the_end_of_a_line_from_its_point() -> None:
    figure = draw_front(TRADE, [EntrantEconomy(row.entrant_id, usd=2.0) for row in TRADE])
    (axes,) = figure.axes
    ends = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    for text, row in zip(axes.texts, reversed(TRADE), strict=True):
        mean = row.rating
        assert text.get_text().strip() == row.entrant_id
        assert [[2.0, mean], [*text.get_position()]] in ends


def test_a_ladder_shows_comparison_bars_and_intervals_as_thin_lines() -> None:
    rows = [
        leader_row("ada", 1450.0, interval=(1400.0, 1500.0), bar=(1430.0, 1470.0)),
        leader_row("bob", 1420.0, interval=(1370.0, 1480.0), bar=(1405.0, 1435.0)),
    ]
    for figure in (draw_ladder(rows, "factuality"), draw_ladders({"factuality": rows})):
        (axes,) = figure.axes
        bars = [bar for container in axes.containers for bar in container]
        assert [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars] == [
            pytest.approx((row.bar_low, row.bar_high)) for row in rows
        ]
        lines = [np.asarray(line.get_xdata()).tolist() for line in axes.lines]
        assert [ends for ends in lines if len(ends) == 2] == [[row.low, row.high] for row in rows]
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(labels) == 3
        assert "but" not in labels[0]
    texts = [text.get_text() for text in draw_ladder(rows, "factuality").axes[0].texts]
    assert any("1400\N{EN DASH}1500" in text for text in texts)


def test_what_bars_cannot_show_is_counted() -> None:
    circle = [
        leader_row(name, rating, interval=(1300.0, 1500.0), bar=bar, above=[below])
        for name, rating, bar, below in (
            ("ada", 1450.0, (1440.0, 1460.0), "cy"),
            ("bob", 1420.0, (1410.0, 1445.0), "ada"),
            ("cy", 1400.0, (1390.0, 1405.0), "bob"),
        )
    ]
    # One overlaps somebody better, and one lies apart on the wrong side.
    assert misdrawn(circle) == [("ada", "bob"), ("bob", "cy")]
    # An entrant whose interval has one end has no bar, and is drawn from edge to edge.
    unbounded = replace(circle[0], high=None, bar_low=None, bar_high=None)
    assert misdrawn([unbounded, circle[2]]) == [("ada", "cy")]
    legend = draw_ladder(circle, "factuality").legends[0].get_texts()[0].get_text()
    assert legend.endswith("but for 2 pairs")
    page = page_of(
        {"factuality": {row.entrant_id: row.rating or 0.0 for row in circle}},
        tables={"leaderboard": make_table(LeaderboardRow, circle)},
    )
    said = "Bars cannot show every claim: of ada and bob and 1 more pair on factuality, go by the"
    assert said in render_html(page)


def test_an_interval_stretches_the_axis_of_a_ladder_by_half_of_it_at_most() -> None:
    noisy = leader_row("ada", 1450.0, interval=(900.0, 1470.0), bar=(1440.0, 1460.0))
    span = ladder_span([noisy])
    assert span == pytest.approx((1420.0, 1470.0))
    place = place_on_ladder(Estimate(noisy.rating, noisy.low, noisy.high), span)
    assert place.low is None
    assert [place.value, place.high] == pytest.approx([60.0, 100.0])


def test_dimensions_side_by_side_share_a_scale_and_the_order_of_the_first() -> None:
    second = [leader_row("cy", 1500.0, interval=(1450.0, 1550.0), dimension="calibration")]
    figure = draw_ladders({"factuality": LADDER, "calibration": second})
    first, other = figure.axes
    assert first.get_xlim() == other.get_xlim() == ladder_span([*LADDER, *second])
    labels = [label.get_text() for label in first.get_yticklabels()]
    assert labels == ["ada", BAD_MATH, "cy", "idle"]
    (point,) = (line for line in other.lines if line.get_marker() == "o")
    assert np.asarray(point.get_xydata()).tolist() == [[1500.0, 2.0]]
    assert [text.get_text() for text in other.texts] == [
        *("not judged", "not judged", "1500", "not judged"),
    ]


def test_neighbouring_colours_differ_in_lightness_for_those_who_see_no_hue() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        return float(0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2)

    dark = dict(re.findall("--on-(.{6}): (#.{6});", render_template("report.css")))
    light = {name: f"#{name}" for name in dark}
    for theme in (light, dark):
        layers = [theme[colour[1:]] for colour in (INK, SAMPLING, PAPER)]
        for one, other in pairwise([lightness(colour) for colour in layers]):
            low, high = sorted((one, other))
            assert (high + 0.05) / (low + 0.05) > 1.5


def rated(name: str, mean: float) -> LeaderboardRow:
    return leader_row(name, mean, interval=(mean - 20.0, mean + 20.0))


TRADE = [rated(*each) for each in (("good", 1500), ("fair", 1450), ("dear", 1440), ("poor", 1400))]
AMOUNTS = {"good": 9.0, "fair": 3.0, "dear": 8.0, "poor": 1.0}


def front_of(placed: list[PlacedEntrant]) -> set[str]:
    return {each.row.entrant_id for each in placed if each.is_on_front}


def test_the_front_holds_those_whom_nobody_beats_on_both() -> None:
    costs = [EntrantEconomy(name, usd=amount) for name, amount in AMOUNTS.items()]
    assert front_of(place_entrants(TRADE, costs, "usd")) == {"good", "fair", "poor"}
    speeds = [EntrantEconomy(name, speed=amount) for name, amount in AMOUNTS.items()]
    assert front_of(place_entrants(TRADE, speeds, "speed")) == {"good"}


def test_two_equal_entrants_are_both_on_the_front() -> None:
    rows = [rated("ada", 1450.0), rated("bob", 1450.0)]
    placed = place_entrants(
        rows, [EntrantEconomy("ada", usd=2), EntrantEconomy("bob", usd=2)], "usd"
    )
    assert [each.is_on_front for each in placed] == [True, True]


def test_what_is_not_known_is_no_zero_and_stands_nowhere() -> None:
    some = [
        EntrantEconomy("good", usd=9.0),
        EntrantEconomy("fair", usd=None),
        EntrantEconomy("poor", usd=0.0),
    ]
    assert [each.value for each in place_entrants(TRADE, some, "usd")] == [9.0, 0.0]
    assert known_measures(TRADE, some) == ("usd",)
    assert known_measures(TRADE, some[:2]) == ()
    idle = [rated("ada", 1450.0), leader_row("idle", None, n=0)]
    assert place_entrants(idle, [EntrantEconomy("idle", usd=1.0)], "usd") == []


def test_no_two_names_of_a_front_lie_over_each_other() -> None:
    rows = [rated(f"entrant_{i}", 1450.0 + i) for i in range(8)]
    figure = draw_front(rows, [EntrantEconomy(row.entrant_id, usd=2.0) for row in rows])
    to_png(figure)
    (axes,) = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    names = [Text.get_window_extent(text, renderer) for text in axes.texts]
    boxes = sorted(names, key=lambda box: box.y0)
    assert len(boxes) == 8
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
