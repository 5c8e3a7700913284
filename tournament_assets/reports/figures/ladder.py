"""The ladder: every entrant's rating with its comparison bar, on one axis for all dimensions.

The bars are those of `ratings.comparison_bars`: two overlap where neither entrant is better. A thin
line is the interval of a single rating.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import format_interval, format_plural, format_rating
from tournament_assets.reports.claims import judges_of
from tournament_assets.reports.figures.canvas import (
    BAND,
    GRID,
    INK,
    PAPER,
    QUIET,
    SAMPLING,
    clear_axes,
    clear_ticks,
    judge_lines,
    label_axis,
    mark_open_ends,
    new_canvas,
    new_figure,
    short_label,
    write_title,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_TICKS = 4
_EDGE = 6.0
"""Per cent of the axis at either end without ticks, whose numbers would be cut off."""
_PANELS_IN_A_ROW = 3
_PANEL_WIDTH, _LABEL_WIDTH = 2.75, 2.0


def ladder_span(rows: Sequence[LeaderboardRow]) -> tuple[float, float]:
    """Return an axis that holds every rating and bar, to share it between dimensions.

    Intervals stretch it by half of itself on either side at most.
    """
    rated = [row for row in rows if row.rating is not None]
    low, high = axis_span(end for row in rated for end in (row.rating, row.bar_low, row.bar_high))
    ends = [low, high, *(end for row in rated for end in (row.low, row.high) if end is not None)]
    most = (high - low) / 2
    return max(low - most, min(ends)), min(high + most, max(ends))


def misdrawn(rows: Sequence[LeaderboardRow]) -> list[tuple[str, str]]:
    """Return the pairs of a dimension whose bars do not show what is claimed of them.

    No bars can draw every pattern of claims, above all not one that goes in a circle.
    """
    bars = [
        (
            row,
            -math.inf if row.bar_low is None else row.bar_low,
            math.inf if row.bar_high is None else row.bar_high,
        )
        for row in rows
        if row.rating is not None
    ]
    return [
        (one.entrant_id, other.entrant_id)
        for (one, low, high), (other, other_low, other_high) in combinations(bars, 2)
        if (low > other_high, other_low > high)
        != (other.entrant_id in one.shown_above, one.entrant_id in other.shown_above)
    ]


def axis_span(ends: Iterable[float | None]) -> tuple[float, float]:
    """Return an axis of Elo points that holds some ratings and bounds, with a margin."""
    known = [end for end in ends if end is not None]
    low, high = (min(known), max(known)) if known else (1300.0, 1500.0)
    margin = max(0.05 * (high - low), 5.0)
    return low - margin, high + margin


def ladder_place(points: float, span: tuple[float, float]) -> float:
    """Return where a rating stands on an axis, in per cent of its length."""
    return round(100 * (points - span[0]) / (span[1] - span[0]), 2)


def place_on_ladder(rated: Estimate, span: tuple[float, float]) -> Estimate:
    """Return where a rating and the ends of its interval stand, in per cent of the axis.

    An end beyond the axis has no place.
    """
    value, low, high = (
        None if each is None or not span[0] <= each <= span[1] else ladder_place(each, span)
        for each in (rated.value, rated.low, rated.high)
    )
    return Estimate(value, low, high)


def ladder_ticks(
    span: tuple[float, float], *, edge: float = _EDGE
) -> tuple[tuple[float, str], ...]:
    """Return a few round numbers of points on the axis, with their places.

    Args:
        span: Ends of the axis in Elo points.
        edge: Per cent of the axis at either end that hold no number.
    """
    rough = (span[1] - span[0]) / _MOST_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough)
    first = math.ceil(span[0] / step)
    found: Sequence[float] = [step * n for n in range(first, first + 2 * _MOST_TICKS)]
    places = [(ladder_place(points, span), f"{points:g}") for points in found]
    return tuple((place, text) for place, text in places if edge <= place <= 100 - edge)


def draw_ladder(rows: Sequence[LeaderboardRow], dimension: str) -> "Figure":
    """Draw one dimension's entrants, best on top, with the numbers beside them.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.

    Returns:
        A figure. An interval without a bound runs to the edge and ends in an arrow.
    """
    figure, axes = new_figure(height=1.1 + _entrants_height(len(rows)))
    _draw_panel(axes, rows, dimension, span=ladder_span(rows))
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([short_label(row.entrant_id) for row in rows], parse_math=False)
    axes.tick_params(axis="y", pad=10)
    for place, row in enumerate(rows):
        _write_numbers(axes, row, place=place)
    label_axis(axes, "Elo points", judges_of(rows))
    _add_legend(figure, n_misdrawn=len(misdrawn(rows)))
    return figure


def draw_ladders(rows_by_dimension: Mapping[str, Sequence[LeaderboardRow]]) -> "Figure":
    """Draw all dimensions side by side on one scale, an entrant in the same line on each.

    Args:
        rows_by_dimension: Rows of table "leaderboard"; the entrants come in the order of the first
            dimension, best first.
    """
    every_row = [row for rows in rows_by_dimension.values() for row in rows]
    names = list(dict.fromkeys(row.entrant_id for row in every_row))
    n_columns = min(len(rows_by_dimension), _PANELS_IN_A_ROW) or 1
    n_lines = -(-len(rows_by_dimension) // n_columns) or 1
    figure = new_canvas(
        height=0.7 + n_lines * (0.6 + _entrants_height(len(names))),
        width=max(_LABEL_WIDTH + _PANEL_WIDTH * n_columns, 6.4),
    )
    span = ladder_span(every_row)
    for index, (dimension, rows) in enumerate(rows_by_dimension.items()):
        axes = figure.add_subplot(n_lines, n_columns, index + 1)
        clear_axes(axes)
        by_name = {row.entrant_id: row for row in rows}
        _draw_panel(
            axes,
            [by_name.get(name) for name in names],
            dimension,
            span=span,
            leader=rows[0] if rows else None,
        )
        for place, name in enumerate(names):
            _write_mean(axes, by_name.get(name), place=place, span=span)
        is_first = index % n_columns == 0
        axes.set_yticks(range(len(names)))
        axes.set_yticklabels(
            [short_label(name) if is_first else "" for name in names], parse_math=False
        )
        label_axis(axes, "Elo points", "")
    _add_legend(
        figure,
        n_misdrawn=sum(len(misdrawn(rows)) for rows in rows_by_dimension.values()),
        judges=judges_of(every_row),
    )
    return figure


def _draw_panel(
    axes: "Axes",
    rows: Sequence[LeaderboardRow | None],
    dimension: str,
    *,
    span: tuple[float, float],
    leader: LeaderboardRow | None = None,
) -> None:
    left, right = span
    axes.set_xlim(left, right)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    leader = leader or next((row for row in rows if row is not None), None)
    if leader and leader.rating is not None and leader.bar_low is not None:
        axes.axvspan(leader.bar_low, leader.bar_high or right, color=BAND, zorder=0)
    for place, row in enumerate(rows):
        mean = row.rating if row is not None else None
        if row is not None and mean is not None:
            _draw_entrant(axes, row, mean=mean, place=place, span=span)
    write_title(axes, dimension)
    clear_ticks(axes)
    axes.grid(axis="x", color=GRID, linewidth=0.7)


def _draw_entrant(
    axes: "Axes",
    row: LeaderboardRow,
    *,
    mean: float,
    place: int,
    span: tuple[float, float],
) -> None:
    low, high = row.bar_low, row.bar_high
    ends = (span[0] if low is None else low, span[1] if high is None else high)
    axes.barh(place, ends[1] - ends[0], left=ends[0], height=0.3, color=SAMPLING, zorder=2)
    mark_open_ends(axes, low, high, span=span, place=place)
    reach = (span[0] if row.low is None else row.low, span[1] if row.high is None else row.high)
    axes.plot(reach, (place, place), color=INK, linewidth=0.8, zorder=3)
    axes.plot(
        *(mean, place, "o"),
        color=INK,
        markeredgecolor=PAPER,
        markersize=7,
        zorder=4,
    )


def _write_numbers(axes: "Axes", row: LeaderboardRow, *, place: int) -> None:
    if row.rating is not None:
        interval = format_interval(row.low, row.high, absent="unbounded")
        text, colour = f"{format_rating(row.rating)}  ({interval})", INK
    else:
        text, colour = _unrated(row), QUIET
    axes.text(
        *(1.02, place, text),
        color=colour,
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=9,
    )


def _write_mean(
    axes: "Axes",
    row: LeaderboardRow | None,
    *,
    place: int,
    span: tuple[float, float],
) -> None:
    if row is not None and row.rating is not None:
        axes.annotate(
            format_rating(row.rating),
            xy=(row.rating, place - 0.26),
            ha="center",
            va="bottom",
            fontsize=8,
            color=INK,
        )
    else:
        text = _unrated(row) if row is not None else "not judged"
        middle = (span[0] + span[1]) / 2
        axes.text(middle, place, text, ha="center", va="center", fontsize=8, color=QUIET)


def _unrated(row: LeaderboardRow) -> str:
    return str(row.note).partition(":")[0]


def _add_legend(figure: "Figure", *, n_misdrawn: int, judges: str = "") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    but = f", but for {format_plural(n_misdrawn, 'pair')}" if n_misdrawn else ""
    bar = f"comparison bar: overlaps others where neither is better{but}"
    handles = [
        Patch(facecolor=SAMPLING, label=bar),
        Patch(facecolor=BAND, edgecolor=GRID, label="the first one's bar"),
        Line2D([], [], color=INK, linewidth=0.8, label="interval of a rating"),
    ]
    legend = figure.legend(
        handles=handles,
        title="\n".join(judge_lines(judges)) or None,
        title_fontsize=8,
        alignment="left",
        loc="outside lower left",
        ncols=2,
        fontsize=8,
        frameon=False,
        labelcolor=INK,
    )
    legend.get_title().set_color(QUIET)


def _entrants_height(n_entrants: int) -> float:
    return 0.45 + (0.44 if n_entrants < 16 else 0.3) * max(n_entrants, 1)
