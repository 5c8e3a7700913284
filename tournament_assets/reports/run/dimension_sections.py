"""What the report says of every dimension: who wins against whom, and every number behind it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.figures.canvas import DARK, LIGHT, DrawsInPalette, to_pngs
from tournament_assets.reports.figures.figures import (
    Measure,
    draw_front,
    known_measures,
    place_entrants,
    png_data_uri,
    win_rate_matrix,
)
from tournament_assets.reports.human_battle_tables import people_section, people_sentences
from tournament_assets.reports.leaderboard import (
    by_dimension,
    leaderboard_cells,
    with_strengths,
)
from tournament_assets.reports.rating_method_tables import (
    NO_DISAGREEMENT,
    NOTHING_TO_COMPARE,
    comparison_notes,
    disagreement_sentences,
    scale_sentence,
    side_by_side_cells,
)
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import HtmlCell, Picture, ReportSection, ReportTable
from tournament_assets.reports.run.report_contents import ReportContents
from tournament_assets.reports.separation import (
    MOST_PAIRS,
    UnseparatedPair,
    rated_mean,
    separation,
    unseparated_pairs,
    unseparated_sentence,
    verdict_sentence,
)
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    RatingRow,
    WinRateRow,
)
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_count_of,
    format_gap,
    format_rating,
    format_share,
    join_names,
)

Rows = Sequence[EloRow]

BattleLink = Callable[..., str]
"""Makes the address of the battles of a dimension and further filters, or nothing."""

_PALETTES = {"light": LIGHT, "dark": DARK}


@dataclass(frozen=True, slots=True)
class _Dimension:
    """Rows of the tables of one dimension."""

    name: str
    leaders: Rows
    models: Sequence[RatingRow]
    pairs: Sequence[WinRateRow]

    @property
    def order(self) -> tuple[str, ...]:
        """The entrants, best first."""
        return tuple(row.entrant_id for row in self.leaders)


def dimension_sections(
    contents: ReportContents, link: BattleLink, *, has_pictures: bool
) -> dict[str, ReportSection]:
    """Return what the report says of the dimensions, by the name of the section.

    Args:
        contents: What the report is made from.
        link: Makes the addresses of battles.
        has_pictures: Whether to draw pictures, which Markdown does not show.
    """
    dimensions = [
        _Dimension(
            name,
            rows,
            list(rows_of(RatingRow, contents.ratings[name])),
            list(rows_of(WinRateRow, contents.win_rates[name])),
        )
        for name, rows in by_dimension(list(rows_of(EloRow, contents.leaderboard))).items()
    ]
    confidence = format_confidence(contents.confidence)
    return {
        "win-grid": _wins(dimensions, link),
        **_people(contents, dimensions, link),
        "verdict": _verdicts(contents, dimensions),
        "numbers": _numbers(dimensions, confidence),
        "unseparated": _unseparated(dimensions, link),
        **_economy(contents, dimensions, has_pictures=has_pictures),
        "models": _models(dimensions, confidence),
    }


_WIDEST_GRID = 6
"""Entrants whose names fit above the columns of the win grid; more have numbers there."""


def _wins(dimensions: Sequence[_Dimension], link: BattleLink) -> ReportSection:
    is_numbered = any(len(each.order) > _WIDEST_GRID for each in dimensions)
    return ReportSection(
        "Win grid",
        (
            "The share of pairs that the entrant of the row won against the entrant of the column; "
            "ties, inconsistent pairs and pairs of one text count half. n: pairs that the judge "
            "was asked about and gave two readable replies. A dash: none was settled."
            + (" Columns have the numbers of the rows." if is_numbered else ""),
        ),
        tuple((each.name, _win_grid(each, link)) for each in dimensions),
        is_open=True,
        one_at_a_time=True,
    )


def _win_grid(dimension: _Dimension, link: BattleLink) -> ReportTable:
    rows, html = [], {}
    rates = win_rate_matrix(dimension.pairs, dimension.order)
    is_numbered = len(dimension.order) > _WIDEST_GRID
    for row, (name, line) in enumerate(zip(dimension.order, rates, strict=True)):
        texts = [f"{row + 1} {name}" if is_numbered else name]
        for column, (other, cell) in enumerate(zip(dimension.order, line, strict=True), start=1):
            if cell is None:
                texts.append("" if name == other else ABSENT)
                continue
            text = format_share(cell.rate, decimals=0)
            texts.append(f"{text} ({cell.count})")
            html[row, column] = HtmlCell(
                text,
                small=cell.count.replace("n = ", "n\u00a0=\u00a0"),
                href=link(dimension.name, entrant=name, versus=other),
                label=f"{name} against {other} on {dimension.name}: {text}, {cell.count}. "
                "Read the battles.",
                css=f"r{round(20 * cell.rate)}",  # blue for winning, orange for losing
            )
        rows.append(tuple(texts))
    columns = (
        tuple(str(number + 1) for number in range(len(rows))) if is_numbered else dimension.order
    )
    headers = ("row beats column", *columns)
    return ReportTable(headers, tuple(rows), look="grid", html=html)


def _people(
    contents: ReportContents, dimensions: Sequence[_Dimension], link: BattleLink
) -> dict[str, ReportSection]:
    if not contents.calibration:
        return {}
    leaders = {each.name: each.leaders for each in dimensions}
    return {
        "people": people_section(
            contents.powered,
            contents.calibration,
            leaders,
            judge=contents.judge_sentence,
            link=link,
            confidence=contents.confidence,
        )
    }


def _verdicts(contents: ReportContents, dimensions: Sequence[_Dimension]) -> ReportSection:
    return ReportSection(
        "Verdict in full",
        tuple(" ".join(filter(None, _verdict(contents, dimension))) for dimension in dimensions),
        (("The dimensions at a glance", _overview_table(contents, dimensions)),),
        finding="how clear each lead is, on how many pairs, and what would settle it",
    )


def _verdict(contents: ReportContents, dimension: _Dimension) -> tuple[str | None, ...]:
    rows, found = dimension.leaders, separation(dimension.leaders)
    price = _price(contents, dimension.name)
    people = people_sentences(contents.powered, contents.calibration, {dimension.name: rows})
    return (
        verdict_sentence(
            rows, dimension.pairs, dimension=dimension.name, confidence=contents.confidence
        ),
        *people.get(dimension.name, ()),
        f"Judging it cost {price}." if price else None,
        None
        if found.leader is None or found.runner_up is None
        else scale_sentence(dimension.models, upper=found.leader, lower=found.runner_up),
    )


def _numbers(dimensions: Sequence[_Dimension], confidence: str) -> ReportSection:
    return ReportSection(
        "Ladder in numbers",
        (
            f"Two intervals, {confidence} each: the order interval is order noise, the sampling "
            "interval is sampling error. Compare entrants by the sampling interval. A dash stands "
            "where there is no number.",
            *(
                f"On {each.name}, {row.entrant_id}: {row.note}."
                for each in dimensions
                for row in each.leaders
                if row.note
            ),
        ),
        tuple(
            (each.name, with_strengths(leaderboard_cells(each.leaders), each.leaders))
            for each in dimensions
        ),
        finding="ratings, both intervals, places, decisive matches and win rates",
        one_at_a_time=True,
    )


def _unseparated(dimensions: Sequence[_Dimension], link: BattleLink) -> ReportSection:
    pairs = {each.name: unseparated_pairs(each.leaders, each.pairs) for each in dimensions}
    counts = [f"{len(found)} pairs on {name}" for name, found in pairs.items() if found]
    sentences = [
        f"{each.name}: "
        + unseparated_sentence(
            len(pairs[each.name]), sum(bool(row.n_entrant_matches) for row in each.leaders)
        )
        for each in dimensions
    ]
    return ReportSection(
        "Differences that are not significant",
        (
            "The interval of the difference of two entrants holds 0: these judgments do not decide "
            "between them. Only more prompts can.",
            *sentences,
        ),
        tuple(
            (name, _unseparated_table(name, found[:MOST_PAIRS], link))
            for name, found in pairs.items()
            if found
        ),
        finding=join_names(counts) or "every two entrants differ significantly",
        one_at_a_time=True,
    )


_UNSEPARATED_COUNTS = ("wins", "losses", "ties", "inconsistent", "same_text", "settled")


def _unseparated_table(
    dimension: str, pairs: Sequence[UnseparatedPair], link: BattleLink
) -> ReportTable:
    html: Mapping[tuple[int, int], HtmlCell] = {
        (row, 8): HtmlCell(
            f"read all {pair.record.settled}" if href else str(pair.record.settled),
            href=href,
            label=f"Read the battles of {pair.upper} and {pair.lower} on {dimension}",
        )
        for row, pair in enumerate(pairs)
        for href in (link(dimension, entrant=pair.upper, versus=pair.lower),)
    }
    return ReportTable(
        headers=(
            *("upper", "lower", "gap, Elo points", "won", "lost", "tied", "inconsistent"),
            *("same text", "battles"),
        ),
        rows=tuple(
            (
                *(pair.upper, pair.lower),
                ABSENT if pair.gap is None else f"{pair.gap:.1f}",
                *(str(getattr(pair.record, name)) for name in _UNSEPARATED_COUNTS),
            )
            for pair in pairs
        ),
        n_labels=2,
        html=html,
    )


def _economy(
    contents: ReportContents, dimensions: Sequence[_Dimension], *, has_pictures: bool
) -> dict[str, ReportSection]:
    known = {each.name: known_measures(each.leaders, contents.economies) for each in dimensions}
    if not any(known.values()):
        return {}
    said = {
        each.name: _front_sentence(contents, each, known[each.name])
        for each in dimensions
        if known[each.name]
    }
    section = ReportSection(
        "Quality against cost and speed",
        (*render_sentences("economy_note.jinja"), *said.values()),
        (("Cost and speed of the entrants", _economy_table(contents, dimensions)),),
        finding="who is better, and who is cheaper or faster",
        pictures=tuple(
            Picture(
                each.name,
                f"Mean rating against cost and speed on {each.name}. {said[each.name]} "
                "The table holds the numbers.",
                _in_all_palettes(
                    partial(
                        draw_front,
                        each.leaders,
                        contents.economies,
                        judge_label=contents.judge_label,
                    )
                ),
            )
            for each in dimensions
            if has_pictures and each.name in said
        ),
    )
    return {"economy": section}


def _in_all_palettes(draw: DrawsInPalette) -> dict[str, str]:
    return {theme: png_data_uri(png) for theme, png in to_pngs(draw, _PALETTES).items()}


_FRONTS: Mapping[Measure, str] = {"usd": "cost", "speed": "speed"}


def _front_sentence(
    contents: ReportContents, dimension: _Dimension, measures: Sequence[Measure]
) -> str:
    fronts = "; ".join(
        f"of quality and {_FRONTS[measure]}: {join_names(_front(contents, dimension, measure))}"
        for measure in measures
    )
    return f"On {dimension.name}, the front {fronts}."


def _front(contents: ReportContents, dimension: _Dimension, measure: Measure) -> list[str]:
    placed = place_entrants(dimension.leaders, contents.economies, measure)
    return [each.row.entrant_id for each in placed if each.is_on_front]


def _economy_table(contents: ReportContents, dimensions: Sequence[_Dimension]) -> ReportTable:
    means = [{row.entrant_id: rated_mean(row) for row in each.leaders} for each in dimensions]
    return ReportTable(
        headers=(
            *("entrant", "US dollars for 1,000 responses", "tokens a second"),
            *(f"Elo points, {each.name}" for each in dimensions),
        ),
        rows=tuple(
            (
                each.entrant_id,
                ABSENT if each.usd is None else f"{each.usd:,.2f}",
                ABSENT if each.speed is None else f"{each.speed:,.1f}",
                *(format_rating(mean.get(each.entrant_id)) for mean in means),
            )
            for each in contents.economies
        ),
    )


def _models(dimensions: Sequence[_Dimension], confidence: str) -> ReportSection:
    said = {each.name: disagreement_sentences(each.models) for each in dimensions}
    disputed = [
        name for name, found in said.items() if not {NO_DISAGREEMENT, NOTHING_TO_COMPARE} & {*found}
    ]
    return ReportSection(
        "Models side by side",
        (
            *render_sentences("models_note.jinja", confidence=confidence),
            *(
                f"{each.name}: {' '.join([*said[each.name], *comparison_notes(each.models)])}"
                for each in dimensions
            ),
        ),
        tuple((each.name, side_by_side_cells(each.models, each.order)) for each in dimensions),
        finding=f"they disagree on the order on {join_names(disputed)}"
        if disputed
        else "no two models disagree on the order",
        one_at_a_time=True,
    )


def _overview_table(contents: ReportContents, dimensions: Sequence[_Dimension]) -> ReportTable:
    return ReportTable(
        headers=(
            "dimension",
            "first",
            "gap to the next",
            "significant leads",
            "decisive pairs of those judged",
            "inconsistent",
            "same text of all",
            "judging cost",
        ),
        rows=tuple(_overview_row(contents, each) for each in dimensions),
        n_labels=2,
    )


def _overview_row(contents: ReportContents, dimension: _Dimension) -> tuple[str, ...]:
    found, pairs = separation(dimension.leaders), dimension.pairs
    judged = sum(row.judged for row in pairs)
    decisive = sum(row.wins_a + row.wins_b for row in pairs)
    inconsistent = sum(row.inconsistent for row in pairs)
    cost = _price(contents, dimension.name) or ABSENT
    same = sum(row.same_text for row in pairs)
    counts = (
        format_count_of(decisive, judged),
        format_count_of(inconsistent, judged),
        format_count_of(same, same + judged + sum(row.unjudged for row in pairs)),
        cost,
    )
    if found.leader is None or found.runner_up is None:
        return (dimension.name, found.leader or ABSENT, ABSENT, ABSENT, *counts)
    return (
        dimension.name,
        found.leader,
        ABSENT
        if found.lead is None
        else format_gap(found.lead).removesuffix(" Elo points").removesuffix(" Elo point"),
        f"{len(found.separated)} of {len(found.separated) + len(found.not_separated)}",
        *counts,
    )


def _price(contents: ReportContents, dimension: str) -> str:
    if dimension not in contents.prices:
        return ""
    price = contents.prices[dimension]
    return "an unknown amount" if price is None else format_usd(price)
