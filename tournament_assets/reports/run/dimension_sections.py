"""The report's sections on every dimension: win rates, and every number behind the result."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tournament_assets.audits.fair_comparison import Families
from tournament_assets.ratings.rating_methods import METHODS, compared_methods
from tournament_assets.reports.claims import (
    MOST_PAIRS,
    PairStatement,
    Statements,
    format_difference,
    mark,
    open_pairs,
)
from tournament_assets.reports.fair_tables import (
    fair_columns,
    fair_notes,
    fair_sentences,
    order_words,
    sort_compared,
)
from tournament_assets.reports.figures.canvas import DARK, LIGHT, DrawsInPalette, to_pngs
from tournament_assets.reports.figures.figures import (
    EntrantEconomy,
    Measure,
    draw_front,
    known_measures,
    place_entrants,
    png_data_uri,
    win_rate_matrix,
)
from tournament_assets.reports.figures.forest import draw_forest
from tournament_assets.reports.leaderboard import leaderboard_cells
from tournament_assets.reports.rating_method_tables import (
    comparison_notes,
    disagreement_sentences,
    in_words,
    side_by_side_cells,
)
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import (
    Cell,
    HtmlCell,
    LinkedSentence,
    ReportSection,
    ReportTable,
    ThemedPicture,
)
from tournament_assets.reports.sections import BattleLinks, Remarks, first_address
from tournament_assets.reports.statements import render, render_counts, verdict
from tournament_assets.tournament.asset_rows import (
    LeaderboardRow,
    RatingRow,
    WinRateRow,
)
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_count_of,
    format_plural,
    format_rating,
    format_share,
    format_usd,
    join_names,
)

Rows = Sequence[LeaderboardRow]
Leaders = Mapping[str, Sequence[LeaderboardRow]]
Strengths = Mapping[str, Sequence[RatingRow]]
Pairs = Mapping[str, Sequence[WinRateRow]]
"""Rows by dimension; leaders best first."""

_PALETTES = {"light": LIGHT, "dark": DARK}

_WIDEST_GRID = 6
"""Most entrants whose names fit above the columns of the win grid; more get numbers."""


def wins_section(leaderboard: Leaders, win_rates: Pairs, *, links: BattleLinks) -> ReportSection:
    """Return the section of win rates between entrants."""
    is_numbered = any(len(rows) > _WIDEST_GRID for rows in leaderboard.values())
    return ReportSection(
        "Win grid",
        (
            "The share of pairs that the entrant of the row won against the entrant of the column; "
            "ties, inconsistent pairs and identical pairs count half. n: pairs that were "
            "asked about and settled by readable replies. A dash: none was settled."
            + (" Columns have the numbers of the rows." if is_numbered else ""),
        ),
        tuple(
            (name, _win_grid(name, [row.entrant_id for row in rows], win_rates[name], links))
            for name, rows in leaderboard.items()
        ),
        is_open=True,
        one_at_a_time=True,
    )


def _win_grid(
    dimension: str, order: Sequence[str], pairs: Sequence[WinRateRow], links: BattleLinks
) -> ReportTable:
    rows, html = [], {}
    rates = win_rate_matrix(pairs, order)
    is_numbered = len(order) > _WIDEST_GRID
    for row, (name, line) in enumerate(zip(order, rates, strict=True)):
        texts = [f"{row + 1} {name}" if is_numbered else name]
        for column, (other, cell) in enumerate(zip(order, line, strict=True), start=1):
            if cell is None:
                texts.append("" if name == other else ABSENT)
                continue
            text = format_share(cell.rate, decimals=0)
            texts.append(f"{text} ({cell.count})")
            html[row, column] = HtmlCell(
                text,
                small=(f"n = {cell.judged}" if is_numbered else cell.count).replace(
                    "n = ", "n\u00a0=\u00a0"
                ),
                href=first_address(links(dimension, entrant=name, versus=other)),
                label=f"{name} against {other} on {dimension}: {text}, {cell.count}. "
                "Read the battles.",
                css=f"r{round(20 * cell.rate)}",  # blue for winning, orange for losing
            )
        rows.append(tuple(texts))
    columns = map(str, range(1, len(rows) + 1)) if is_numbered else order
    headers = ("row beats column", *columns)
    return ReportTable(headers, tuple(rows), look="grid", html=html)


def verdict_section(
    leaderboard: Leaders,
    win_rates: Pairs,
    *,
    prices: Mapping[str, float | None],
    remarks: Remarks,
    confidence: float,
    equivalent_within: float,
    links: BattleLinks,
) -> ReportSection:
    """Return the section on how clear each lead is, on how many pairs, and what would settle it."""
    sentences = []
    for name, rows in leaderboard.items():
        found = Statements.of(rows, win_rates[name], dimension=name)
        price = _price(prices, name)
        parts = [
            render(verdict(found, confidence=confidence, equivalent_within=equivalent_within)),
            *remarks.get(name, ()),
            f"Judging it cost {price}." if price else None,
        ]
        sentences.append(_with_battles(" ".join(filter(None, parts)), found, links))
    return ReportSection(
        "Verdict in full",
        tuple(sentences),
        (("The dimensions at a glance", _overview_table(leaderboard, win_rates, prices)),),
        finding="how clear each lead is, on how many pairs, and what would settle it",
    )


def _with_battles(sentence: str, found: Statements, links: BattleLinks) -> str:
    """Return a sentence with links to the battles that a best entrant rests on, if any."""
    leader, prompts = found.leader, found.best_rests_on
    if leader is None or not prompts:
        return sentence
    pages = links(found.dimension, prompts, entrant=leader.entrant_id)
    words = f"Read the battles of {leader.entrant_id} that its first place rests on"
    is_one = len(pages) == 1
    said = [(f"{words}." if is_one else f"{words}: {title}.", href) for title, href in pages]
    return LinkedSentence(sentence, links=said) if said else sentence


def numbers_section(
    leaderboard: Leaders,
    win_rates: Pairs,
    fair_comparison: Sequence[RatingRow] = (),
    ratings: Sequence[RatingRow] = (),
    *,
    families: Mapping[str, Families] | None,
    confidence: float,
) -> ReportSection:
    """Return the section of all numbers of an entrant in one line.

    Rating, interval, places, win share and Elo by permutation, the difference to the next, and the
    same on other denominators and by stratum.
    """
    has_fair = bool(fair_comparison) and families is not None
    compared = sort_compared(fair_comparison, ratings, families or {}) if has_fair else {}
    tables = []
    for name, rows in leaderboard.items():
        columns = {"difference to the next\n(joint interval)": _to_the_next(name, rows, win_rates)}
        if name in compared:
            columns |= fair_columns(compared[name], strata_by=("source",))
        tables.append((name, leaderboard_cells(rows, columns)))
    is_fair_as_it_is = all(each.is_one_share for each in compared.values())
    return ReportSection(
        "Ladder in numbers",
        (
            "The rating is Bradley-Terry in Elo points, ties as halves, with its "
            f"{format_confidence(confidence)} interval, prompts resampled. Places and differences "
            "hold for all entrants together. A stratum has everyone's win share and rank on its "
            "prompts. A dash stands where there is no number.",
            *(
                f"On {row.dimension}, {row.entrant_id}: {row.note}."
                for rows in leaderboard.values()
                for row in rows
                if row.note
            ),
            *(" ".join(fair_sentences(each, dimension=name)) for name, each in compared.items()),
            *(() if is_fair_as_it_is else fair_notes(compared.values(), confidence=confidence)),
        ),
        tuple(tables),
        finding="ratings, differences and win shares"
        + (f"; {order_words(compared)}" if compared else ""),
        one_at_a_time=True,
    )


def _to_the_next(dimension: str, rows: Rows, win_rates: Pairs) -> Cell[LeaderboardRow]:
    """Return the column of how far an entrant is above the next, and what is claimed of the two."""
    found = Statements.of(rows, win_rates[dimension], dimension=dimension)
    names = [row.entrant_id for row in found.placed]
    next_of = {pair[0]: found.pairs[pair] for pair in pairwise(names)}

    def cell(row: LeaderboardRow) -> str | None:
        if (pair := next_of.get(row.entrant_id)) is None:
            return None
        return f"{format_difference(pair)} {mark(pair.claim, (pair.upper, pair.lower), rows)}"

    return cell


def undecided_section(
    leaderboard: Leaders,
    win_rates: Pairs,
    *,
    links: BattleLinks,
    equivalent_within: float,
    judge_label: str,
) -> ReportSection:
    """Return the section of everyone beside the first, and of pairs of which neither is better."""
    found = {
        name: Statements.of(rows, win_rates[name], dimension=name)
        for name, rows in leaderboard.items()
    }
    pairs = {name: open_pairs(each) for name, each in found.items()}
    counts = [
        f"{format_plural(len(each), 'pair')} on {name}" for name, each in pairs.items() if each
    ]
    return ReportSection(
        "Undecided and equivalent",
        (
            "Undecided: judging did not decide who is better, or the prompts ran out. Nobody is "
            "called equivalent where pairs stop early."
            if any(each.stops_early for each in found.values())
            else "Undecided: the interval of the difference holds 0. Equivalent: it lies within "
            f"±{equivalent_within:g} Elo points, the margin that does not matter. The intervals "
            "hold for all pairs of a dimension together.",
            *(
                f"{name}: {render_counts(each, equivalent_within=equivalent_within)}"
                for name, each in found.items()
            ),
        ),
        tuple(
            (name, _open_pairs_table(name, each[:MOST_PAIRS], links))
            for name, each in pairs.items()
            if each
        ),
        finding=join_names(counts) or "of every two entrants one is better",
        one_at_a_time=True,
        pictures=tuple(
            ThemedPicture(
                name,
                f"How far the first is above everyone else on {name}, with joint intervals.",
                _in_all_palettes(
                    partial(
                        draw_forest,
                        each,
                        equivalent_within=equivalent_within,
                        judge_label=judge_label,
                    )
                ),
            )
            for name, each in found.items()
            if each.leader is not None and not each.stops_early
        ),
    )


def _open_pairs_table(
    dimension: str, pairs: Sequence[PairStatement], links: BattleLinks
) -> ReportTable:
    columns: dict[str, Cell[PairStatement]] = {
        "upper": lambda pair: pair.upper,
        "lower": lambda pair: pair.lower,
        "claim": lambda pair: pair.claim,
        "difference (interval)": format_difference,
        "more prompts": lambda pair: (
            None if pair.more_prompts is None else f"{pair.more_prompts:,}"
        ),
        "won": lambda pair: pair.record.wins,
        "lost": lambda pair: pair.record.losses,
        "tied": lambda pair: pair.record.ties,
        "inconsistent": lambda pair: pair.record.inconsistent,
        "same text": lambda pair: pair.record.same_text,
        "battles": lambda pair: pair.record.settled,
    }
    html: Mapping[tuple[int, int], HtmlCell] = {
        (row, len(columns) - 1): HtmlCell(
            f"read all {pair.record.settled}" if href else str(pair.record.settled),
            href=href,
            label=f"Read the battles of {pair.upper} and {pair.lower} on {dimension}",
        )
        for row, pair in enumerate(pairs)
        for href in (first_address(links(dimension, entrant=pair.upper, versus=pair.lower)),)
    }
    return replace(ReportTable.of(pairs, columns, n_labels=2, subject=(0, 1)), html=html)


def economy_section(
    leaderboard: Leaders, *, economies: Sequence[EntrantEconomy], judge_label: str
) -> ReportSection | None:
    """Return the section of quality against cost and speed, if either is known."""
    said = {
        name: _front_sentence(name, rows, economies)
        for name, rows in leaderboard.items()
        if known_measures(rows, economies)
    }
    if not said:
        return None
    return ReportSection(
        "Quality against cost and speed",
        (*render_sentences("economy_note.jinja"), *said.values()),
        (("Cost and speed of the entrants", _economy_table(leaderboard, economies)),),
        finding="who is better, and who is cheaper or faster",
        pictures=tuple(
            ThemedPicture(
                name,
                f"Mean rating against cost and speed on {name}. {sentence} "
                "The table holds the numbers.",
                _in_all_palettes(
                    partial(draw_front, leaderboard[name], economies, judge_label=judge_label)
                ),
            )
            for name, sentence in said.items()
        ),
    )


def _in_all_palettes(draw: DrawsInPalette) -> dict[str, str]:
    return {theme: png_data_uri(png) for theme, png in to_pngs(draw, _PALETTES).items()}


_FRONTS: Mapping[Measure, str] = {"usd": "cost", "speed": "speed"}


def _front_sentence(dimension: str, rows: Rows, economies: Sequence[EntrantEconomy]) -> str:
    fronts = "; ".join(
        f"of quality and {_FRONTS[measure]}: {join_names(_front(rows, economies, measure))}"
        for measure in known_measures(rows, economies)
    )
    return f"On {dimension}, the front {fronts}."


def _front(rows: Rows, economies: Sequence[EntrantEconomy], measure: Measure) -> list[str]:
    placed = place_entrants(rows, economies, measure)
    return [each.row.entrant_id for each in placed if each.is_on_front]


def _economy_table(leaderboard: Leaders, economies: Sequence[EntrantEconomy]) -> ReportTable:

    def rating(rows: Rows) -> Cell[EntrantEconomy]:
        ratings = {row.entrant_id: row.rating for row in rows}
        return lambda each: format_rating(ratings.get(each.entrant_id))

    return ReportTable.of(
        economies,
        {
            "entrant": lambda each: each.entrant_id,
            "US dollars for 1,000 responses": lambda each: (
                None if each.usd is None else f"{each.usd:,.2f}"
            ),
            "tokens a second": lambda each: None if each.speed is None else f"{each.speed:,.1f}",
            **{f"Elo points, {name}": rating(rows) for name, rows in leaderboard.items()},
        },
    )


def models_section(leaderboard: Leaders, ratings: Strengths, *, confidence: float) -> ReportSection:
    """Return the section of all rating methods side by side."""
    disagreements = {name: disagreement_sentences(rows) for name, rows in ratings.items()}
    disputed = [name for name, sentences in disagreements.items() if sentences]
    return ReportSection(
        "Models side by side",
        (
            *render_sentences(
                "models_note.jinja",
                words=join_names([str(METHODS[name]) for name in compared_methods()]),
                confidence=format_confidence(confidence),
            ),
            *(
                f"{name}: "
                + " ".join([*in_words(disagreements[name]), *comparison_notes(ratings[name])])
                for name in leaderboard
            ),
        ),
        tuple(
            (name, side_by_side_cells(ratings[name], [row.entrant_id for row in rows]))
            for name, rows in leaderboard.items()
        ),
        finding=f"they disagree on the order on {join_names(disputed)}"
        if disputed
        else "no two models disagree on the order"
        if [] in disagreements.values()
        else "nothing to compare",
        one_at_a_time=True,
    )


def _overview_table(
    leaderboard: Leaders, win_rates: Pairs, prices: Mapping[str, float | None]
) -> ReportTable:
    return ReportTable(
        headers=(
            "dimension",
            "first",
            "gap to the next, Elo points",
            "entrants it is better than",
            "decisive pairs of those judged",
            "inconsistent",
            "same text of all",
            "judging cost",
        ),
        rows=tuple(
            _overview_row(name, rows, win_rates[name], _price(prices, name) or ABSENT)
            for name, rows in leaderboard.items()
        ),
        n_labels=2,
        subject=(0,),
    )


def _overview_row(
    dimension: str, rows: Rows, pairs: Sequence[WinRateRow], cost: str
) -> tuple[str, ...]:
    found = Statements.of(rows, pairs, dimension=dimension)
    judged = sum(row.judged for row in pairs)
    decisive = sum(row.wins_a + row.wins_b for row in pairs)
    inconsistent = sum(row.inconsistent for row in pairs)
    same = sum(row.same_text for row in pairs)
    counts = (
        format_count_of(decisive, judged),
        format_count_of(inconsistent, judged),
        format_count_of(same, same + judged + sum(row.unjudged for row in pairs)),
        cost,
    )
    if found.leader is None or found.runner_up is None:
        return (dimension, *(ABSENT,) * 3, *counts)
    gap = found.pairs[found.leader.entrant_id, found.runner_up.entrant_id].difference.value
    n_others = len(found.placed) - 1 - len(found.leader.same_answers_as)
    return (
        dimension,
        join_names(found.circle) if found.nobody_is_first else found.leader.entrant_id,
        ABSENT if gap is None else f"{gap:.1f}",
        f"{len(found.leader.shown_above)} of {n_others}",
        *counts,
    )


def _price(prices: Mapping[str, float | None], dimension: str) -> str:
    if dimension not in prices:
        return ""
    price = prices[dimension]
    return "an unknown amount" if price is None else format_usd(price)
