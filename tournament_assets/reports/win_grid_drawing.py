"""The win grid: how often the entrant of each row beats the entrant of each column."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.canvas import LIGHT, label_axis, new_figure, short_label
from tournament_assets.reports.formatting import ABSENT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
"""A row of table "win_rates"."""

_LOSING, _WINNING = "#c8622a", "#1f78b4"
_CELLS = ((12, (0.85, 0.5)), (24, (0.42, 0.3)), (10_000, (0.2, 0.2)))
"""Up to how many entrants a cell has which size, in inches: room for rate and n, for the rate
alone, for no text."""


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
        """What the rate is from, in words."""
        same = f", {self.same_text} same text" if self.same_text else ""
        return f"n = {self.judged}{same}"


def draw_win_grid(
    rows: Sequence[Row], order: Sequence[str], *, judge_label: str = "", dimension: str = ""
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
        figure.suptitle(dimension, fontsize=11, fontweight="bold", color=LIGHT.ink)
    colours = LinearSegmentedColormap.from_list("win", [_LOSING, "#ffffff", _WINNING])
    values = [[math.nan if cell is None else cell.rate for cell in line] for line in rates]
    if values:
        axes.imshow(values, cmap=colours, vmin=-0.2, vmax=1.2, aspect="auto")
    for i, line in enumerate(rates):
        for j, cell in enumerate(line):
            if cell is None:
                text = ABSENT
            else:
                text = f"{100 * cell.rate:.0f} %" + (f"\n{cell.count}" if level == 0 else "")
            if i != j and level < 2:
                axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color="#101820")
    names = [short_label(name) for name in order]
    axes.set_yticks(range(size))
    axes.set_yticklabels(names, parse_math=False)
    axes.xaxis.tick_top()
    axes.set_xticks(range(size))
    axes.set_xticklabels(names, parse_math=False, rotation=30, ha="left", rotation_mode="anchor")
    label_axis(axes, "share of pairs that the row won, ties and same text half", judge_label)
    axes.set_xticks([edge - 0.5 for edge in range(1, size)], minor=True)
    axes.set_yticks([edge - 0.5 for edge in range(1, size)], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    return figure


def win_rate_matrix(rows: Sequence[Row], order: Sequence[str]) -> list[list[WinRate | None]]:
    """Return the win rate of each row against each column, with the pairs it is from.

    Args:
        rows: Rows of table "win_rates" of one dimension.
        order: The entrants, for rows and columns alike.

    Returns:
        None on the diagonal and where no pair was settled.
    """
    cells: dict[tuple[str, str], WinRate] = {}
    for row in rows:
        if (rate := row["win_rate_a"]) is not None:
            counts = (row["judged"], row["same_text"])
            cells[row["entrant_a"], row["entrant_b"]] = WinRate(rate, *counts)
            cells[row["entrant_b"], row["entrant_a"]] = WinRate(1 - rate, *counts)
    return [[cells.get((one, other)) for other in order] for one in order]
