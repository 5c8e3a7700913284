"""The report's sections on every dimension: win rates, and every number behind the result."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from tournament_assets.audits.fair_comparison import Families
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_count_of,
    format_plural,
    format_rating,
    format_share,
    format_usd,
    join_names,
)
from tournament_assets.ratings.rating_methods import METHODS, compared_methods
from tournament_assets.reports.claims import (
    MOST_PAIRS,
    PairStatement,
    Statements,
    claim_words,
    open_pairs,
)
from tournament_assets.reports.fair_tables import (
    fair_columns,
    fair_notes,
    fair_sentences,
    order_words,
    sort_compared,
)
from tournament_assets.reports.figures.canvas import to_page
from tournament_assets.reports.figures.figures import (
    EntrantEconomy,
    Measure,
    WinRate,
    draw_front,
    known_measures,
    place_entrants,
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
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    Cell,
    HtmlText,
    ReportSection,
    ReportTable,
    ThemedPicture,
    select_columns,
)
from tournament_assets.reports.sections import BattleLinks, Remarks, first_address
from tournament_assets.reports.statements import render, render_counts, verdict
from tournament_assets.tournament.asset_rows import (
    LeaderboardRow,
    RatingRow,
    WinRateRow,
)

Rows = Sequence[LeaderboardRow]
Leaders = Mapping[str, Sequence[LeaderboardRow]]
Strengths = Mapping[str, Sequence[RatingRow]]
Pairs = Mapping[str, Sequence[WinRateRow]]
"""Rows by dimension; leaders best first."""
Boards = Mapping[str, Statements]
"""What is known of the entrants, by dimension."""

_TEMPLATE = "dimension_sections.jinja"

_WIDEST_GRID = 6
"""Most entrants whose names fit above the columns of the win grid; more get numbers."""


def wins_section(leaderboard: Leaders, win_rates: Pairs, *, links: BattleLinks) -> ReportSection:
    """Return the section of win rates between entrants."""
    is_numbered = any(len(rows) > _WIDEST_GRID for rows in leaderboard.values())
    return ReportSection(
        "Win grid",
        (*render_part(_TEMPLATE, "wins", is_numbered),),
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
    is_numbered = len(order) > _WIDEST_GRID

    def cell_of(name: str, other: str, rate: WinRate | None) -> str:
        if rate is None:
            return "" if name == other else ABSENT
        text = format_share(rate.rate, decimals=0)
        small = f"n = {rate.judged}" if is_numbered else rate.count
        return HtmlText(
            f"{text} ({rate.count})",
            text,
            small=small.replace("n = ", "n\u00a0=\u00a0"),
            href=first_address(links(dimension, entrant=name, versus=other)),
            label=f"{name} against {other} on {dimension}. Read the battles.",
            css=f"r{round(20 * rate.rate)}",  # blue for winning, orange for losing
        )

    names = [f"{row} {name}" if is_numbered else name for row, name in enumerate(order, start=1)]
    columns = map(str, range(1, len(order) + 1)) if is_numbered else order
    rows = tuple(
        (title, *(cell_of(name, other, rate) for other, rate in zip(order, rates, strict=True)))
        for title, name, rates in zip(names, order, win_rate_matrix(pairs, order), strict=True)
    )
    return ReportTable(("row beats column", *columns), rows, look="grid")


def verdict_section(
    win_rates: Pairs,
    *,
    statements: Boards,
    prices: Mapping[str, float | None],
    remarks: Remarks,
    equivalent_within: float,
    links: BattleLinks,
) -> ReportSection:
    """Return the section on how clear each lead is, on how many pairs, and what would settle it."""
    sentences, overviews = [], []
    for name, board in statements.items():
        unknown, price = "an unknown amount" if name in prices else None, prices.get(name)
        cost = unknown if price is None else format_usd(price)
        parts = [
            render(verdict(board, equivalent_within=equivalent_within)),
            *remarks.get(name, ()),
            f"Judging it cost {cost}." if cost else None,
        ]
        sentences.append(_with_battles(" ".join(filter(None, parts)), board, links))
        overviews.append(_overview(board, win_rates[name], cost))
    overview = ReportTable(_OVERVIEW, tuple(overviews), n_labels=2, subject=(0,))
    return ReportSection(
        "Verdict in full",
        tuple(sentences),
        (("The dimensions at a glance", overview),),
        finding="how clear each lead is, on how many pairs, and what would settle it",
    )


_OVERVIEW = (
    *("dimension", "first", "gap to the next, Elo points", "entrants it is better than"),
    *("decisive pairs of those judged", "inconsistent", "same text of all", "judging cost"),
)


def _overview(
    statements: Statements, pairs: Sequence[WinRateRow], cost: str | None
) -> tuple[str, ...]:
    """Sum up a dimension: who is first, by how much, and how its pairs were settled."""
    first = gap = better_than = ABSENT
    leader, runner_up = statements.leader, statements.runner_up
    if leader is not None and runner_up is not None:
        first = join_names(statements.circle) or leader.entrant_id
        difference = statements.pairs[leader.entrant_id, runner_up.entrant_id].difference.value
        gap = ABSENT if difference is None else f"{difference:.1f}"
        n_others = len(statements.placed) - 1 - len(leader.same_answers_as)
        better_than = f"{len(leader.shown_above)} of {n_others}"
    judged = sum(row.judged for row in pairs)
    same = sum(row.same_text for row in pairs)
    return (
        *(statements.dimension, first, gap, better_than),
        format_count_of(sum(row.wins_a + row.wins_b for row in pairs), judged),
        format_count_of(sum(row.inconsistent for row in pairs), judged),
        format_count_of(same, same + judged + sum(row.unjudged for row in pairs)),
        ABSENT if cost is None else cost,
    )


def _with_battles(sentence: str, statements: Statements, links: BattleLinks) -> str:
    """Return a sentence with links to the battles that a best entrant rests on, if any."""
    leader, prompts = statements.leader, statements.best_rests_on
    if leader is None or not prompts:
        return sentence
    pages = links(statements.dimension, prompts, entrant=leader.entrant_id)
    words = f"Read the battles of {leader.entrant_id} that its first place rests on"
    titles = [f": {title}" if len(pages) > 1 else "" for title, _ in pages]
    return HtmlText(
        sentence,
        links=[(f"{words}{title}.", href) for title, (_, href) in zip(titles, pages, strict=True)],
    )


def numbers_section(
    fair_comparison: Sequence[RatingRow] = (),
    ratings: Sequence[RatingRow] = (),
    *,
    statements: Boards,
    families: Mapping[str, Families] | None,
    confidence: float,
    equivalent_within: float,
) -> ReportSection:
    """Return the section of all numbers of an entrant in one line.

    Rating, interval, places and win share, the difference to the next, and the same on other
    denominators and by stratum.
    """
    has_fair = bool(fair_comparison) and families is not None
    compared = sort_compared(fair_comparison, ratings, families or {}) if has_fair else {}
    tables = []
    for name, board in statements.items():
        columns = {
            "difference to the next\n(joint interval)": _to_the_next(board, equivalent_within)
        }
        if name in compared:
            columns |= fair_columns(compared[name])
        tables.append((name, leaderboard_cells(board.rows, columns)))
    is_fair_as_it_is = all(shares.is_one_share for shares in compared.values())
    return ReportSection(
        "Ladder in numbers",
        (
            *render_part(_TEMPLATE, "numbers", statements, format_confidence(confidence)),
            *(" ".join(fair_sentences(fair, dimension=name)) for name, fair in compared.items()),
            *(() if is_fair_as_it_is else fair_notes(compared.values(), confidence=confidence)),
        ),
        tuple(tables),
        finding="ratings, differences and win shares"
        + (f"; {order_words(compared)}" if compared else ""),
        one_at_a_time=True,
    )


def _to_the_next(board: Statements, equivalent_within: float) -> Cell[LeaderboardRow]:
    """Return the column of how far an entrant is above the next, and what is claimed of the two."""
    names = [row.entrant_id for row in board.placed]
    next_of = {pair[0]: board.pairs[pair] for pair in pairwise(names)}

    def cell(row: LeaderboardRow) -> str | None:
        if (pair := next_of.get(row.entrant_id)) is None:
            return None
        claim = claim_words(pair, board.rows, equivalent_within=equivalent_within)
        return f"{pair.difference_with_interval} {claim}"

    return cell


def undecided_section(
    *, statements: Boards, links: BattleLinks, equivalent_within: float, judge_label: str
) -> ReportSection:
    """Return the section of everyone beside the first, and of pairs of which neither is better."""
    pairs = {name: rows for name, of in statements.items() if (rows := open_pairs(of))}
    counts = [f"{format_plural(len(rows), 'pair')} on {name}" for name, rows in pairs.items()]
    draw = partial(draw_forest, equivalent_within=equivalent_within, judge_label=judge_label)
    return ReportSection(
        "Undecided and equivalent",
        (
            *render_part(_TEMPLATE, "undecided", statements, equivalent_within),
            *(
                f"{name}: {render_counts(of, equivalent_within=equivalent_within)}"
                for name, of in statements.items()
            ),
        ),
        tuple(
            (name, _open_pairs_table(statements[name], rows[:MOST_PAIRS], links, equivalent_within))
            for name, rows in pairs.items()
        ),
        finding=join_names(counts) or "of every two entrants one is better",
        one_at_a_time=True,
        pictures=tuple(
            ThemedPicture(
                name,
                f"How far the first is above everyone else on {name}, with joint intervals.",
                to_page(draw(of), salt=f"forest {name}"),
            )
            for name, of in statements.items()
            if of.leader is not None and not of.stops_early
        ),
    )


def _open_pairs_table(
    board: Statements, pairs: Sequence[PairStatement], links: BattleLinks, within: float
) -> ReportTable:
    def claim(pair: PairStatement) -> str:
        return claim_words(pair, board.rows, equivalent_within=within)

    def battles(pair: PairStatement) -> str:
        count = pair.record.settled
        href = first_address(links(board.dimension, entrant=pair.upper, versus=pair.lower))
        label = f"battles of {pair.upper} and {pair.lower} on {board.dimension}"
        return HtmlText(str(count), f"read all {count}" if href else "", href=href, label=label)

    columns = select_columns(PairStatement, *_PAIR_COLUMNS) | {"claim": claim, "battles": battles}
    return ReportTable.of(pairs, columns, n_labels=2, subject=(0, 1))


_PAIR_COLUMNS = (
    *("upper", "lower", "claim", "difference_with_interval"),
    *("record.wins", "record.losses", "record.ties", "record.inconsistent", "record.same_text"),
)


def economy_section(
    leaderboard: Leaders, *, economies: Sequence[EntrantEconomy], judge_label: str
) -> ReportSection | None:
    """Return the section of quality against cost and speed, if either is known."""
    sentences = {}
    for name, rows in leaderboard.items():
        fronts = {
            _FRONTS[measure]: [
                placed.row.entrant_id
                for placed in place_entrants(rows, economies, measure)
                if placed.is_on_front
            ]
            for measure in known_measures(rows, economies)
        }
        if fronts:
            sentences[name] = " ".join(render_part(_TEMPLATE, "front", name, fronts))
    if not sentences:
        return None
    return ReportSection(
        "Quality against cost and speed",
        (*render_part(_TEMPLATE, "economy"), *sentences.values()),
        (("Cost and speed of the entrants", _economy_table(leaderboard, economies)),),
        finding="who is better, and who is cheaper or faster",
        pictures=tuple(
            ThemedPicture(
                name,
                f"Mean rating against cost and speed on {name}. {sentence} "
                "The table holds the numbers.",
                to_page(
                    draw_front(leaderboard[name], economies, judge_label=judge_label),
                    salt=f"front {name}",
                ),
            )
            for name, sentence in sentences.items()
        ),
    )


_FRONTS: Mapping[Measure, str] = {"usd": "cost", "speed": "speed"}


def _economy_table(leaderboard: Leaders, economies: Sequence[EntrantEconomy]) -> ReportTable:

    def rating(rows: Rows) -> Cell[EntrantEconomy]:
        ratings = {row.entrant_id: row.rating for row in rows}
        return lambda economy: format_rating(ratings.get(economy.entrant_id))

    columns = select_columns(EntrantEconomy, "entrant_id", "usd", "speed")
    ratings = {f"Elo points, {name}": rating(rows) for name, rows in leaderboard.items()}
    return ReportTable.of(economies, columns | ratings)


def models_section(leaderboard: Leaders, ratings: Strengths, *, confidence: float) -> ReportSection:
    """Return the section of all rating methods side by side."""
    disagreements = {name: disagreement_sentences(rows) for name, rows in ratings.items()}
    disputed = [name for name, sentences in disagreements.items() if sentences]
    methods = [str(METHODS[name]) for name in compared_methods()]
    return ReportSection(
        "Models side by side",
        (
            *render_part(_TEMPLATE, "models", methods, format_confidence(confidence)),
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
