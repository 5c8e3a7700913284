import io
from collections.abc import Callable
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt
from PIL import Image

from tournament_assets.adapters.tables import table_rows
from tournament_assets.reports.figures import (
    k_sensitivity_figure,
    ladder_figure,
    png_markdown,
    win_rate_matrix_figure,
)
from tournament_assets.reports.k_drawing import spread
from tournament_assets.reports.ladder_drawing import ladder_span
from tournament_assets.reports.win_grid_drawing import win_rate_matrix

from .builders import elo_table, leader_row, pair_row

BAD_MATH = "$\\frac$"
"""matplotlib would refuse it if it took it for mathematics."""

LADDER = [
    leader_row("ada", 1450.0, sampling=(1420.0, 1480.0)),
    leader_row(BAD_MATH, 1400.0, sampling=(None, 1440.0)),
    leader_row("cy", 1390.0, sampling=(None, None), sem=None, order=(None, None)),
    leader_row("idle", 1400.0, sampling=(None, None), matches=0),
]
PAIRS = [
    pair_row(BAD_MATH, "ada", wins_a=1),
    pair_row("ada", "bob", wins_a=6, wins_b=2, ties=2),
    pair_row("ada", "cy", unjudged=4),
    pair_row("bob", "cy", wins_a=1, wins_b=3),
]
ELO = table_rows("elo_ratings", elo_table({"ada": 1450.0, BAD_MATH: 1401.0, "cy": 1400.0}))

FIGURES: dict[str, Callable[[], bytes]] = {
    "ladder": lambda: ladder_figure(LADDER, "factuality"),
    "empty ladder": lambda: ladder_figure([], "factuality"),
    "win grid": lambda: win_rate_matrix_figure(PAIRS, ["ada", "bob", "cy", BAD_MATH]),
    "empty win grid": lambda: win_rate_matrix_figure([], []),
    "k": lambda: k_sensitivity_figure(ELO),
    "empty k": lambda: k_sensitivity_figure([]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_equal_rows_give_equal_bytes_without_a_trace_of_the_software(name: str) -> None:
    png = FIGURES[name]()
    assert png == FIGURES[name]()
    assert Image.open(io.BytesIO(png)).info.keys() <= {"dpi"}
    assert b"matplotlib" not in png.lower()


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
        leader_row(name, 1500.0 - 4 * index, sampling=(1300.0, 1600.0))
        for index, name in enumerate(names)
    ]
    elo = table_rows("elo_ratings", elo_table({n: 1400.0 + i for i, n in enumerate(names)}))
    sizes = [
        len(win_rate_matrix_figure(pairs, names)),
        len(ladder_figure(rows, "factuality")),
        len(k_sensitivity_figure(elo)),
    ]
    assert max(sizes) < 60_000


def test_the_win_grid_is_seen_from_the_row() -> None:
    grid = win_rate_matrix(PAIRS, ["bob", "ada", "cy"])
    assert grid[1][0] == (0.7, 10)
    assert grid[0][1] == pytest.approx((0.3, 10))
    assert grid[1][2] is None
    assert [grid[i][i] for i in range(3)] == [None, None, None]


def test_a_shared_axis_holds_every_bound_and_ignores_the_unrated() -> None:
    rows = [*LADDER, leader_row("odd", 9000.0, sampling=(None, None), matches=0)]
    low, high = ladder_span(rows)
    assert low < 1390.0 < 1480.0 < high < 1600.0


def test_a_picture_says_who_judged() -> None:
    order = ["ada", "bob", "cy"]
    plain = win_rate_matrix_figure(PAIRS, order)
    assert win_rate_matrix_figure(PAIRS, order, judge_label="x") != plain
    assert k_sensitivity_figure(ELO, judge_label="x") != k_sensitivity_figure(ELO)
    other = [row | {"judge": "x"} for row in LADDER]
    assert ladder_figure(other, "factuality") != ladder_figure(LADDER, "factuality")


def test_a_wider_axis_changes_the_picture() -> None:
    assert ladder_figure(LADDER, "f", span=(1000.0, 2000.0)) != ladder_figure(LADDER, "f")


def test_labels_are_moved_apart_and_keep_their_middle() -> None:
    moved = spread([0.0, 0.0, 0.0, 10.0], gap=1.0)
    assert all(b - a >= 1.0 for a, b in pairwise(moved))
    assert sum(moved) == pytest.approx(10.0)
    assert spread([], gap=1.0) == []


def test_a_picture_in_markdown_is_one_image_with_its_alternative_text() -> None:
    (inline,) = (
        token
        for token in MarkdownIt("commonmark").parse(png_markdown(b"\x89PNG", "a ] b"))
        if token.type == "inline"
    )
    (image,) = inline.children or []
    assert (image.type, image.content) == ("image", "a ] b".replace("]", "\\]"))
    assert image.attrs["src"] == "data:image/png;base64,iVBORw=="
