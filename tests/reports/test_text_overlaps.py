"""No text of a figure overlaps another or is cut off, for 2 to 40 entrants with long names."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy, draw_front, draw_win_grid
from tournament_assets.reports.figures.forest import draw_forest
from tournament_assets.reports.figures.ladder import draw_ladder, draw_ladders
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

from .builders import LOOPBACK, leader_row, pair_row

_TOUCH = 0.5
"""Pixels by which the boxes of two texts may overlap; letters do not fill their boxes."""


def board(n: int, seed: int = 0) -> tuple[list[LeaderboardRow], list[WinRateRow]]:
    generator = np.random.default_rng(seed)
    ratings = np.sort(generator.normal(1400, 80, n))[::-1].tolist()
    names = [f"m{index}" if index % 3 else f"entrant_{index}_with_robustness" for index in range(n)]
    rows = [
        leader_row(
            name,
            rating,
            dimension="clinical_utility",
            rank=rank,
            interval=(rating - 40, rating + 40),
            bar=(rating - 25, rating + 25),
            places=(1, n),
            group="a b c d",
        )
        for rank, (name, rating) in enumerate(zip(names, ratings, strict=True), start=1)
    ]
    pairs = [
        pair_row(
            *(a, b),
            wins_a=int(generator.integers(80)),
            wins_b=40,
            ties=1,
            inconsistent=1,
            same_text=13,
            dimension="clinical_utility",
            claim="undecided",
            difference=(10.0, -50.0, 90.0),
        )
        for a, b in combinations(names, 2)
    ]
    return rows, pairs


def draw(figure: str, n: int) -> Any:
    rows, pairs = board(n)
    economies = [
        EntrantEconomy(row.entrant_id, usd=1.0 + place % 5, speed=10.0 + 7 * (place % 7))
        for place, row in enumerate(rows)
    ]
    order = [row.entrant_id for row in rows]
    found = Statements.of(rows, pairs, dimension="clinical_utility")
    return {
        "ladder": lambda: draw_ladder(rows, "clinical_utility"),
        "ladders": lambda: draw_ladders(
            {name: board(n, seed)[0] for seed, name in enumerate(("factuality", "tone", "use"))}
        ),
        "forest": lambda: draw_forest(found, equivalent_within=20.0, judge_label=LOOPBACK),
        "grid": lambda: draw_win_grid(pairs, order, judge_label=LOOPBACK, dimension="use"),
        "front": lambda: draw_front(rows, economies, judge_label=LOOPBACK, dimension="use"),
    }[figure]()


def boxes_of(figure: Any) -> tuple[list[tuple[str, Any]], tuple[int, int]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()
    ]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts], (
        canvas.get_width_height()
    )


def overlapping(boxes: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [
        (one, other)
        for (one, first), (other, second) in combinations(boxes, 2)
        if min(first.x1, second.x1) - max(first.x0, second.x0) > _TOUCH
        and min(first.y1, second.y1) - max(first.y0, second.y0) > _TOUCH
    ]


@pytest.mark.parametrize("n", [2, 4, 10, 24, 40])
@pytest.mark.parametrize("figure", ["ladder", "ladders", "forest", "grid", "front"])
def test_no_text_overlaps_another_or_is_cut_off(figure: str, n: int) -> None:
    boxes, (width, height) = boxes_of(draw(figure, n))

    assert len(boxes) > n
    assert overlapping(boxes) == []
    outside = [
        text
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    assert outside == []


def test_the_checker_sees_a_text_over_another() -> None:
    figure = draw("forest", 4)
    figure.axes[0].text(0, 0, "here")
    figure.axes[0].text(0, 0, "and here")

    assert ("here", "and here") in overlapping(boxes_of(figure)[0])
