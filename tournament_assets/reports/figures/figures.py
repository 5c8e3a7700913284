"""Figures of a result in colours that colour-blind readers can distinguish.

matplotlib is imported by the functions that draw, so loading the definitions does not pay for it.
Equal rows give equal bytes.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from tournament_assets.foundation.formatting import ABSENT, Display, format_count, format_share
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.canvas import (
    ACCENT,
    GRID,
    INK,
    PAPER,
    QUIET,
    SAMPLING,
    clear_axes,
    clear_ticks,
    label_axis,
    new_canvas,
    new_figure,
    short_label,
    to_page,
    to_svg,
)
from tournament_assets.reports.figures.forest import draw_forest
from tournament_assets.reports.figures.ladder import (
    axis_span,
    draw_ladder,
    draw_ladders,
)
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class EntrantEconomy:
    """An entrant's cost, speed and length; None where not known.

    Attributes:
        usd: US dollars for 1,000 responses, by their tokens and the price list.
        speed: Tokens per second.
        words: Mean number of words of a response.
        other_model: Which model answered, if not the one that was asked alone, in a sentence.
    """

    entrant_id: Annotated[str, Display("entrant")]
    usd: Annotated[
        float | None, Display("US dollars for 1,000 responses", partial(format_count, decimals=2))
    ] = None
    speed: Annotated[
        float | None, Display("tokens a second", partial(format_count, decimals=1))
    ] = None
    words: float | None = None
    other_model: str | None = None


Measure = Literal["usd", "speed"]
"""A field of `EntrantEconomy`."""

_MEASURES: tuple[tuple[Measure, str], ...] = (
    ("usd", "US dollars for 1,000 responses"),
    ("speed", "tokens written a second"),
)


@dataclass(frozen=True, slots=True)
class PlacedEntrant:
    """A rated entrant whose cost or speed is known.

    Attributes:
        row: Its row of table "leaderboard".
        quality: Its rating in Elo points.
        value: US dollars for 1,000 responses, or tokens a second.
        is_on_front: Whether nobody is at least as good on both, and better on one.
    """

    row: LeaderboardRow
    quality: float
    value: float
    is_on_front: bool


def place_entrants(
    rows: Sequence[LeaderboardRow], economies: Sequence[EntrantEconomy], measure: Measure
) -> list[PlacedEntrant]:
    """Return the entrants' places in quality against cost or speed, best first.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        economies: What is known of the entrants.
        measure: `usd`, of which less is better, or `speed`, of which more is.

    Returns:
        The rated entrants whose cost or speed is known.
    """
    values = {each.entrant_id: getattr(each, measure) for each in economies}
    known = [
        (row, mean, value)
        for row in rows
        if (mean := row.rating) is not None and (value := values.get(row.entrant_id)) is not None
    ]
    sign = -1.0 if measure == "usd" else 1.0
    points = [(mean, sign * value) for _, mean, value in known]
    return [
        PlacedEntrant(
            row,
            mean,
            value,
            is_on_front=not any(
                other != point and other[0] >= point[0] and other[1] >= point[1] for other in points
            ),
        )
        for (row, mean, value), point in zip(known, points, strict=True)
    ]


def known_measures(
    rows: Sequence[LeaderboardRow], economies: Sequence[EntrantEconomy]
) -> tuple[Measure, ...]:
    """Return the measures that are known for at least two rated entrants."""
    return tuple(
        measure for measure, _ in _MEASURES if len(place_entrants(rows, economies, measure)) > 1
    )


def draw_front(
    rows: Sequence[LeaderboardRow],
    economies: Sequence[EntrantEconomy],
    *,
    judge_label: str = "",
    dimension: str = "",
) -> "Figure":
    """Draw quality against cost and against speed, with a panel for each known measure.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        economies: What is known of the entrants.
        judge_label: What kind of judge judged.
        dimension: The quality that was judged, where the picture stands alone.

    Returns:
        A figure: the entrants with their intervals, and the front as steps, for nothing is known
        between two entrants. The better corner is at the top left for cost and at the top right for
        speed.
    """
    measures = known_measures(rows, economies)
    figure = new_canvas(height=max(2.9, 1.3 + 0.26 * len(rows)), width=3.7 * max(len(measures), 2))
    if dimension:
        figure.suptitle(dimension, x=0.02, ha="left", fontsize=11, fontweight="bold", color=INK)
    words = dict(_MEASURES)
    for index, measure in enumerate(measures):
        axes = figure.add_subplot(1, len(measures), index + 1)
        clear_axes(axes)
        _draw_placed(
            axes,
            place_entrants(rows, economies, measure),
            measure,
            inches=figure.get_figheight() - 1.2,
        )
        label_axis(axes, words[measure], judge_label if not index else "")
        if not index:
            axes.set_ylabel("rating, Elo points", color=QUIET, fontsize=9)
    return figure


def _draw_placed(
    axes: "Axes",
    placed: Sequence[PlacedEntrant],
    measure: Measure,
    *,
    inches: float,
) -> None:
    low, high = axis_span(
        end for each in placed for end in (each.quality, each.row.low, each.row.high)
    )
    axes.set_ylim(low, high)
    values = [each.value for each in placed]
    width = max(values) - min(values) or max(values) or 1.0
    # Names are right of the points.
    axes.set_xlim(min(values) - 0.1 * width, max(values) + 1.1 * width)
    clear_ticks(axes, (low, high))
    axes.grid(color=GRID, linewidth=0.7)
    front = sorted((each.value, each.quality) for each in placed if each.is_on_front)
    axes.plot(
        [value for value, _ in front],
        [quality for _, quality in front],
        color=ACCENT,
        linewidth=1.2,
        drawstyle="steps-post" if measure == "usd" else "steps-pre",
        zorder=2,
    )
    ascending = sorted(placed, key=lambda each: (each.quality, each.row.entrant_id))
    gap = (high - low) * 0.2 / inches
    heights = spread(
        [each.quality for each in ascending], gap=gap, ends=(low + gap / 2, high - gap / 2)
    )
    for each, height in zip(ascending, heights, strict=True):
        _draw_point(axes, each, height=height, ends=(low, high))


def _draw_point(
    axes: "Axes",
    placed: PlacedEntrant,
    *,
    height: float,
    ends: tuple[float, float],
) -> None:
    row = placed.row
    bottom = ends[0] if row.low is None else row.low
    top = ends[1] if row.high is None else row.high
    axes.plot([placed.value] * 2, [bottom, top], color=SAMPLING, linewidth=3.5, zorder=1)
    axes.plot(
        placed.value,
        placed.quality,
        "o",
        markersize=7,
        color=ACCENT if placed.is_on_front else PAPER,
        markeredgecolor=ACCENT if placed.is_on_front else QUIET,
        zorder=3,
    )
    left, right = axes.get_xlim()
    beside = placed.value + 0.03 * (right - left)
    # A plain line, because matplotlib cuts the arrow of an annotation where it meets the text,
    # which takes longer than all else of the picture.
    (drawn,) = axes.plot(
        *((placed.value, beside), (placed.quality, height)),
        color=GRID,
        linewidth=1.0,
        zorder=1.5,
        clip_on=False,
        scalex=False,
        scaley=False,
    )
    # The name at its end is laid out; the line itself needs no extra room.
    drawn.set_in_layout(False)
    axes.text(
        *(beside, height, f" {short_label(row.entrant_id)}"),
        va="center",
        parse_math=False,
        zorder=3,
        fontsize=8.5,
        color=INK,
        fontweight="bold" if placed.is_on_front else "normal",
    )


def spread(
    positions: Sequence[float], *, gap: float, ends: tuple[float, float] | None = None
) -> list[float]:
    """Move ascending positions apart until neighbours are `gap` away from each other.

    Args:
        ends: Where the first and the last may be at most, if there is room for all.
    """
    moved: list[float] = []
    for position in positions:
        moved.append(max(position, moved[-1] + gap) if moved else position)
    drift = sum(moved) - sum(positions)
    moved = [position - drift / len(moved) for position in moved]
    if ends is None or not moved:
        return moved
    up, down = max(0.0, ends[0] - moved[0]), max(0.0, moved[-1] - ends[1])
    return [position + up - down for position in moved]


_LOSING, _WINNING = "#c8622a", "#1f78b4"
_CELLS = ((12, (0.95, 0.62)), (24, (0.42, 0.3)), (10_000, (0.22, 0.22)))
"""Cell sizes in inches by number of entrants: room for rate and n, for the rate, for no text."""


@dataclass(frozen=True, slots=True)
class WinRate:
    """How one entrant fares against another.

    Attributes:
        rate: Share of the settled pairs that it won; ties and pairs of one text count half.
        judged: Pairs that the judge was asked about, with two readable replies.
        same_text: Pairs whose two responses are the same text.
    """

    rate: float
    judged: int
    same_text: int

    @property
    def count(self) -> str:
        """The counts behind the rate, in words."""
        same = f", {self.same_text} same text" if self.same_text else ""
        return f"n = {self.judged}{same}"


def draw_win_grid(
    rows: Sequence[WinRateRow], order: Sequence[str], *, judge_label: str = "", dimension: str = ""
) -> "Figure":
    """Draw the win rates of one dimension on white paper.

    Args:
        rows: Rows of table "win_rates" of one dimension.
        order: The entrants, best first.
        judge_label: What kind of judge judged.
        dimension: The quality that was judged, where the picture stands alone.

    Returns:
        A figure; ties and pairs of one text count half, and where nothing is settled is a dash.
    """
    from matplotlib.colors import LinearSegmentedColormap

    rates = win_rate_matrix(rows, order)
    size = len(order)
    level, (width, height) = next(
        (level, cell) for level, (limit, cell) in enumerate(_CELLS) if size <= limit
    )
    figure, axes = new_figure(height=1.3 + height * max(size, 2), width=2.6 + width * max(size, 3))
    if dimension:
        figure.suptitle(dimension, fontsize=11, fontweight="bold", color=INK)
    colours = LinearSegmentedColormap.from_list("win", [_LOSING, "#ffffff", _WINNING])
    values = [[math.nan if cell is None else cell.rate for cell in line] for line in rates]
    if values:
        axes.imshow(values, cmap=colours, vmin=-0.2, vmax=1.2, aspect="auto")
    for i, line in enumerate(rates):
        for j, cell in enumerate(line):
            if cell is None:
                text = ABSENT
            else:
                text = format_share(cell.rate, decimals=0) + (
                    "\n" + cell.count.replace(", ", "\n") if level == 0 else ""
                )
            if i != j and level < 2:
                axes.text(j, i, text, ha="center", va="center", fontsize=8, color="#101820")
    names = [f"{place} {short_label(name)}" for place, name in enumerate(order, start=1)]
    axes.set_yticks(range(size))
    axes.set_yticklabels(names, parse_math=False, fontsize=9 if level < 2 else 7)
    axes.xaxis.tick_top()
    axes.set_xticks(range(size))
    # Numbers: names would run into one another.
    axes.set_xticklabels(map(str, range(1, size + 1)), fontsize=9 if level < 2 else 6)
    label_axis(axes, "share of pairs that the row won, ties and same text half", judge_label)
    axes.set_xticks([edge - 0.5 for edge in range(1, size)], minor=True)
    axes.set_yticks([edge - 0.5 for edge in range(1, size)], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    return figure


def win_rate_matrix(rows: Sequence[WinRateRow], order: Sequence[str]) -> list[list[WinRate | None]]:
    """Return the win rate of each row against each column, with its counts.

    Args:
        rows: Rows of table "win_rates" of one dimension.
        order: The entrants, for rows and columns alike.

    Returns:
        None on the diagonal and where no pair was settled.
    """
    cells: dict[tuple[str, str], WinRate] = {}
    for row in rows:
        if (rate := row.win_rate_a) is not None:
            counts = (row.judged, row.same_text)
            cells[row.entrant_a, row.entrant_b] = WinRate(rate, *counts)
            cells[row.entrant_b, row.entrant_a] = WinRate(1 - rate, *counts)
    return [[cells.get((one, other)) for other in order] for one in order]


def figure_files(
    *,
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    win_rates: Mapping[str, Sequence[WinRateRow]],
    judge_label: str,
    equivalent_within: float,
    economies: Sequence[EntrantEconomy] = (),
) -> dict[str, bytes]:
    """Draw the figures for a paper, as SVG.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
        win_rates: Rows of table "win_rates" by dimension.
        judge_label: What kind of judge judged.
        equivalent_within: The largest difference that does not matter, in Elo points.
        economies: The entrants' cost and speed, where known.

    Returns:
        The files by name: `ladders`, and for every dimension `ladder_`, `forest_` and `win_rates_`
        with its name; `quality_cost_speed_` where there is something to draw.
    """
    drawn: dict[str, partial[Figure]] = {"ladders": partial(draw_ladders, leaderboard)}
    for dimension, rows in leaderboard.items():
        order = [row.entrant_id for row in rows]
        drawn[f"ladder_{dimension}"] = partial(draw_ladder, rows, dimension)
        found = Statements.of(rows, win_rates[dimension], dimension=dimension)
        if found.leader is not None:
            drawn[f"forest_{dimension}"] = partial(
                draw_forest, found, equivalent_within=equivalent_within, judge_label=judge_label
            )
        drawn[f"win_rates_{dimension}"] = partial(
            draw_win_grid, win_rates[dimension], order, judge_label=judge_label, dimension=dimension
        )
        if known_measures(rows, economies):
            drawn[f"quality_cost_speed_{dimension}"] = partial(
                draw_front, rows, economies, judge_label=judge_label, dimension=dimension
            )
    return {f"{name}.svg": to_svg(draw()) for name, draw in drawn.items()}


def figure_markdown(figure: "Figure", alt: str) -> str:
    """Return a figure as self-contained Markdown, with an SVG picture."""
    drawn = base64.b64encode(to_page(figure).encode()).decode("ascii")
    return f"![{escape_markdown(alt)}](data:image/svg+xml;base64,{drawn})"
