"""What all figures share: light and dark palettes, fonts, and reproducible files.

matplotlib is imported inside the functions, so that loading the definitions stays fast, and without
pyplot, so that no global state affects a figure.
"""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

from tournament_assets.reports.rendering import show_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of a picture; neighbouring colours differ in lightness, too.

    Attributes:
        paper: Behind everything.
        ink: Text and points.
        quiet: Labels of axes.
        grid: Lines behind the data.
        accent: Open ends of intervals.
        sampling: The sampling interval.
        band: The leader's sampling interval, behind the others.
        lines: Colours of successive lines.
    """

    paper: str
    ink: str
    quiet: str
    grid: str
    accent: str
    sampling: str
    band: str
    lines: tuple[str, ...]


# Okabe and Ito's colours without yellow, which is lost on white: https://jfly.uni-koeln.de/color/
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

LIGHT = Palette(
    paper="#ffffff",
    ink="#22303a",
    quiet="#5a6872",
    grid="#dde3e7",
    accent="#0b5c8a",
    sampling="#a8cbe0",
    band="#eef5f9",
    lines=_LINES,
)
DARK = Palette(
    paper="#12181d",
    ink="#e4ebf0",
    quiet="#a3b1bb",
    grid="#2c373f",
    accent="#7cc0e8",
    sampling="#2f5d78",
    band="#1a252d",
    lines=("#56A8E0", *_LINES[1:-2], "#9AD4F2", "#ffffff"),
)

_WIDTH = 7.2
_MAX_LABEL = 32
_MOST_SIGNS = 70
"""Characters in a line below the narrowest figure."""
_HASH_SALT = "tournament_assets"
"""matplotlib names the parts of an SVG by a salted hash, whose default salt is random."""


def new_figure(
    *, height: float, width: float = _WIDTH, palette: Palette = LIGHT
) -> "tuple[Figure, Axes]":
    """Return an empty figure with one pair of axes; sizes in inches."""
    figure = new_canvas(height=height, width=width, palette=palette)
    axes = figure.add_subplot()
    clear_axes(axes, palette=palette)
    return figure, axes


def new_canvas(*, height: float, width: float, palette: Palette = LIGHT) -> "Figure":
    """Return an empty figure without axes; sizes in inches."""
    from matplotlib.figure import Figure

    # Large figures get a lower resolution, since every run's event log stores them.
    dpi = 130 if height < 7 else 90
    return Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor=palette.paper)


def clear_axes(axes: "Axes", *, palette: Palette) -> None:
    """Remove the parts of the axes that the data does not need."""
    axes.set_facecolor(palette.paper)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelsize=9, colors=palette.ink)


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


def label_axis(axes: "Axes", text: str, judge_label: str, *, palette: Palette = LIGHT) -> None:
    """Label the axis with what it measures and the kind of judge."""
    lines = [text, *judge_lines(judge_label)]
    axes.set_xlabel("\n".join(lines), color=palette.quiet, fontsize=8, parse_math=False)


def judge_lines(judge_label: str) -> list[str]:
    """Return the judge's name in lines that fit every figure; none if it is not given."""
    return wrap(f"judge: {judge_label}", _MOST_SIGNS) if judge_label else []


def write_title(axes: "Axes", text: str, *, palette: Palette) -> None:
    """Write what a panel shows above its left edge, literally."""
    axes.set_title(
        text, loc="left", fontsize=11, fontweight="bold", color=palette.ink, parse_math=False
    )


def mark_open_ends(
    axes: "Axes",
    low: float | None,
    high: float | None,
    *,
    span: tuple[float, float],
    place: int,
    palette: Palette,
) -> None:
    """Draw an arrow at the edge of the axis for each end that an interval does not have."""
    for bound, edge, marker in ((low, span[0], "<"), (high, span[1], ">")):
        if bound is None:
            axes.plot(
                edge, place, marker, color=palette.accent, markersize=7, clip_on=False, zorder=5
            )


def short_label(name: str) -> str:
    """Return a name that fits beside an axis."""
    name = show_controls(name)
    half = _MAX_LABEL // 2
    return name if len(name) <= _MAX_LABEL else f"{name[: half - 1]}…{name[-half:]}"


class DrawsInPalette(Protocol):
    """Draws a figure in a given palette."""

    def __call__(self, *, palette: Palette) -> "Figure":
        """Return the picture."""


def to_pngs(draw: DrawsInPalette, palettes: Mapping[str, Palette]) -> dict[str, bytes]:
    """Return one picture in several palettes as PNG files.

    It is laid out once, which takes as long as drawing; colours do not affect the layout.
    """
    first: Figure | None = None
    files: dict[str, bytes] = {}
    for theme, palette in palettes.items():
        figure = draw(palette=palette)
        if first is not None:
            figure.set_layout_engine("none")
            for own, laid_out in zip(figure.axes, first.axes, strict=True):
                own.set_position(laid_out.get_position())
        files[theme] = to_png(figure)
        first = first or figure
    return files


def to_png(figure: "Figure") -> bytes:
    """Return the figure as a PNG file without metadata."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image  # comes with matplotlib, which writes its own PNG with it

    # `savefig` draws twice, the first time only for a layout that drawing repeats.
    canvas: Any = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # A name in letters that the font lacks is drawn as boxes; tables and pages have it.
        warnings.filterwarnings("ignore", "Glyph")
        canvas.draw()
    picture = Image.frombytes("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba()))
    packed = io.BytesIO()
    # A palette makes the file a quarter of the size, for these pictures have few colours. Nothing
    # but pixels is taken over, so that equal pictures are equal bytes whatever drew them.
    # The smallest file would take six times as long to pack, and be a twentieth smaller.
    picture.convert("RGB").quantize(64).save(packed, format="PNG", compress_level=7)
    return packed.getvalue()


def to_svg(figure: "Figure") -> bytes:
    """Return the figure as an SVG file; its text can be selected, in whatever font there is."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    drawn = io.BytesIO()
    # `savefig` draws twice, as above.
    with matplotlib.rc_context({"svg.hashsalt": _HASH_SALT, "svg.fonttype": "none"}):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def to_pdf(figure: "Figure") -> bytes:
    """Return the figure as a PDF file without a date, for LaTeX."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="pdf", metadata={"CreationDate": None, "Creator": None})
    return drawn.getvalue()
