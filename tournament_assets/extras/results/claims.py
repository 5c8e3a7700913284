"""Who is better in other tools' results: places and claims, as of a tournament's entrants.

Every two systems meet on each item on which both have a score: the share of the win is a half and
half the difference of their scores over the range of all scores. Scores of 0 and 1 win, lose or
tie; one between counts as that part of a pass. So who is better has the higher mean, and the order
is that of the means where no score is missing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.extras.results.reading import ScoreTable
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import format_confidence, format_plural
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, DrawWins, ResampledWins
from tournament_assets.ratings.rating_methods import placed_rows
from tournament_assets.ratings.rating_tables import claimed
from tournament_assets.ratings.standings import stand_entrants
from tournament_assets.reports.claims import PairStatement, Statements
from tournament_assets.reports.report_tables import (
    Cell,
    Document,
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
class Meetings:
    """Systems that met on items.

    Attributes:
        name: What was scored or judged.
        tables: Their shares of the wins, with resamples of whole groups of items.
        won: How often the row's system was better than the column's, shape (n, n).
        met: How often the two met, shape (n, n).
        n_items: The items, or prompts.
        means: Every system's mean score, shape (n,); nothing of battles.
        leads: The row's mean score less the column's on the items that both have, shape (n, n);
            nothing of battles.
        span: The range of the scores.
        notes: Sentences on what is missing or left out.
    """

    name: str
    tables: ResampledWins
    won: NDArray[np.int64]
    met: NDArray[np.int64]
    n_items: int
    means: NDArray[np.float64] | None = None
    leads: NDArray[np.float64] | None = None
    span: float = 1.0
    notes: tuple[str, ...] = ()

    def margin(self, points: float) -> float:
        """Return the difference of mean scores of two that are some Elo points apart."""
        return self.span * float(np.tanh(points / ELO_PER_NAT / 2))

    def mean(self, system: str) -> float | None:
        """Return a system's mean score; None of battles."""
        return None if self.means is None else float(self.means[self._place(system)])

    def lead(self, pair: PairStatement) -> Estimate:
        """Return the upper one's lead in mean score with its joint interval; none of battles.

        The interval is that of the ratings' difference stretched to the lead, which keeps 0 where
        it is: both intervals exclude it, or neither.
        """
        if self.leads is None or not pair.record.settled:
            return Estimate()
        lead = float(self.leads[self._place(pair.upper), self._place(pair.lower)])
        rated = self.margin(pair.difference.value or 0.0)
        factor = lead / rated if lead * rated > 0 else 1.0
        ends = pair.difference.low, pair.difference.high
        low, high = (None if end is None else factor * self.margin(end) for end in ends)
        return Estimate(lead, low, high, pair.record.settled)

    def _place(self, system: str) -> int:
        return self.tables.entrants.index(system)


