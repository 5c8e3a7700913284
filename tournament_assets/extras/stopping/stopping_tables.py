"""Tables of an adaptive run: prompts judged for each two entrants, and savings."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tournament_assets.extras.stopping.decisions import DecisionRow, last_rounds
from tournament_assets.extras.stopping.mode_keys import adaptive_of
from tournament_assets.foundation.formatting import (
    format_confidence,
    format_count_of,
    format_ends,
    format_share,
    join_names,
)
from tournament_assets.reports.claims import mark
from tournament_assets.reports.figures.canvas import (
    ACCENT,
    GRID,
    INK,
    LINES,
    label_axis,
    new_figure,
    short_label,
    to_page,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    Cell,
    ReportSection,
    ReportTable,
    ThemedPicture,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow, by_dimension
from tournament_assets.tournament.places import Frozen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = "stopping/templates/stopping.jinja"
_GOALS = ("bank", "population")
"""The goals of runs that stop."""
_CERTAIN = 99_999
"""Larger capital adds no information; it is infinite once nothing could undo a lead."""


def stopping_section(
    judging_decisions: Sequence[DecisionRow],
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    *,
    mode_config: Frozen,
    prices: Mapping[str, float | None],
) -> ReportSection | None:
    """Return the report section on where judging stopped.

    Args:
        judging_decisions: Rows of the table, all dimensions.
        leaderboard: Rows of the table by dimension, best entrant first.
        mode_config: What the config says about the mode.
        prices: US dollars that judging cost, by dimension; None where no price is known.
    """
    adaptive = adaptive_of(mode_config)
    last = last_rounds(row for row in judging_decisions if row.goal in _GOALS)
    if adaptive is None or not last:
        return None
    decisions = by_dimension(last)
    sentences = render_part(
        _TEMPLATE, "section", last[0].goal, format_confidence(adaptive.confidence)
    )
    for name, rows in decisions.items():
        sentences += render_part(_TEMPLATE, "saved", name, *_savings(rows, prices.get(name)))
    share = sum(row.not_needed for row in last) / max(1, sum(row.pairs for row in last))
    return ReportSection(
        "Where judging stopped",
        tuple(sentences),
        tuple(
            (name, _decisions_table(rows, leaderboard[name])) for name, rows in decisions.items()
        ),
        finding=f"{format_share(share, decimals=0)} of the pairs were not needed",
        pictures=tuple(_picture(name, rows) for name, rows in decisions.items()),
        one_at_a_time=True,
    )


def _savings(rows: Sequence[DecisionRow], paid: float | None) -> tuple[str, str, float | None, int]:
    """Return what stopped, what was not needed, the US dollars saved, and what is still to come."""
    total = sum(row.presentations * (1 - row.free / row.pairs) for row in rows)
    not_needed = sum(row.presentations_not_needed for row in rows)
    waiting = sum(row.presentations_undecided for row in rows)
    judged = total - not_needed - waiting
    return (
        format_count_of(sum(row.not_needed > 0 for row in rows), len(rows)),
        format_count_of(not_needed, round(total)),
        # At the price of what was judged.
        paid * not_needed / judged if paid is not None and judged else None,
        waiting,
    )


def _decisions_table(rows: Sequence[DecisionRow], ladder: Sequence[LeaderboardRow]) -> ReportTable:
    evidence: dict[str, Cell[DecisionRow]] = (
        {"capital, of what decides": _capital}
        if rows[0].goal == "bank"
        else {"confidence sequence of the share": _sequence}
    )
    return ReportTable.of(
        rows,
        {
            "pair": lambda row: f"{row.entrant_a} : {row.entrant_b}",
            "ahead": lambda row: (
                row.side and mark(row.side, (row.entrant_a, row.entrant_b), ladder)
            ),
            "decided after": lambda row: (
                None if row.decided_at is None else f"{row.decided_at} prompts"
            ),
            "judged in order": lambda row: f"{row.looked_at} of {row.prompts}",
            "judged of the rest": lambda row: len(row.tail),
            "not needed": lambda row: row.not_needed,
            "rounds": lambda row: row.round,
            "first's share, in order": lambda row: format_share(row.share, decimals=0),
            **evidence,
        },
    )


def _capital(row: DecisionRow) -> str | None:
    if row.capital is None or row.threshold is None:
        return None
    if row.capital > _CERTAIN:
        return "certain"
    return f"{row.capital:,.3g} of {row.threshold:,.4g}"


def _sequence(row: DecisionRow) -> str:
    return format_ends(row.low, row.high, partial(format_share, decimals=0))


def _picture(dimension: str, rows: Sequence[DecisionRow]) -> ThemedPicture:
    decided = [f"{row.side} after {row.decided_at} prompts" for row in rows if row.side]
    return ThemedPicture(
        dimension,
        f"Evidence by prompt for every two entrants on {dimension}. "
        f"Decided: {join_names(decided) if decided else 'none'}. The table holds the numbers.",
        to_page(draw_evidence(rows), salt=f"evidence {dimension}"),
    )


_MOST_LINES = 45
_EDGE = 1.15


def draw_evidence(rows: Sequence[DecisionRow]) -> "Figure":
    """Draw the evidence of every two entrants of a dimension against the prompts.

    It is a fraction of what a decision needs: a line that reaches the upper edge decides for the
    entrant named first, the lower edge for the other.
    """
    figure, axes = new_figure(height=3.0)
    for edge in (-1, 1):
        axes.axhline(edge, color=ACCENT, linewidth=1.0, linestyle="--")
    axes.axhline(0, color=GRID, linewidth=0.7)
    longest = sorted(rows, key=lambda row: -len(row.path))[:_MOST_LINES]
    for index, row in enumerate(longest):
        colour = LINES[index % len(LINES)]
        heights = [0.0, *(max(-_EDGE, min(_EDGE, evidence)) for evidence in row.path)]
        name = f"{short_label(row.entrant_a)} : {short_label(row.entrant_b)}"
        axes.plot(range(len(heights)), heights, color=colour, linewidth=1.4, label=name)
    if len(longest) <= len(LINES):
        legend = axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, labelcolor=INK
        )
        legend.get_frame().set_alpha(0)
        for text in legend.get_texts():
            text.set_parse_math(False)
    axes.set_xlim(0, max(row.prompts for row in rows))
    axes.set_ylim(-_EDGE - 0.1, _EDGE + 0.1)
    axes.set_yticks([-1, 0, 1], ["second ahead", "open", "first ahead"])
    label_axis(axes, "prompts judged, in the order of their hashes", "")
    return figure
