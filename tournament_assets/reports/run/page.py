"""The report: one page, as Markdown for terminals and diffs, and as HTML for browsers.

Its first screen gives the facts, the answer in short and the ladder, as tables whose cells hold
bars: names and numbers are ordinary text, it works in light and dark, and the bars shrink with the
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
from tournament_assets.reports.report_tables import Ladder, LadderBar, ReportSection, Standing
from tournament_assets.reports.run.method_sections import total_price
from tournament_assets.reports.run.short_names import short_names
from tournament_assets.reports.sections import (
    BattleLinks,
    Doubt,
    Page,
    Part,
    Remarks,
    tables_read,
)
from tournament_assets.reports.statements import answer, render, state_headline
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
    names = ("title", "question", "facts", "doubts", "label", "headline", "answers", "next_steps")
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
    leaderboard: Leaders,
    audit: Sequence[CoverageRow],
    *,
    statements: Mapping[str, Statements],
    economies: Sequence[EntrantEconomy],
    remarks: Remarks,
    config: TournamentConfig,
    prices: Mapping[str, float | None],
    all_doubts: Sequence[Doubt],
) -> dict[str, Any]:
    """Return who is best, in short and on each dimension, the ladder, and what to do next."""
    boards = [*statements.values()]
    within = config.ratings.equivalent_within
    answers = [answer(board, equivalent_within=within) for board in boards]
    entrants = [*dict.fromkeys(row.entrant_id for rows in leaderboard.values() for row in rows)]
    names = short_names(entrants, config.report.labels)
    is_red = any(doubt.is_red for doubt in all_doubts)
    headline = state_headline([first for first, *_ in answers], names, is_red=is_red)
    return {
        "label": headline.label,
        "headline": headline.sentence,
        "answers": tuple(
            " ".join([render(words), *remarks.get(board.dimension, ())])
            for board, words in zip(boards, answers, strict=True)
        ),
        "next_steps": next_steps(
            *(boards, economies, broken_entrants(audit)),
            confidence=config.ratings.confidence,
            prices=prices,
            n_samples=config.generation.n_samples,
        ),
        "ladder": _ladder(statements, names, headline.heads),
    }


def _ladder(
    statements: Mapping[str, Statements], names: Mapping[str, str], heads: tuple[str, ...]
) -> Ladder:
    """Return the ratings of all dimensions as bars on one scale."""
    span = ladder_span([row for board in statements.values() for row in board.rows])
    bars = [
        {row.entrant_id: _bar(row, span, board.best) for row in board.rows}
        for board in statements.values()
    ]
    return Ladder(
        dimensions=tuple(statements),
        heads=heads,
        lines=tuple(
            (name, tuple(of.get(name, LadderBar("not judged")) for of in bars)) for name in names
        ),
        names=names,
        ticks=ladder_ticks(span),
        remarks=tuple(
            _misdrawn_remark(pairs, name)
            for name, board in statements.items()
            if (pairs := misdrawn(board.rows))
        ),
    )


def _misdrawn_remark(pairs: Sequence[tuple[str, str]], dimension: str) -> str:
    more = f" and {format_plural(len(pairs) - 1, 'more pair')}" if len(pairs) > 1 else ""
    return (
        f"Bars cannot show every claim: of {join_names(pairs[0])}{more} on {dimension}, "
        "go by the win grid."
    )


def _bar(row: LeaderboardRow, span: tuple[float, float], best: Sequence[str]) -> LadderBar:
    standing: Standing = "" if row.rank_best is None else "out" if row.rank_best > 1 else "open"
    standing = "best" if row.entrant_id in best else standing
    if row.rating is None:
        return LadderBar("no rating" if row.n else "no judged pair", "", row.places or "", standing)
    return LadderBar(
        format_rating(row.rating),
        format_interval(row.low, row.high, absent="unbounded"),
        row.places or "",
        standing,
        place=place_on_ladder(Estimate(row.rating, row.bar_low, row.bar_high), span),
        reach=place_on_ladder(Estimate(row.rating, row.low, row.high), span),
    )


READS = tuple(
    dict.fromkeys(
        name
        for read in (_facts, _opening, statements_by_dimension, BattleTables)
        for name in tables_read(read)
    )
)
"""Tables that the page itself reads: those of the first screen and of the battles."""