def meet(table: ScoreTable, settings: RatingSettings) -> Meetings:
    """Let every two systems meet on the items that both have a score on."""
    values = -table.values if table.lower_is_better else table.values
    n, n_groups = len(table.systems), int(table.groups.max()) + 1
    lead = values[:, :, None] - values[:, None, :]  # (n_items, n, n)
    is_met = ~np.isnan(lead) & ~np.eye(n, dtype=np.bool_)
    gained, met = np.zeros((n_groups, n, n)), is_met.sum(axis=0)
    np.add.at(gained, table.groups, np.where(is_met, 0.5 + lead / table.span / 2, 0.0))

    def start() -> DrawWins:
        generator = np.random.default_rng(settings.bootstrap_seed)

        def draw(n_tables: int) -> NDArray[np.float64]:
            counts = generator.multinomial(n_groups, np.full(n_groups, 1 / n_groups), n_tables)
            return (counts @ gained.reshape(n_groups, n * n)).reshape(n_tables, n, n)

        return draw

    return Meetings(
        name=table.score,
        tables=ResampledWins(
            table.systems, gained.sum(axis=0), n_groups, settings.resampling, start
        ),
        won=(is_met & (lead > 0)).sum(axis=0),
        met=met,
        n_items=len(lead),
        means=np.nanmean(table.values, axis=0),
        leads=np.where(is_met, lead, 0.0).sum(axis=0) / np.maximum(1, met),
        span=table.span,
        notes=table.notes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What is claimed of systems.

    Attributes:
        settings: How they were rated and compared.
        board: Everyone's place, and every two's claim.
    """

    meetings: Meetings
    settings: RatingSettings
    board: Statements

    @classmethod
    def of(cls, meetings: Meetings, settings: RatingSettings) -> "Claims":
        """Rate, order and compare the systems, all pairs together."""
        tables, won, met = meetings.tables, meetings.won, meetings.met
        standings = stand_entrants(tables, equivalent_within=settings.equivalent_within)
        systems, shares, weight = tables.entrants, tables.wins, tables.wins + tables.wins.T
        pairs = [
            WinRateRow(
                dimension=meetings.name,
                entrant_a=systems[a],
                entrant_b=systems[b],
                wins_a=int(won[a, b]),
                wins_b=int(won[b, a]),
                ties=int(met[a, b] - won[a, b] - won[b, a]),
                inconsistent=0,
                same_text=0,
                unjudged=0,
                judged=int(met[a, b]),
                win_rate_a=float(shares[a, b] / weight[a, b]),
            )
            for a, b in combinations(range(len(systems)), 2)
            if met[a, b]
        ]
        win_rates = dict(zip(systems, shares.sum(axis=1) / weight.sum(axis=1), strict=True))
        rows = [
            LeaderboardRow(
                **{column: getattr(row, column) for column in _OF_RATINGS - {"dimension"}},
                dimension=meetings.name,
                win_rate=float(win_rates[row.entrant_id]),
            )
            for row in placed_rows(standings)
        ]
        board = Statements.of(rows, claimed(pairs, standings), dimension=meetings.name)
        return cls(meetings, settings, board)

    @property
    def verdict(self) -> str:
        """Who comes first, and all that is claimed of it."""
        return render(verdict(self.board, equivalent_within=self.settings.equivalent_within))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the claims rest on, and what is missing or left out."""
        of, within = self.meetings, self.settings.equivalent_within
        n_groups = of.tables.n_prompts
        groups = "" if n_groups == of.n_items else f" in {format_plural(n_groups, 'group')}"
        margin = "" if of.means is None else f", ±{of.margin(within):.3g} of mean score"
        return (
            f"{format_plural(of.n_items, 'item')}{groups}; all claims hold together at "
            f"{format_confidence(self.settings.confidence)}. Equivalent is within ±{within:g} Elo "
            f"points{margin}.",
            *of.notes,
        )

    @property
    def section(self) -> ReportSection:
        """The verdict, everyone's place, and every two."""
        of = self.meetings
        means: dict[str, Cell[LeaderboardRow]] = {}
        leads: dict[str, Cell[PairStatement]] = {}
        if of.means is not None:
            means = {"mean score": lambda row: f"{of.mean(row.entrant_id):.4g}"}
            leads = {"lead in mean score": lambda pair: _spelt(of.lead(pair))}
        ratings = select_columns(LeaderboardRow, "rating", "interval", "win_rate")
        records = select_columns(PairStatement, "record.wins", "record.losses", "record.ties")
        systems = ReportTable.of(
            self.board.rows,
            select_columns(LeaderboardRow, "places_and_group", "entrant_id") | means | ratings,
            n_labels=2,
        )
        pairs = ReportTable.of(
            [*self.board.pairs.values()][:_MOST_PAIRS],
            select_columns(PairStatement, "upper", "lower", "claim")
            | leads
            | {"lead in Elo points": lambda pair: pair.difference_with_interval}
            | records,
            n_labels=3,
            subject=(0, 1),
        )
        tables = (("", systems), ("Every two", pairs))
        notes = ReportSection("Notes", self.notes, is_note=True, is_open=True)
        return ReportSection(
            self.board.dimension, (self.verdict,), tables, folds=(notes,), is_open=True
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every number, for JSON."""
        of, within = self.meetings, self.settings.equivalent_within
        return {
            "score": of.name,
            "items": of.n_items,
            "groups": of.tables.n_prompts,
            "confidence": self.settings.confidence,
            "margin": {
                "elo": within,
                "mean_score": None if of.means is None else of.margin(within),
            },
            "verdict": self.verdict,
            "systems": [
                {**asdict(row), "places": row.places, "mean_score": of.mean(row.entrant_id)}
                for row in self.board.rows
            ],
            "pairs": [
                {**asdict(pair), "lead": asdict(of.lead(pair))}
                for pair in self.board.pairs.values()
            ],
            "notes": self.notes,
        }


def claims_document(title: str, claims: Sequence[Claims]) -> Document:
    """Return what is claimed, as a document."""
    return Document(title, [each.section for each in claims])


def _spelt(lead: Estimate) -> str | None:
    if lead.value is None:
        return None
    ends = ("unbounded" if end is None else f"{end:+.3g}" for end in (lead.low, lead.high))
    return f"{lead.value:+.3g} ({' to '.join(ends)})"
