"""The report: one page, as Markdown for terminals and diffs, and as HTML for browsers.

Its first screen gives the facts and the answers, with the ladder as a table whose cells hold bars:
names and numbers are ordinary text, it works in light and dark, and the bars shrink with the
window. The sections follow, in the order of their rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlencode

from tournament_assets.audits.missingness import broken_entrants
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_interval,
    format_plural,
    format_rating,
    join_names,
)
from tournament_assets.reports.battle_pages import BattlePages, BattleTables, lay_out_battles
from tournament_assets.reports.claims import Statements, statements_by_dimension
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.figures.ladder import (
    ladder_span,
    ladder_ticks,
    misdrawn,
    place_on_ladder,
)
from tournament_assets.reports.next_steps import next_steps
from tournament_assets.reports.rendering import render_page, render_template
from tournament_assets.reports.report_tables import Ladder, LadderBar, ReportSection
from tournament_assets.reports.run.cards import entrant_cards
from tournament_assets.reports.run.method_sections import total_price
from tournament_assets.reports.sections import BattleLinks, Page, Part, Remarks, tables_read
from tournament_assets.reports.statements import answer, render, render_headline
from tournament_assets.tournament.asset_rows import CoverageRow, LeaderboardRow
from tournament_assets.tournament.config import TournamentConfig

FIRST_SCREEN = "first_screen"
"""What the report's first screen says, as JSON, for the manifest."""
DATE_MARK = "<!-- date -->"
"""Placeholder for the day of the run, which must not affect the page's version."""
_PARTS: Mapping[Part, str] = {
    "careful": "Why to be careful",
    "wins": "Who wins",
    "judge": "Judge",
    "method": "Method",
}
"""The page's parts with their titles, in order; the battles stand before the last."""

Leaders = Mapping[str, Sequence[LeaderboardRow]]


