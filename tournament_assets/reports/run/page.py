"""The report: one page, in Markdown for a terminal or a diff, in HTML for a browser.

Its first screen says the facts and the answers, with the ladder as a picture: a table whose cells
hold bars, so that its names and numbers are text like any other, one picture serves light and dark
paper, and a narrow window gets narrower bars.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.battle_pages import BattlePages, lay_out_battles
from tournament_assets.reports.figures.ladder import ladder_place, ladder_span, ladder_ticks
from tournament_assets.reports.human_battle_tables import people_sentences
from tournament_assets.reports.leaderboard import by_dimension
from tournament_assets.reports.rendering import render_page, render_sentences, render_template
from tournament_assets.reports.report_tables import Ladder, LadderBar, ReportSection, ReportTable
from tournament_assets.reports.run.dimension_sections import BattleLink, dimension_sections
from tournament_assets.reports.run.report_contents import DATE_MARK, ReportContents, doubts_of
from tournament_assets.reports.separation import answer_sentence, rated_mean
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import CoverageRow, EloRow, WinRateRow
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_interval,
    format_plural,
    format_rating,
)


def render_markdown(contents: ReportContents) -> str:
    """Return the report as Markdown: tables and sentences, without pictures and battles."""
    return render_template(
        "report.md.jinja", **_values(contents, _battle_link(None), has_pictures=False)
    )


def render_html(contents: ReportContents) -> str:
    """Return the report as one HTML file that opens without any other file and any network."""
    return next(page for _, page in iterate_pages(contents))


def render_pages(contents: ReportContents) -> dict[str, str]:
    """Return the report's HTML files by name, as `iterate_pages` yields them."""
    return dict(iterate_pages(contents))


def iterate_pages(contents: ReportContents) -> Iterator[tuple[str, str]]:
    """Yield the report's HTML files with their names, the report first, one in memory at a time.

    `report.html` is the report. Where its battles would make it too large (see `battle_pages`), it
    links to `report_battles_<dimension>.html` beside it, each of which holds its own battles.
    """
    battles = None if contents.battles is None else lay_out_battles(contents.battles)
    values = _values(contents, _battle_link(battles), has_pictures=True)
    yield "report.html", render_page("report.html.jinja", "report", **values, battles=battles)
    if battles is not None:
        for own in battles.pages.values():
            for page in own:
                yield (
                    page.name,
                    render_page("battles.html.jinja", "report", **values, page=page, siblings=own),
                )


def _battle_link(battles: BattlePages | None) -> BattleLink:
    """Return what makes the address of the browser filtered to a dimension and more."""

    def link(dimension: str, **filters: str) -> str:
        page = None if battles is None else battles.page_of(dimension)
        if page is None:
            return ""
        return f"{page}#battles?{urlencode({'dimension': dimension, **filters})}"

    return link


def _values(contents: ReportContents, link: BattleLink, *, has_pictures: bool) -> dict[str, Any]:
    results = dimension_sections(contents, link, has_pictures=has_pictures)
    first = {"win-grid": results.pop("win-grid")}
    if "people" in results:
        first["people"] = results.pop("people")
    first |= {**contents.sections, **results}
    return {
        "contents": contents,
        "doubts": doubts_of(contents),
        "date": DATE_MARK,
        "facts": _facts(contents),
        "answers": _answers(contents),
        "ladder": _ladder(contents),
        "sections": {**_doubts(contents), **first, **_how(contents)},
        "last_result": list(first)[-1],
        "confidence": format_confidence(contents.confidence),
    }


def _doubts(contents: ReportContents) -> dict[str, ReportSection]:
    doubts = doubts_of(contents)
    if not doubts:
        return {}
    return {
        "doubts": ReportSection(
            "What speaks against these numbers",
            tuple(doubt.sentence for doubt in doubts),
            finding="; ".join(doubt.short for doubt in doubts),
        )
    }


def glossary() -> ReportTable:
    """Return the words that every report uses, with their meanings."""
    rows = (line.split(" | ", 1) for line in render_sentences("glossary.jinja"))
    return ReportTable(
        ("word", "meaning"), tuple((word, meaning) for word, meaning in rows), look="pairs"
    )


def _citation(contents: ReportContents) -> str:
    program = contents.versions.partition(",")[0]
    _, _, config = dict(contents.provenance).get("config", "").rpartition(" ")
    return "".join(
        (
            f"To cite this result: tournament {contents.tournament_id}, {contents.mode}",
            f", judged by {contents.judge_model}" if contents.judge_model else "",
            f"; {program}" if program else "",
            f"; configuration {config[:12]}" if config else "",
            ". The program itself is cited as its CITATION.cff says.",
        )
    )


def _how(contents: ReportContents) -> dict[str, ReportSection]:
    """Return what it cost, how it was done, and what decides the result."""
    price = _total_price(contents)
    total = f"Judging cost {price} in all." if price else ""
    versions = (f"With {contents.versions}.",) if contents.versions else ()
    costs = ReportTable(("what", "amount"), tuple(contents.costs), look="pairs")
    hashes = ReportTable(("what", "value"), tuple(contents.provenance), look="pairs hashes")
    return {
        "cost": ReportSection(
            "Cost",
            (total,) if total else (),
            (("What was spent on what", costs),),
            finding=f"judging cost {price}" if price else "",
        ),
        "intervals": ReportSection(
            "What the intervals mean",
            render_sentences("intervals.jinja", confidence=format_confidence(contents.confidence)),
        ),
        "glossary": ReportSection(
            "Glossary",
            (),
            (("What the words mean", glossary()),),
            finding="what the words of this page mean",
        ),
        "method": ReportSection(
            "Method",
            (
                f"Judge: {contents.judge_label}; model: {contents.judge_model}.",
                *render_sentences("method.jinja"),
            ),
            finding="how pairs are judged and rated",
        ),
        "provenance": ReportSection(
            "Provenance",
            (*versions, _citation(contents), "This report is made again by the command below."),
            (("Everything that decides the result", hashes),),
            finding="every hash, seed and version, how to cite this, and how to make it again",
            command=contents.command,
        ),
    }


def _facts(contents: ReportContents) -> tuple[str, ...]:
    """Return how much was judged, by whom, and what that cost."""
    audit = list(rows_of(CoverageRow, contents.audit))
    # The audit counts answers; an entrant should have given so many to each prompt.
    prompts = max((row.prompts_selected for row in audit), default=0) // contents.n_samples
    judged = sum(row.pairs_judged for row in audit) // 2
    price = _total_price(contents)
    return (
        format_plural(prompts, "prompt"),
        *([f"each answered {contents.n_samples} times"] if contents.n_samples > 1 else []),
        format_plural(len({row.entrant_id for row in audit}), "entrant"),
        format_plural(judged, "judged pair"),
        f"judge: {contents.judge_model or ABSENT}, {contents.judge_label}",
        *([f"judging cost {price}"] if price else []),
    )


def _total_price(contents: ReportContents) -> str:
    """Return what judging cost in all; empty where a price is not known."""
    known = [price for price in contents.prices.values() if price is not None]
    return format_usd(sum(known)) if known and len(known) == len(contents.prices) else ""


def _answers(contents: ReportContents) -> list[tuple[str, str]]:
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


def _ladder(contents: ReportContents) -> Ladder:
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


def _rows_by_dimension(contents: ReportContents) -> dict[str, list[EloRow]]:
    return by_dimension(list(rows_of(EloRow, contents.leaderboard)))


def _bar(row: EloRow | None, span: tuple[float, float]) -> LadderBar:
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
