"""The colours of a win share, from the strongest to none, under the words that stand on them."""

import re
from pathlib import Path

import pytest

from tournament_assets.reports.rendering import render_template

Rgb = tuple[float, ...]
ENHANCED = 7.0
"""The contrast that WCAG's level AAA wants of small text."""


def colour(block: str, name: str) -> Rgb:
    value = re.search(rf"--{name}: ([^;]+);", block)
    assert value is not None, name
    if value[1].startswith("#"):
        return tuple(bytes.fromhex(value[1][1:]))
    return tuple(map(float, value[1].split()))


def luminance(rgb: Rgb) -> float:
    shares = [value / 255 for value in rgb]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(ink: Rgb, ground: Rgb) -> float:
    dark, light = sorted((luminance(ink), luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_black_on_white_is_21() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_win_share_can_be_read_on_its_colour(scheme: str) -> None:
    style = render_template("report.css")
    blocks = re.findall(r"{([^{}]*--won:[^{}]*)}", style)
    (block,) = {block for block in blocks if f"color-scheme: {scheme};" in block}
    steps = re.findall(r"\.r\d+ \{ background: rgb\(var\(--(won|lost)\) / ([\d.]+)\); \}", style)
    assert len(steps) == 21
    ink, paper = colour(block, "ink"), colour(block, "paper")
    for name, alpha in steps:
        part = float(alpha)
        tint = colour(block, name)
        ground = tuple(
            part * over + (1 - part) * under for over, under in zip(tint, paper, strict=True)
        )
        assert contrast(ink, ground) >= ENHANCED, (name, alpha)


@pytest.mark.parametrize(
    "beside",
    [
        "docs/theme/site.css",
        "tournament_assets/extras/site/templates/site.css",
        "tournament_assets/reports/templates/report.css",
    ],
)
def test_every_variable_of_a_style_is_defined(beside: str) -> None:
    style = render_template("report.css") + (Path(__file__).parents[2] / beside).read_text()
    used = {*re.findall(r"var\((--[a-z-]+)", style)}
    assert len(used) > 10
    # A line of a response sets how far it is indented.
    assert used - {*re.findall(r"(--[a-z0-9-]+):", style)} == {"--indent"}
