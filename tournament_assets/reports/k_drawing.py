"""How every entrant's mean rating moves with the K-factor."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.canvas import (
    LIGHT,
    Palette,
    label_axis,
    new_figure,
    short_label,
)
from tournament_assets.reports.separation import is_rated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
"""A row of table "elo_ratings"."""

_MARKERS = ("o", "s", "^", "D", "v", "P")


def draw_k_sensitivity(
    rows: Sequence[Row], *, judge_label: str = "", palette: Palette = LIGHT, dimension: str = ""
) -> "Figure":
    """Draw every entrant's mean rating against the K-factor.

    Args:
        rows: Rows of table "elo_ratings" of one dimension, all K-factors.
        judge_label: What kind of judge judged.
        palette: The colours.
        dimension: The quality that was judged, where the picture stands alone.

    Returns:
        A figure; an entrant without a rating is left out.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(filter(is_rated, rows), key=lambda row: (row["k_factor"], row["rank"])):
        lines.setdefault(row["entrant_id"], []).append((row["k_factor"], row["mean"]))
    figure, axes = new_figure(height=max(2.9, 1.0 + 0.2 * len(lines)), palette=palette)
    if dimension:
        axes.set_title(dimension, loc="left", fontsize=11, fontweight="bold", color=palette.ink)
    k_factors = sorted({row["k_factor"] for row in rows})
    ends = sorted(lines, key=lambda name: (lines[name][-1][1], name))
    # By name rather than by rank, so that an entrant looks the same on every dimension.
    names = sorted({row["entrant_id"] for row in rows})
    colours = {name: palette.lines[i % len(palette.lines)] for i, name in enumerate(names)}
    markers = {name: _MARKERS[i % len(_MARKERS)] for i, name in enumerate(names)}
    for name, points in lines.items():
        axes.plot(
            [k_factor for k_factor, _ in points],
            [mean for _, mean in points],
            color=colours[name],
            marker=markers[name],
            markersize=5,
            linewidth=1.6,
        )
    axes.margins(x=0.02)
    axes.set_xscale("log", base=2)
    axes.set_xticks(k_factors, [f"{k_factor:g}" for k_factor in k_factors])
    axes.set_xticks([], minor=True)
    label_axis(axes, "K-factor", judge_label, palette=palette)
    axes.set_ylabel("mean rating, Elo points", color=palette.quiet, fontsize=9)
    axes.grid(axis="y", color=palette.grid, linewidth=0.7)
    bottom, top = axes.get_ylim()
    line_height = (top - bottom) * 0.2 / (figure.get_figheight() - 0.8)
    heights = spread([lines[name][-1][1] for name in ends], gap=line_height)
    for name, height in zip(ends, heights, strict=True):
        axes.annotate(
            short_label(name),
            xy=(1.0, lines[name][-1][1]),
            xytext=(1.05, height),
            xycoords=axes.get_yaxis_transform(),
            textcoords=axes.get_yaxis_transform(),
            arrowprops={"arrowstyle": "-", "color": colours[name], "shrinkA": 0, "shrinkB": 0},
            va="center",
            fontsize=9,
            color=palette.ink,
            parse_math=False,
            annotation_clip=False,
        )
    return figure


def spread(positions: Sequence[float], *, gap: float) -> list[float]:
    """Move ascending positions apart until neighbours are `gap` away from each other."""
    moved: list[float] = []
    for position in positions:
        moved.append(max(position, moved[-1] + gap) if moved else position)
    drift = sum(moved) - sum(positions)
    return [position - drift / len(moved) for position in moved]
