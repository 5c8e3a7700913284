"""Pictures of a result as PNG and SVG, in colours that colour-blind readers can tell apart.

matplotlib is imported by the functions that draw, so loading the definitions does not pay for it.
Equal rows give equal bytes.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.canvas import LIGHT, Palette, to_png, to_svg
from tournament_assets.reports.k_drawing import draw_k_sensitivity
from tournament_assets.reports.ladder_drawing import draw_ladder, draw_ladders
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.reports.win_grid_drawing import draw_win_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


def ladder_figure(
    rows: Sequence[Row], dimension: str, *, span: tuple[float, float] | None = None
) -> bytes:
    """Return `draw_ladder` as a PNG picture."""
    return to_png(draw_ladder(rows, dimension, span=span))


def ladders_figure(
    rows_by_dimension: Mapping[str, Sequence[Row]], *, palette: Palette = LIGHT
) -> bytes:
    """Return `draw_ladders` as a PNG picture."""
    return to_png(draw_ladders(rows_by_dimension, palette=palette))


def win_rate_matrix_figure(
    rows: Sequence[Row], order: Sequence[str], *, judge_label: str = ""
) -> bytes:
    """Return `draw_win_grid` as a PNG picture."""
    return to_png(draw_win_grid(rows, order, judge_label=judge_label))


def k_sensitivity_figure(
    rows: Sequence[Row], *, judge_label: str = "", palette: Palette = LIGHT
) -> bytes:
    """Return `draw_k_sensitivity` as a PNG picture."""
    return to_png(draw_k_sensitivity(rows, judge_label=judge_label, palette=palette))


def figure_files(
    *,
    leaderboard: Mapping[str, Sequence[Row]],
    elo_ratings: Mapping[str, Sequence[Row]],
    win_rates: Mapping[str, Sequence[Row]],
    judge_label: str,
) -> dict[str, bytes]:
    """Draw the pictures of a paper, each as PNG and as SVG.

    Args:
        leaderboard: Rows of table "leaderboard" by dimension, best entrant first.
        elo_ratings: Rows of table "elo_ratings" by dimension.
        win_rates: Rows of table "win_rates" by dimension.
        judge_label: What kind of judge judged.

    Returns:
        The files by name: `ladders`, and for every dimension `ladder_`, `win_rates_` and
        `k_sensitivity_` with its name.
    """
    drawn: dict[str, Figure] = {"ladders": draw_ladders(leaderboard)}
    for dimension, rows in leaderboard.items():
        order = [row["entrant_id"] for row in rows]
        drawn[f"ladder_{dimension}"] = draw_ladder(rows, dimension)
        drawn[f"win_rates_{dimension}"] = draw_win_grid(
            win_rates[dimension], order, judge_label=judge_label, dimension=dimension
        )
        drawn[f"k_sensitivity_{dimension}"] = draw_k_sensitivity(
            elo_ratings[dimension], judge_label=judge_label, dimension=dimension
        )
    return {
        f"{name}.{kind}": encode(figure)
        for name, figure in drawn.items()
        for kind, encode in (("png", to_png), ("svg", to_svg))
    }


def png_markdown(png: bytes, alt: str) -> str:
    """Return a picture as Markdown that needs no file beside it."""
    return f"![{escape_markdown(alt)}]({png_data_uri(png)})"


def png_data_uri(png: bytes) -> str:
    """Return a picture as an address that holds the picture itself."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
