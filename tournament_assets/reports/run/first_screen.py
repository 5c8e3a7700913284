"""What the first screen of the report says: the facts, the answers, and the ladder as a picture.

The ladder is a table whose cells hold bars, so that its names and numbers are text like any other,
one picture serves light and dark paper, and a narrow window gets narrower bars.
"""

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.figures.ladder import ladder_place, ladder_span, ladder_ticks
from tournament_assets.reports.human_battle_tables import people_sentences
from tournament_assets.reports.leaderboard import by_dimension
from tournament_assets.reports.report_tables import Ladder, LadderBar
from tournament_assets.reports.run.report_contents import ReportContents
from tournament_assets.reports.separation import answer_sentence, rated_mean
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import CoverageRow, LeaderboardRow, WinRateRow
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_interval,
    format_plural,
    format_rating,
)


def facts(contents: ReportContents) -> tuple[str, ...]:
    """Return how much was judged, by whom, and what that cost."""
    audit = list(rows_of(CoverageRow, contents.audit))
    # The audit counts answers; an entrant should have given so many to each prompt.
    prompts = max((row.prompts_selected for row in audit), default=0) // contents.n_samples
    judged = sum(row.pairs_judged for row in audit) // 2
    price = total_price(contents)
    return (
        format_plural(prompts, "prompt"),
        *([f"each answered {contents.n_samples} times"] if contents.n_samples > 1 else []),
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
    """Return every dimension with who is best, and whether people would agree if any were asked."""
    by_name = _rows_by_dimension(contents)
    people = people_sentences(contents.powered, contents.calibration, by_name)
    return [
        (
            dimension,
            " ".join(
                [
                    answer_sentence(
                        rows,
                        list(rows_of(WinRateRow, contents.win_rates[dimension])),
                        dimension=dimension,
                    ),
                    *people.get(dimension, ()),
                ]
            ),
        )
        for dimension, rows in by_name.items()
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
        ticks=ladder_ticks(span),
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
        mean=ladder_place(mean, span),
        low=0.0 if low is None else ladder_place(low, span),
        high=100.0 if high is None else ladder_place(high, span),
        is_open_below=low is None,
        is_open_above=high is None,
    )
