"""The report: one page, in Markdown for a terminal or a diff, in HTML for a browser."""

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from tournament_assets.reports.battle_pages import BattlePages, lay_out_battles
from tournament_assets.reports.figures.canvas import DARK, LIGHT
from tournament_assets.reports.figures.figures import (
    k_sensitivity_figure,
    png_data_uri,
)
from tournament_assets.reports.formatting import format_confidence
from tournament_assets.reports.leaderboard import by_dimension
from tournament_assets.reports.rendering import render_template
from tournament_assets.reports.report_tables import ReportTable
from tournament_assets.reports.run import first_screen
from tournament_assets.reports.run.dimension_sections import dimension_sections, overview_table
from tournament_assets.reports.run.report_contents import (
    DATE_MARK,
    ReportContents,
    coverage_table,
    doubts_of,
)
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import CoverageRow, EloRow, LeaderboardRow

_PALETTES = {"light": LIGHT, "dark": DARK}


def render_markdown(contents: ReportContents) -> str:
    """Return the report as Markdown: tables and sentences, without pictures and battles."""
    return render_template("report.md.jinja", **_values(contents))


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
    values = _values(contents)
    yield (
        "report.html",
        _render(
            "report.html.jinja",
            **values,
            **_pictures(contents),
            battles=battles,
            battle_link=_battle_link(battles),
        ),
    )
    if battles is not None:
        for own in battles.pages.values():
            for page in own:
                yield (
                    page.name,
                    _render("battles.html.jinja", **values, page=page, siblings=own),
                )


def _render(template: str, **values: Any) -> str:
    style = render_template("report.css")
    script = render_template("report.js")
    return render_template(
        template,
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        **values,
    )


def _source_hash(text: str) -> str:
    """Return the name by which a Content-Security-Policy allows exactly this text."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _battle_link(battles: BattlePages | None) -> Callable[..., str]:
    """Return what makes the address of the browser filtered to a dimension and more."""

    def link(dimension: str, **filters: str) -> str:
        page = None if battles is None else battles.page_of(dimension)
        if page is None:
            return ""
        return f"{page}#battles?{urlencode({'dimension': dimension, **filters})}"

    return link


def _pictures(contents: ReportContents) -> dict[str, Any]:
    """Draw each picture for light and for dark paper."""
    ladders = by_dimension(list(rows_of(LeaderboardRow, contents.leaderboard)))
    return {
        "ladder": first_screen.ladder(contents),
        "sweep_images": {
            dimension: {
                name: png_data_uri(
                    k_sensitivity_figure(
                        list(rows_of(EloRow, contents.elo_ratings[dimension])),
                        judge_label=contents.judge_label,
                        palette=palette,
                    )
                )
                for name, palette in _PALETTES.items()
            }
            for dimension in ladders
        },
    }


def _values(contents: ReportContents) -> dict[str, Any]:
    audit: dict[str, list[CoverageRow]] = {}
    for row in rows_of(CoverageRow, contents.audit):
        audit.setdefault(row.dimension, []).append(row)
    return {
        "contents": contents,
        "doubts": doubts_of(contents),
        "date": DATE_MARK,
        "facts": first_screen.facts(contents),
        "answers": first_screen.answers(contents),
        "overview": overview_table(contents),
        "sections": dimension_sections(contents),
        "audits": [(dimension, coverage_table(rows)) for dimension, rows in audit.items()],
        "costs": ReportTable(("what", "amount"), tuple(contents.costs), look="pairs"),
        "provenance": ReportTable(
            ("what", "value"), tuple(contents.provenance), look="pairs hashes"
        ),
        "total_price": first_screen.total_price(contents),
        "confidence": format_confidence(contents.confidence),
    }
