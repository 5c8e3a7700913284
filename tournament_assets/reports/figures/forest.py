"""The forest: how far everyone is from the first, with joint intervals and the margin."""

from typing import TYPE_CHECKING

from tournament_assets.foundation.formatting import format_claim
from tournament_assets.reports.claims import PairStatement, Statements
from tournament_assets.reports.figures.canvas import (
    BAND,
    GRID,
    INK,
    QUIET,
    SAMPLING,
    label_axis,
    mark_open_ends,
    new_figure,
    short_label,
    write_title,
)
from tournament_assets.reports.figures.ladder import axis_span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def leader_pairs(found: Statements) -> list[PairStatement]:
    """Return what is known of the first and every other entrant, best first."""
    first = found.leader
    if first is None:
        return []
    return [pair for (upper, _), pair in found.pairs.items() if upper == first.entrant_id]


def draw_forest(
    found: Statements,
    *,
    equivalent_within: float,
    judge_label: str = "",
) -> "Figure":
    """Draw the rating of the first less everyone else's.

    An interval that holds 0 leaves the pair undecided; one within the shaded margin makes the two
    equivalent. An interval without an end runs to the edge and ends in an arrow.

    Args:
        found: What is known of a dimension's entrants, two or more of them with a rank.
        equivalent_within: The largest difference that does not matter, in Elo points.
        judge_label: What kind of judge judged.
    """
    pairs = leader_pairs(found)
    gaps = [pair.difference for pair in pairs]
    ends = (end for gap in gaps for end in (gap.value, gap.low, gap.high))
    left, right = axis_span([*ends, -equivalent_within, equivalent_within])
    figure, axes = new_figure(height=1.2 + 0.42 * max(len(pairs), 1))
    axes.set_xlim(left, right)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.axvspan(-equivalent_within, equivalent_within, color=BAND, zorder=0)
    axes.axvline(0, color=QUIET, linewidth=0.9, zorder=1)
    for place, pair in enumerate(pairs):
        _draw_pair(axes, pair, place=place, span=(left, right))
    axes.set_yticks(range(len(pairs)))
    axes.set_yticklabels([short_label(pair.lower) for pair in pairs], parse_math=False)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    first = "" if found.leader is None else found.leader.entrant_id
    write_title(axes, f"{found.dimension}: {short_label(first)} above …")
    label_axis(
        axes,
        f"Elo points, all pairs together; shaded: {format_claim('equivalent', equivalent_within)}",
        judge_label,
    )
    return figure


def _draw_pair(
    axes: "Axes",
    pair: PairStatement,
    *,
    place: int,
    span: tuple[float, float],
) -> None:
    low, high = pair.difference.low, pair.difference.high
    ends = (span[0] if low is None else low, span[1] if high is None else high)
    # A cap would reach over 0 where the interval does not.
    axes.plot(
        *(ends, (place, place)),
        color=SAMPLING,
        linewidth=5,
        solid_capstyle="butt",
        zorder=2,
    )
    mark_open_ends(axes, low, high, span=span, place=place)
    if pair.difference.value is not None:
        axes.plot(pair.difference.value, place, "o", color=INK, markersize=6, zorder=4)
    axes.text(
        1.02,
        place,
        f"{pair.claim}, n = {pair.record.settled}",
        color=INK if pair.claim != "undecided" else QUIET,
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=9,
    )
