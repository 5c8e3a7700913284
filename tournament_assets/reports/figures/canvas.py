"""What all figures share: colours, fonts, and reproducible files.

matplotlib is imported inside the functions, so that loading the definitions stays fast, and without
pyplot, so that no global state affects a figure.
"""

import io
import re
import warnings
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tournament_assets.reports.rendering import show_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAPER = "#ffffff"
"""Behind everything."""
INK = "#22303a"
"""Text and points."""
QUIET = "#5a6872"
"""Labels of axes."""
GRID = "#dde3e7"
"""Lines behind the data."""
ACCENT = "#0b5c8a"
"""Open ends of intervals."""
SAMPLING = "#a8cbe0"
"""The sampling interval."""
BAND = "#eef5f9"
"""The leader's sampling interval, behind the others."""
# Okabe and Ito's colours without yellow, which is lost on white: https://jfly.uni-koeln.de/color/
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of successive lines; neighbours differ in lightness, too."""
_COLOURS = (PAPER, INK, QUIET, GRID, ACCENT, SAMPLING, BAND, *LINES)

_WIDTH = 7.2
_MAX_LABEL = 32
_MOST_SIGNS = 70
"""Characters in a line below the narrowest figure."""
_HASH_SALT = "tournament_assets"
"""matplotlib names the parts of an SVG by a salted hash, whose default salt is random."""


def new_figure(*, height: float, width: float = _WIDTH) -> "tuple[Figure, Axes]":
    """Return an empty figure with one pair of axes; sizes in inches."""
    figure = new_canvas(height=height, width=width)
    axes = figure.add_subplot()
    clear_axes(axes)
    return figure, axes


def new_canvas(*, height: float, width: float) -> "Figure":
    """Return an empty figure without axes; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)


def clear_axes(axes: "Axes") -> None:
    """Remove the parts of the axes that the data does not need."""
    axes.set_facecolor(PAPER)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelsize=9, colors=INK)


def clear_ticks(axes: "Axes", heights: tuple[float, float] | None = None) -> None:
    """Show few ticks, none of them near an end of the axis, where neighbours would meet.

    Args:
        axes: Whose limits are set.
        heights: The ends of the vertical axis, if that has numbers, too.
    """
    from matplotlib.ticker import MaxNLocator

    for ends, axis in ((axes.get_xlim(), axes.xaxis), (heights, axes.yaxis)):
        if ends is not None:
            width = ends[1] - ends[0]
            found = MaxNLocator(nbins=5).tick_values(*ends)
            axis.set_ticks(
                [
                    float(tick)
                    for tick in found
                    if ends[0] + _EDGE * width <= tick <= ends[1] - _EDGE * width
                ]
            )


_EDGE = 0.07
"""Share of an axis at either end without ticks."""


def label_axis(axes: "Axes", text: str, judge_label: str) -> None:
    """Label the axis with what it measures and the kind of judge."""
    lines = [text, *judge_lines(judge_label)]
    axes.set_xlabel("\n".join(lines), color=QUIET, fontsize=8, parse_math=False)


def judge_lines(judge_label: str) -> list[str]:
    """Return the judge's name in lines that fit every figure; none if it is not given."""
    return wrap(f"judge: {judge_label}", _MOST_SIGNS) if judge_label else []


def write_title(axes: "Axes", text: str) -> None:
    """Write what a panel shows above its left edge, literally."""
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=INK, parse_math=False)


def mark_open_ends(
    axes: "Axes",
    low: float | None,
    high: float | None,
    *,
    span: tuple[float, float],
    place: int,
) -> None:
    """Draw an arrow at the edge of the axis for each end that an interval does not have."""
    for bound, edge, marker in ((low, span[0], "<"), (high, span[1], ">")):
        if bound is None:
            axes.plot(edge, place, marker, color=ACCENT, markersize=7, clip_on=False, zorder=5)


def short_label(name: str) -> str:
    """Return a name that fits beside an axis."""
    name = show_controls(name)
    half = _MAX_LABEL // 2
    return name if len(name) <= _MAX_LABEL else f"{name[: half - 1]}…{name[-half:]}"


def to_svg(figure: "Figure", *, salt: str = _HASH_SALT) -> bytes:
    """Return the figure as an SVG file; its text can be selected, in whatever font there is."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    drawn = io.BytesIO()
    # `savefig` draws twice, the first time only for a layout that drawing repeats.
    with (
        matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        # Letters that our font lacks are measured as boxes; the reader's font draws them.
        warnings.filterwarnings("ignore", "Glyph")
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


_UNUSED = re.compile(
    r'<metadata>.*</metadata>|<style.*?</style>|<!--.*?-->|(?<=<g) id="[^"]*"', re.DOTALL
)
_STYLED = re.compile(r'(<[^<>]*) style="([^"]*)"')


def to_page(figure: "Figure", *, salt: str = _HASH_SALT) -> str:
    """Return the figure as a part of a page, in the page's font and colours.

    The colours are those of a light page unless the page's style sheet says otherwise, by variables
    such as `--on-22303a`. Styles are attributes, since a page forbids styles within it. By itself,
    it is a small SVG file.

    Args:
        figure: Drawn in colours of this module.
        salt: Differs from picture to picture of a page, so that the names of their parts do.
    """
    drawn = to_svg(figure, salt=salt).decode()
    plain = _UNUSED.sub("", drawn[drawn.index("<svg") :])
    plain = plain.replace("<svg", '<svg font-family="sans-serif" stroke-linejoin="round"', 1)
    return _STYLED.sub(lambda tag: f"{tag[1]}{_to_attributes(tag[2])}", plain)


def _to_attributes(style: str) -> str:
    values = dict(each.split(": ", 1) for each in style.split("; "))
    values.pop("font-family", None)
    for name, value in values.items():
        if value in _COLOURS:
            values[name] = f"var(--on-{value[1:]}, {value})"
    return "".join(f' {name}="{value}"' for name, value in values.items())


def to_pdf(figure: "Figure") -> bytes:
    """Return the figure as a PDF file without a date, for LaTeX."""
    return _saved(figure, "pdf", CreationDate=None, Creator=None)


def to_png(figure: "Figure") -> bytes:
    """Return the figure as a PNG file."""
    return _saved(figure, "png", Software=None)


def _saved(figure: "Figure", name: str, **metadata: None) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=name, dpi=130, metadata=metadata)
    return drawn.getvalue()
