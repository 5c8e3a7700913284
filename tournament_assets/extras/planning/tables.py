"""The plan of a tournament as text, tables and pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tournament_assets.extras.planning.power import JudgingNoise
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import Display, format_count, format_share, format_usd
from tournament_assets.reports.figures.canvas import (
    GRID,
    INK,
    LINES,
    QUIET,
    label_axis,
    new_figure,
    to_png,
    to_svg,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    select_columns,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = "planning/templates/plan.jinja"


@dataclass(frozen=True, slots=True)
class PlannedChoice:
    """What it takes to separate two entrants in one way of judging.

    Attributes:
        elo: How far apart the two are, in Elo points of Bradley-Terry with ties as half wins.
        prompts: Prompts that it takes; None if ties allow no such difference.
        formula_prompts: The same by the formula; None where there is none.
        judged: Share of the pairs on those prompts that are judged.
        usd: What that costs; None if nobody knows.
        batches: The least number of batches.
    """

    way: Annotated[str, Display("way")]
    elo: Annotated[float, Display("Elo apart", "{:g}".format)]
    prompts: Annotated[int | None, Display("prompts", format_count)]
    formula_prompts: int | None
    judged: float
    requests: int | None
    usd: Annotated[float | None, Display("US dollars", format_usd)]
    batches: Annotated[int | None, Display("batches", format_count)]

    @property
    def judged_share(
        self,
    ) -> Annotated[float | None, Display("judged", partial(format_share, decimals=0))]:
        """The share that is judged; None if ties allow no such difference."""
        return None if self.prompts is None else self.judged


@dataclass(frozen=True, slots=True)
class DimensionPlan:
    """What a dimension would take.

    Attributes:
        power: The probability with which two entrants are to be separated.
        confidence: Probability that all statements about the dimension are true at once.
        n_prompts: Prompts that the mode has.
        smallest_gap: How far apart two entrants must be to be separated by those, in Elo points.
        margin: The largest difference that does not matter, in Elo points.
        equals: What it takes to show that two equals are equivalent within it.
        choices: What each way takes, the gaps in turn.
        curve: Of judging everything: gap in Elo points, prompts, requests and dollars, for a
            picture.
    """

    dimension: str
    noise: JudgingNoise
    power: float
    confidence: float
    n_prompts: int
    smallest_gap: float | None
    margin: float
    equals: PlannedChoice
    choices: tuple[PlannedChoice, ...]
    curve: tuple[tuple[float, int, int, float | None], ...]


def plan_document(plans: Sequence[DimensionPlan], next_steps: Sequence[str] = ()) -> Document:
    """Return for every dimension what it takes to separate two entrants, way by way.

    Args:
        next_steps: What a pilot's report says to do next, a sentence each.
    """
    note = render_part(_TEMPLATE, "note")
    sections = [
        ReportSection(
            "",
            (" ".join(render_part(_TEMPLATE, "noise", plan)),),
            ((f"{plan.dimension}: to separate two entrants", plan_table(plan)),),
        )
        for plan in plans
    ]
    if next_steps:
        sections.append(ReportSection("What next, by the pilot", tuple(next_steps)))
    return Document("", [*sections, ReportSection("", tuple(note), is_note=True)])


def plan_table(plan: DimensionPlan) -> ReportTable:
    """Return a row for each gap and way."""
    names = ("elo", "way", "prompts", "judged_share", "usd", "batches")
    return ReportTable.of(plan.choices, select_columns(PlannedChoice, *names))


def draw_plan(plan: DimensionPlan) -> "Figure":
    """Draw what it costs against the smallest gap one could see, on logarithmic axes.

    Requests stand in place of dollars where judging is free or prices are not known.
    """
    figure, axes = new_figure(height=4.2)
    in_usd = all(usd for *_, usd in plan.curve)

    def height(requests: int | None, usd: float | None) -> float:
        return float((usd if in_usd else requests) or math.nan)

    ways = dict.fromkeys(choice.way for choice in plan.choices)
    widths = [gap for gap, *_ in plan.curve]
    heights = [height(requests, usd) for _, _, requests, usd in plan.curve]
    axes.plot(widths, heights, color=LINES[0], linewidth=2)
    for colour, way, marker in zip(LINES, ways, "osD", strict=False):
        marked = [each for each in plan.choices if each.way == way and each.prompts is not None]
        axes.plot(
            [each.elo for each in marked],
            [height(each.requests, each.usd) for each in marked],
            marker,
            color=colour,
            label=way,
        )
    if plan.smallest_gap is not None:
        axes.axvline(
            plan.smallest_gap,
            color=QUIET,
            linestyle=(0, (4, 4)),
            linewidth=1,
            label=f"the mode's {plan.n_prompts:,} prompts",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    gaps = sorted({choice.elo for choice in plan.choices} | {5.0, 100.0})
    axes.set_xticks(gaps, [f"{gap:g}" for gap in gaps], minor=False)
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_major_formatter("${x:,g}" if in_usd else "{x:,.0f}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_title(
        f"{plan.dimension}: what it takes to see a gap",
        loc="left",
        fontsize=11,
        color=INK,
        parse_math=False,
    )
    power = format_share(plan.power, decimals=0)
    label_axis(axes, f"smallest gap that is separated with probability {power}, Elo points", "")
    axes.set_ylabel("US dollars" if in_usd else "requests to the judge", color=QUIET, fontsize=8)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    return figure


def plan_files(plans: Sequence[DimensionPlan], path: Path) -> dict[Path, bytes]:
    """Return the pictures as files; of several dimensions, each name has its dimension in it.

    Raises:
        InputError: If the name ends in neither .png nor .svg.
    """
    encode = {".png": to_png, ".svg": to_svg}.get(path.suffix.lower())
    if encode is None:
        raise InputError(f"the picture is named {path.name!r}; expected a name in .png or .svg")
    return {
        path if len(plans) == 1 else path.with_stem(f"{path.stem}_{plan.dimension}"): encode(
            draw_plan(plan)
        )
        for plan in plans
    }
