"""What the first screen of the report says: the facts, the answers, and the ladder as a picture.

The ladder is a table whose cells hold bars, so that its names and numbers are text like any other,
one picture serves light and dark paper, and a narrow window gets narrower bars.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.figures.ladder import ladder_span
from tournament_assets.reports.formatting import (
    ABSENT,
    format_interval,
    format_plural,
    format_rating,
)
from tournament_assets.reports.leaderboard import by_dimension
from tournament_assets.reports.run.report_contents import ReportContents
from tournament_assets.reports.separation import answer_sentence, rated_mean
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import CoverageRow, LeaderboardRow, WinRateRow

_MOST_TICKS = 4
_EDGE = 6.0
"""Per cent of the axis at either end that hold no tick, whose number would be cut there."""


@dataclass(frozen=True, slots=True)
class LadderBar:
    """An entrant's rating on a dimension; places are per cent of the axis.

    Attributes:
        text: The rating, or why there is none.
        interval: Its sampling interval in Elo points.
        group: The letters it shares with those it is level with.
        mean: Where the rating stands; None if there is none.
        low: Where the interval begins.
        high: Where it ends.
        is_open_below: Whether the judgments set no lower bound.
        is_open_above: Whether they set no upper bound.
    """

    text: str
    interval: str = ""
    group: str = ""
    mean: float | None = None
    low: float = 0.0
    high: float = 100.0
    is_open_below: bool = False
    is_open_above: bool = False


@dataclass(frozen=True, slots=True)
class Ladder:
    """All dimensions on one scale, an entrant in the same line on each.

    Attributes:
        dimensions: The columns.
        bands: The leader's sampling interval on each dimension; None where nobody leads.
        lines: The entrants with their bars, best on the first dimension first.
        ticks: Places and Elo points of the axis.
    """

    dimensions: tuple[str, ...]
    bands: tuple[LadderBar | None, ...]
    lines: tuple[tuple[str, tuple[LadderBar, ...]], ...]
    ticks: tuple[tuple[float, str], ...]


def facts(contents: ReportContents) -> tuple[str, ...]:
    """Return how much was judged, by whom, and what that cost."""
    audit = list(rows_of(CoverageRow, contents.audit))
    prompts = max((row.prompts_selected for row in audit), default=0)
    judged = sum(row.pairs_judged for row in audit) // 2
    price = total_price(contents)
    return (
        format_plural(prompts, "prompt"),
        format_plural(len({row.entrant_id for row in audit}), "entrant"),
        format_plural(judged, "judged pair"),
        f"judge: {contents.judge_model or ABSENT}, {contents.judge_label}",
        *([f"judging cost {price}"] if price else []),
    )


def total_price(contents: ReportContents) -> str:
    """Return what judging cost in all; empty where a price is not known."""
    known = [price for price in contents.prices.values() if price is not None]
    return format_usd(sum(known)) if known and len(known) == len(contents.prices) else ""


def answers(contents: ReportContents) -> list[tuple[str, str]]:
    """Return every dimension with one sentence that says who is best."""
    return [
        (
            dimension,
            answer_sentence(
                rows,
                list(rows_of(WinRateRow, contents.win_rates[dimension])),
                dimension=dimension,
            ),
        )
        for dimension, rows in _rows_by_dimension(contents).items()
    ]


def ladder(contents: ReportContents) -> Ladder:
    """Return the ratings of all dimensions as bars on one scale."""
    by_name = _rows_by_dimension(contents)
    every_row = [row for rows in by_name.values() for row in rows]
    span = ladder_span(every_row)
    places = [{row.entrant_id: row for row in rows} for rows in by_name.values()]
    return Ladder(
        dimensions=tuple(by_name),
        bands=tuple(
            bar if bar is not None and bar.mean is not None else None
            for bar in (_bar(rows[0], span) if rows else None for rows in by_name.values())
        ),
        lines=tuple(
            (name, tuple(_bar(rows.get(name), span) for rows in places))
            for name in dict.fromkeys(row.entrant_id for row in every_row)
        ),
        ticks=_ticks(span),
    )


def _rows_by_dimension(contents: ReportContents) -> dict[str, list[LeaderboardRow]]:
    return by_dimension(list(rows_of(LeaderboardRow, contents.leaderboard)))


def _bar(row: LeaderboardRow | None, span: tuple[float, float]) -> LadderBar:
    if row is None:
        return LadderBar("not judged")
    mean = rated_mean(row)
    if mean is None:
        words = "no Elo rating" if row.n_entrant_matches else "no decisive match"
        return LadderBar(words, group=row.group or "")
    low, high = row.sampling_low, row.sampling_high
    return LadderBar(
        text=format_rating(mean),
        interval=format_interval(low, high, absent="unbounded"),
        group=row.group or "",
        mean=_place(mean, span),
        low=0.0 if low is None else _place(low, span),
        high=100.0 if high is None else _place(high, span),
        is_open_below=low is None,
        is_open_above=high is None,
    )


def _place(points: float, span: tuple[float, float]) -> float:
    return round(100 * (points - span[0]) / (span[1] - span[0]), 2)


def _ticks(span: tuple[float, float]) -> tuple[tuple[float, str], ...]:
    """Return round numbers of points on the axis, a few."""
    rough = (span[1] - span[0]) / _MOST_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough)
    first = math.ceil(span[0] / step)
    found: Sequence[float] = [step * n for n in range(first, first + 2 * _MOST_TICKS)]
    places = [(_place(points, span), f"{points:g}") for points in found]
    return tuple((place, text) for place, text in places if _EDGE <= place <= 100 - _EDGE)