def iterate_pages(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the report's files with their names, with only one in memory at a time.

    First `report.html`, which opens without any other file and any network, then `report.md`, one
    page of what it finds, and `FIRST_SCREEN`, the first screen for programs. Where
    battles would make the first too large (see `battle_pages`), it links to
    `report_battles_<dimension>.html` beside it, each of which holds its own battles.
    """
    battles = None if page.battles is None else lay_out_battles(page.battles)
    values = _values(replace(page, links=_battle_links(battles)))
    yield "report.html", render_page("report.html.jinja", "report", **values, battles=battles)
    yield "report.md", render_template("report.md.jinja", **values, battles=battles)
    yield FIRST_SCREEN, _first_screen_json(values)
    if battles is not None:
        for siblings in battles.pages.values():
            for sibling in siblings:
                yield (
                    sibling.name,
                    render_page(
                        "battles.html.jinja", "report", **values, page=sibling, siblings=siblings
                    ),
                )


def _first_screen_json(values: Mapping[str, Any]) -> str:
    names = ("title", "question", "facts", "doubts", "headline", "answers", "next_steps")
    screen = {name: values[name] for name in names}
    doubts = [asdict(doubt) for doubt in screen["doubts"]]
    return json.dumps({**screen, "doubts": doubts}, ensure_ascii=False)


def _battle_links(battles: BattlePages | None) -> BattleLinks:
    """Return the function that makes addresses of the battle browser with filters."""

    def links(dimension: str, prompts: Sequence[str] = (), **filters: str) -> list[tuple[str, str]]:
        named = {"prompt": " ".join(prompts)} if prompts else {}
        query = urlencode({"dimension": dimension, **filters, **named})
        pages = [] if battles is None else battles.pages_of(dimension, prompts)
        return [(page.title, f"{page.name}#battles?{query}") for page in pages]

    return links


def _values(page: Page) -> dict[str, Any]:
    doubts = page.all_doubts
    parts: dict[Part, dict[str, ReportSection]] = {name: {} for name in _PARTS}
    if doubts:
        parts["careful"]["doubts"] = ReportSection(
            "The warnings in full",
            tuple(doubt.sentence for doubt in doubts),
            finding="; ".join(doubt.short for doubt in doubts),
        )
    for row in page.sections:
        section = page.ask(row.make)
        if section is not None:
            parts[row.part][row.name] = section.without_empty_tables
    return {
        "title": f"{page.config.title}, {page.mode}",
        "question": page.config.report.question,
        "description": page.config.description,
        "judge": f"{page.judge_label}; model: {page.judge_model}",
        "doubts": doubts,
        "date": DATE_MARK,
        "facts": page.ask(_facts),
        **page.ask(_opening),
        "command": page.command,
        "ladder": page.ask(_ladder),
        "parts": [(f"part-{name}", _PARTS[name], own) for name, own in parts.items() if own],
        "confidence": format_confidence(page.confidence),
    }


def _facts(
    audit: Sequence[CoverageRow],
    *,
    config: TournamentConfig,
    judge_label: str,
    judge_model: str,
    prices: Mapping[str, float | None],
) -> tuple[str, ...]:
    """Return the first screen's facts: how much was judged, by whom, and the cost."""
    n_samples = config.generation.n_samples
    # The audit counts answers, of which each prompt should have several from an entrant.
    prompts = max((row.prompts_selected for row in audit), default=0) // n_samples
    judged = sum(row.pairs_judged for row in audit) // 2
    price = total_price(prices)
    return (
        format_plural(prompts, "prompt"),
        *([f"each answered {n_samples} times"] if n_samples > 1 else []),
        format_plural(len({row.entrant_id for row in audit}), "entrant"),
        format_plural(judged, "judged pair"),
        f"judge: {judge_model or ABSENT}, {judge_label}",
        *([f"judging cost {price}"] if price else []),
    )


def _opening(
    audit: Sequence[CoverageRow],
    *,
    statements: Mapping[str, Statements],
    economies: Sequence[EntrantEconomy],
    remarks: Remarks,
    config: TournamentConfig,
    prices: Mapping[str, float | None],
) -> dict[str, Any]:
    """Return who is best, on all dimensions and on each, what to do next, and the cards."""
    boards = [*statements.values()]
    within = config.ratings.equivalent_within
    answers = [answer(board, equivalent_within=within) for board in boards]
    broken = broken_entrants(audit)
    return {
        "headline": render_headline([first for first, *_ in answers]) if len(boards) > 1 else "",
        "answers": tuple(
            " ".join([render(words), *remarks.get(board.dimension, ())])
            for board, words in zip(boards, answers, strict=True)
        ),
        "next_steps": next_steps(
            *(boards, economies, broken),
            confidence=config.ratings.confidence,
            prices=prices,
            n_samples=config.generation.n_samples,
        ),
        "cards": entrant_cards(boards, economies, broken=broken),
    }


def _ladder(leaderboard: Leaders) -> Ladder:
    """Return the ratings of all dimensions as bars on one scale."""
    every_row = [row for rows in leaderboard.values() for row in rows]
    span = ladder_span(every_row)
    places = [{row.entrant_id: row for row in rows} for rows in leaderboard.values()]
    is_long = any(len(rows) > _MOST_LETTERED for rows in leaderboard.values())
    return Ladder(
        dimensions=tuple(leaderboard),
        bands=tuple(
            bar.place if bar.place.value is not None else None
            for bar in (_bar(rows[0] if rows else None, span) for rows in leaderboard.values())
        ),
        lines=tuple(
            (name, tuple(_bar(rows.get(name), span, by_place=is_long) for rows in places))
            for name in dict.fromkeys(row.entrant_id for row in every_row)
        ),
        ticks=ladder_ticks(span),
        remarks=tuple(
            _misdrawn_remark(pairs, name, among=len(rows))
            for name, rows in leaderboard.items()
            if (pairs := misdrawn(rows))
        ),
    )


def _misdrawn_remark(pairs: Sequence[tuple[str, str]], dimension: str, *, among: int) -> str:
    what = "letters" if among <= _MOST_LETTERED else "win grid"
    more = f" and {format_plural(len(pairs) - 1, 'more pair')}" if len(pairs) > 1 else ""
    return (
        f"Bars cannot show every claim: of {join_names(pairs[0])}{more} on {dimension}, "
        f"go by the {what}."
    )


_MOST_LETTERED = 8
"""With more entrants places stand in place of letters, which would be half the alphabet."""


def _bar(
    row: LeaderboardRow | None, span: tuple[float, float], *, by_place: bool = False
) -> LadderBar:
    if row is None:
        return LadderBar("not judged")
    group = (row.places if by_place else row.group) or ""
    if row.rating is None:
        return LadderBar("no rating" if row.n else "no judged pair", group=group)
    return LadderBar(
        text=format_rating(row.rating),
        interval=format_interval(row.low, row.high, absent="unbounded"),
        group=group,
        place=place_on_ladder(Estimate(row.rating, row.bar_low, row.bar_high), span),
    )


READS = tuple(
    dict.fromkeys(
        name
        for read in (_facts, _opening, statements_by_dimension, BattleTables)
        for name in tables_read(read)
    )
)
"""Tables that the page itself reads: those of the first screen and of the battles."""
