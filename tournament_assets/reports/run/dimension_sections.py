"""What the report says about one dimension, ready to be filled into the templates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.figures.figures import WinRate, win_rate_matrix
from tournament_assets.reports.formatting import ABSENT, format_count_of, format_gap
from tournament_assets.reports.leaderboard import (
    by_dimension,
    leaderboard_cells,
    with_strengths,
)
from tournament_assets.reports.rating_method_tables import (
    comparison_notes,
    disagreement_sentences,
    scale_sentence,
    side_by_side_cells,
    sweep_sentence,
    sweep_table,
)
from tournament_assets.reports.report_tables import HtmlCell, ReportTable
from tournament_assets.reports.run.report_contents import ReportContents
from tournament_assets.reports.separation import (
    MOST_PAIRS,
    UnseparatedPair,
    separation,
    unseparated_pairs,
    unseparated_sentence,
    verdict_sentence,
)
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    LeaderboardRow,
    RatingMethodRow,
    WinRateRow,
)

Rows = Sequence[LeaderboardRow]


BattleLink = Callable[..., str]
"""Makes the address of the battles of a dimension and further filters, or nothing."""


@dataclass(frozen=True, slots=True)
class DimensionSection:
    """What the page says about one dimension."""

    name: str
    verdict: str
    scale_sentence: str | None
    price: str
    ladder: ReportTable
    notes: tuple[str, ...]
    order: tuple[str, ...]
    unseparated: tuple[UnseparatedPair, ...]
    unseparated_sentence: str
    win_rates: tuple[tuple[WinRate | None, ...], ...]
    k_sweep: ReportTable
    k_sentence: str
    models: ReportTable
    model_sentences: tuple[str, ...]
    model_notes: tuple[str, ...]

    def unseparated_table(self, link: BattleLink | None = None) -> ReportTable:
        """Return the pairs that are not separated, with their battles where these can be linked."""
        html = {}
        if link is not None:
            for row, pair in enumerate(self.unseparated):
                settled = pair.record.settled
                href = link(self.name, entrant=pair.upper, versus=pair.lower)
                html[row, 8] = HtmlCell(
                    f"read all {settled}" if href else str(settled),
                    href=href,
                    label=f"Read the battles of {pair.upper} and {pair.lower} on {self.name}",
                    css="label",
                )
        return ReportTable(
            headers=(
                *("upper", "lower", "gap, Elo points", "won", "lost", "tied", "inconsistent"),
                "same text",
                *(() if link is None else ("battles",)),
            ),
            rows=tuple(
                (
                    *(pair.upper, pair.lower),
                    ABSENT if pair.gap is None else f"{pair.gap:.1f}",
                    *(str(getattr(pair.record, name)) for name in _UNSEPARATED_COUNTS),
                    *(() if link is None else (str(pair.record.settled),)),
                )
                for pair in self.unseparated
            ),
            n_labels=2,
            html=html,
        )

    def win_grid(self, link: BattleLink | None = None) -> ReportTable:
        """Return how often the entrant of a row beats that of a column."""
        rows, html = [], {}
        for row, (name, line) in enumerate(zip(self.order, self.win_rates, strict=True)):
            texts = [name]
            for column, (other, cell) in enumerate(zip(self.order, line, strict=True), start=1):
                if cell is None:
                    texts.append("" if name == other else ABSENT)
                    continue
                text = f"{100 * cell.rate:.0f} %"
                texts.append(f"{text} ({cell.count})" if cell.count else text)
                html[row, column] = HtmlCell(
                    text,
                    small=cell.count,
                    href=link(self.name, entrant=name, versus=other) if link and cell.count else "",
                    label=f"{name} against {other} on {self.name}: {text}, {cell.count}. "
                    "Read the battles.",
                    css=f"r{round(20 * cell.rate)}",  # blue for winning, orange for losing
                )
            rows.append(tuple(texts))
        return ReportTable(("row beats column", *self.order), tuple(rows), look="grid", html=html)


_UNSEPARATED_COUNTS = ("wins", "losses", "ties", "inconsistent", "same_text")


def dimension_sections(contents: ReportContents) -> list[DimensionSection]:
    """Return what the page says about every dimension, in the order of the leaderboard."""
    rows = list(rows_of(LeaderboardRow, contents.leaderboard))
    return [
        _section(contents, dimension, members) for dimension, members in by_dimension(rows).items()
    ]


def overview_table(contents: ReportContents) -> ReportTable:
    """Return one row a dimension: who is first, how clearly, on how much, and at what price."""
    rows = list(rows_of(LeaderboardRow, contents.leaderboard))
    return ReportTable(
        headers=(
            "dimension",
            "first",
            "gap to the next",
            "separated from",
            "decisive pairs of those judged",
            "inconsistent",
            "same text of all",
            "judging cost",
        ),
        rows=tuple(
            _overview_row(contents, dimension, members)
            for dimension, members in by_dimension(rows).items()
        ),
        n_labels=2,
    )


def _overview_row(contents: ReportContents, dimension: str, rows: Rows) -> tuple[str, ...]:
    found = separation(rows)
    pairs = list(rows_of(WinRateRow, contents.win_rates[dimension]))
    judged = sum(row.judged for row in pairs)
    decisive = sum(row.wins_a + row.wins_b for row in pairs)
    inconsistent = sum(row.inconsistent for row in pairs)
    cost = _price(contents, dimension) or ABSENT
    same = sum(row.same_text for row in pairs)
    counts = (
        format_count_of(decisive, judged),
        format_count_of(inconsistent, judged),
        format_count_of(same, same + judged + sum(row.unjudged for row in pairs)),
        cost,
    )
    if found.leader is None or found.runner_up is None:
        return (dimension, found.leader or ABSENT, ABSENT, ABSENT, *counts)
    return (
        dimension,
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


def _section(contents: ReportContents, dimension: str, rows: Rows) -> DimensionSection:
    found = separation(rows)
    order = tuple(row.entrant_id for row in rows)
    elo_rows = list(rows_of(EloRow, contents.elo_ratings[dimension]))
    model_rows = list(rows_of(RatingMethodRow, contents.model_comparison[dimension]))
    pair_rows = list(rows_of(WinRateRow, contents.win_rates[dimension]))
    unseparated = unseparated_pairs(rows, pair_rows)
    n_rated = sum(bool(row.n_entrant_matches) for row in rows)
    return DimensionSection(
        name=dimension,
        verdict=verdict_sentence(rows, dimension=dimension, confidence=contents.confidence),
        scale_sentence=(
            None
            if found.leader is None or found.runner_up is None
            else scale_sentence(model_rows, upper=found.leader, lower=found.runner_up)
        ),
        price=_price(contents, dimension),
        ladder=with_strengths(leaderboard_cells(rows), rows),
        notes=tuple(f"{row.entrant_id}: {row.note}." for row in rows if row.note),
        order=order,
        unseparated=tuple(unseparated[:MOST_PAIRS]),
        unseparated_sentence=unseparated_sentence(len(unseparated), n_rated),
        win_rates=tuple(map(tuple, win_rate_matrix(pair_rows, order))),
        k_sweep=sweep_table(elo_rows, order),
        k_sentence=sweep_sentence(elo_rows),
        models=side_by_side_cells(model_rows, order),
        model_sentences=tuple(disagreement_sentences(model_rows)),
        model_notes=tuple(comparison_notes(model_rows)),
    )
