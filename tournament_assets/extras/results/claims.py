"""Who is better in other tools' results: places and claims, as of a tournament's entrants.

Every two systems meet on each item on which both have a score: the share of the win is a half and
half the difference of their scores over the range of all scores. Scores of 0 and 1 win, lose or
tie; one between counts as that part of a pass. So who is better has the higher mean, and the order
is that of the means where no score is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.battles.rating import BattleRatings
from tournament_assets.extras.results.reading import ScoreTable
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import (
    expected_share,
    format_confidence,
    format_margin,
    format_plural,
)
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, DrawWins, ResampledWins
from tournament_assets.ratings.matches import rows_of_pairs
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, placed_rows
from tournament_assets.ratings.rating_tables import claimed
from tournament_assets.ratings.standings import stand_entrants
from tournament_assets.reports.claims import PairStatement, Statements, claim_words
from tournament_assets.reports.next_steps import next_step
from tournament_assets.reports.report_tables import (
    Cell,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.reports.statements import render, verdict
from tournament_assets.tournament.asset_rows import LeaderboardRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings

_MOST_PAIRS = 50
"""Most pairs that are listed, from the first place down; JSON has all."""
_OF_RATINGS = {each.name for each in fields(RatingRow)} & {
    each.name for each in fields(LeaderboardRow)
}
"""Columns that the rows of ratings and of entrants share."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claims:
    """What is claimed of systems by one score, or by their battles on one dimension.

    Attributes:
        n_items: Items, or prompts.
        n_groups: Groups of items, which were resampled as wholes.
        settings: How the systems were rated and compared.
        board: Everyone's place, and every two's claim.
        means: Everyone's mean score; nobody's of battles.
        leads: Of every two, the upper one's lead in mean score on the items that both have, with
            its joint interval.
        margin: The difference of mean scores that does not matter; None of battles.
        notes: Sentences on what is missing or left out.
    """

    n_items: int
    n_groups: int
    settings: RatingSettings
    board: Statements
    means: Mapping[str, float] = field(default_factory=dict)
    leads: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    margin: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Who comes first, all that is claimed of it, and what it takes to know more."""
        within, confidence = self.settings.equivalent_within, self.settings.confidence
        step = next_step(self.board, confidence=confidence)
        steps = () if step is None else (replace(step, pairs=0),)
        return render([*verdict(self.board, equivalent_within=within), *steps])

    @property
    def sections(self) -> list[ReportSection]:
        """The verdict, everyone's place and every two; what they rest on and what is missing."""
        board, within = self.board, self.settings.equivalent_within
        means: dict[str, Cell[LeaderboardRow]] = {}
        pair_columns: dict[str, Cell[PairStatement]] = {
            "claim": lambda pair: claim_words(pair, board.rows, equivalent_within=within)
        }
        margin = f"±{format_margin(within)}"
        if self.margin is not None:
            means["mean score"] = lambda row: f"{self.means[row.entrant_id]:.4g}"
            pair_columns["lead in mean score"] = lambda pair: _spelt(
                self.leads[pair.upper, pair.lower]
            )
            margin += f", ±{self.margin:.3g} of mean score"
        pair_columns["lead in Elo points"] = lambda pair: pair.difference_with_interval
        ratings = select_columns(LeaderboardRow, "rating", "interval", "win_rate")
        systems = ReportTable.of(
            board.rows,
            select_columns(LeaderboardRow, "places_and_group", "entrant_id") | means | ratings,
            n_labels=2,
        )
        records = select_columns(PairStatement, "record.wins", "record.losses", "record.ties")
        pairs = ReportTable.of(
            [*board.pairs.values()][:_MOST_PAIRS],
            select_columns(PairStatement, "upper", "lower") | pair_columns | records,
            n_labels=3,
            subject=(0, 1),
        )
        is_grouped = self.n_groups != self.n_items
        groups = f" in {format_plural(self.n_groups, 'group')}" if is_grouped else ""
        basis = (
            f"{format_plural(self.n_items, 'item')}{groups}; all claims hold together at "
            f"{format_confidence(self.settings.confidence)}. Equivalent is within {margin}."
        )
        tables = (("", systems), ("Every two", pairs))
        return [
            ReportSection(board.dimension, (self.verdict,), tables, is_open=True),
            ReportSection("Notes", (basis, *self.notes), is_note=True, is_open=True),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return every number, for JSON."""
        within = self.settings.equivalent_within
        return {
            "score": self.board.dimension,
            "items": self.n_items,
            "groups": self.n_groups,
            "confidence": self.settings.confidence,
            "margin": {"elo": within, "share": expected_share(within), "mean_score": self.margin},
            "verdict": self.verdict,
            "systems": [
                {**asdict(row), "places": row.places, "mean_score": self.means.get(row.entrant_id)}
                for row in self.board.rows
            ],
            "pairs": [
                {**asdict(pair), "lead": asdict(self.leads.get(two, Estimate()))}
                for two, pair in self.board.pairs.items()
            ],
            "notes": self.notes,
        }


def claim_scores(table: ScoreTable, settings: RatingSettings) -> Claims:
    """Compare systems by their scores; the items of a group are resampled together."""
    systems, n, n_groups = table.systems, len(table.systems), int(table.groups.max()) + 1
    lead = table.gains[:, :, None] - table.gains[:, None, :]  # (n_items, n, n)
    is_met = ~np.isnan(lead) & ~np.eye(n, dtype=np.bool_)
    won, met = (is_met & (lead > 0)).sum(axis=0), is_met.sum(axis=0)
    shares = np.zeros((n_groups, n, n))
    np.add.at(shares, table.groups, np.where(is_met, 0.5 + lead / 2, 0.0))
    gained = shares.sum(axis=0)

    def start() -> DrawWins:
        generator = np.random.default_rng(settings.bootstrap_seed)

        def draw(n_tables: int) -> NDArray[np.float64]:
            counts = generator.multinomial(n_groups, np.full(n_groups, 1 / n_groups), n_tables)
            return (counts @ shares.reshape(n_groups, n * n)).reshape(n_tables, n, n)

        return draw

    tables = ResampledWins(systems, gained, n_groups, settings.resampling, start)
    standings = stand_entrants(tables, equivalent_within=settings.equivalent_within)
    ties = met - won - won.T
    pairs = rows_of_pairs(systems, won=won, ties=ties, gained=gained, dimension=table.score)
    points = gained.sum(axis=1) / met.sum(axis=1)
    board = _board(
        table.score,
        placed_rows(standings),
        claimed(pairs, standings),
        dict(zip(systems, points.tolist(), strict=True)),
    )
    mean_lead = table.span * np.where(is_met, lead, 0.0).sum(axis=0) / np.maximum(1, met)
    place = {system: index for index, system in enumerate(systems)}
    return Claims(
        n_items=len(lead),
        n_groups=n_groups,
        settings=settings,
        board=board,
        means=dict(zip(systems, np.nanmean(table.values, axis=0).tolist(), strict=True)),
        leads={
            two: _in_scores(pair, float(mean_lead[place[two[0]], place[two[1]]]), table.span)
            for two, pair in board.pairs.items()
        },
        margin=_in_span(settings.equivalent_within, table.span),
        notes=table.notes,
    )


def _in_span(points: float, span: float) -> float:
    """Return how far two mean scores are apart that stand for a difference in Elo points."""
    return span * float(np.tanh(points / ELO_PER_NAT / 2))


def _in_scores(pair: PairStatement, lead: float, span: float) -> Estimate:
    """Return a lead in mean score with the interval of the ratings' difference, stretched to it.

    That keeps 0 where it is, so that both intervals exclude it, or neither.
    """
    if not pair.record.settled:
        return Estimate()
    rated = _in_span(pair.difference.value or 0.0, span)
    factor = lead / rated if lead * rated > 0 else 1.0
    ends = (pair.difference.low, pair.difference.high)
    low, high = (None if end is None else factor * _in_span(end, span) for end in ends)
    return Estimate(lead, low, high, pair.record.settled)


def claim_battles(
    rated: BattleRatings, settings: RatingSettings, notes: tuple[str, ...] = ()
) -> Claims:
    """Compare systems by their battles on a dimension, rated with every two of them."""
    n_prompts, name = rated.counts["prompts"], rated.dimension or "wins"
    board = _board(name, rated.by(BRADLEY_TERRY), rated.pairs, rated.win_rates)
    about = (*notes, *rated.notes)
    return Claims(
        n_items=n_prompts, n_groups=n_prompts, settings=settings, board=board, notes=about
    )


def _board(
    dimension: str,
    rows: Sequence[RatingRow],
    pairs: Sequence[WinRateRow],
    win_rates: Mapping[str, float],
) -> Statements:
    leaders = [
        LeaderboardRow(
            **{name: getattr(row, name) for name in _OF_RATINGS - {"dimension"}},
            dimension=dimension,
            win_rate=win_rates.get(row.entrant_id),
        )
        for row in rows
    ]
    named = [replace(pair, dimension=dimension) for pair in pairs]
    return Statements.of(leaders, named, dimension=dimension)


def _spelt(lead: Estimate) -> str | None:
    if lead.value is None:
        return None
    ends = ("unbounded" if end is None else f"{end:+.3g}" for end in (lead.low, lead.high))
    return f"{lead.value:+.3g} ({' to '.join(ends)})"
