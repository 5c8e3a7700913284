"""Who is better in other tools' results: places and claims, as of a tournament's entrants.

Every two systems meet on each item that both have a score on, and settle it: the share of the win
is a half and half the difference of their scores over the range of all scores. With scores of 0 and
1 that is a win, a tie or a loss; between them, a score counts as that part of a pass. So the order
is that of the mean scores where no score is missing, and two are equal where their means are.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tournament_assets.battles.columns import code_battles, different_names, of_dimension
from tournament_assets.battles.registry import PooledBattles
from tournament_assets.extras.results.reading import ScoreTable
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_count,
    format_plural,
    format_share,
)
from tournament_assets.ratings.bradley_terry import DrawWins, ResampledWins
from tournament_assets.ratings.rating_methods import placed_rows
from tournament_assets.ratings.rating_tables import claimed
from tournament_assets.ratings.standings import stand_entrants
from tournament_assets.reports.claims import PairStatement, Statements, open_pairs
from tournament_assets.reports.report_tables import (
    Cell,
    Document,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.reports.statements import claim_counts, verdict_sentence
from tournament_assets.tournament.asset_rows import LeaderboardRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings

By = Literal["means", "wins"]
"""Whether a pair is settled by how far apart two scores are, or by which is better alone."""
_LISTED = 10
"""Most undecided and equivalent pairs that a terminal lists, closest first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedResults:
    """Systems that met on items, whoever scored or judged them.

    Attributes:
        name: What was scored or judged.
        tables: The shares of the wins, and their resamples.
        won: How often the row's system was better than the column's, shape (n, n).
        met: How often the two met, shape (n, n), symmetric.
        n_items: The items, or prompts.
        means: Each system's mean score, shape (n,), and every two's on the items that both have,
            the row's, shape (n, n); None of battles.
        span: The range of the scores; 1 of battles.
        notes: Sentences on what was left out.
    """

    name: str
    tables: ResampledWins
    won: NDArray[np.float64]
    met: NDArray[np.float64]
    n_items: int
    means: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    span: float = 1.0
    notes: tuple[str, ...] = ()


def pair_scores(table: ScoreTable, resampling: Resampling, *, by: By = "means") -> PairedResults:
    """Let every two systems meet on the items that both have a score on."""
    values = -table.values if table.lower_is_better else table.values
    has_score = ~np.isnan(values)
    low, high = np.nanmin(values), np.nanmax(values)
    is_part = 0 <= np.nanmin(table.values) and np.nanmax(table.values) <= 1
    span = 1.0 if is_part or low == high else float(high - low)
    n, n_groups = len(table.systems), int(table.groups.max()) + 1
    gained, won, met = np.zeros((n_groups, n, n)), np.zeros((n, n)), np.zeros((n, n))
    of_both = np.zeros((n, n))
    for row, scored, group in zip(values, has_score, table.groups, strict=True):
        both = scored[:, None] & scored
        np.fill_diagonal(both, val=False)
        lead = np.where(both, row[:, None] - row, 0.0)
        gained[group] += both * (0.5 + (np.sign(lead) if by == "wins" else lead / span) / 2)
        won += lead > 0
        met += both
        of_both += np.where(both, row[:, None], 0.0)
    sign = -1 if table.lower_is_better else 1
    with np.errstate(invalid="ignore"):
        means = sign * np.nanmean(values, axis=0), sign * of_both / met
    return PairedResults(
        name=table.score,
        tables=_resampled(table.systems, gained, resampling),
        won=won,
        met=met,
        n_items=len(table.items),
        means=means,
        span=span,
        notes=table.notes,
    )


def _resampled(
    systems: tuple[str, ...], gained: NDArray[np.float64], resampling: Resampling
) -> ResampledWins:
    """Return shares of wins of shape (n_groups, n, n) with resamples of whole groups."""
    n_groups, n, _ = gained.shape
    flat = gained.reshape(n_groups, n * n)

    def start() -> DrawWins:
        generator = np.random.default_rng(resampling.seed)
        chances = np.full(n_groups, 1 / n_groups)

        def draw(n_tables: int) -> NDArray[np.float64]:
            counts = generator.multinomial(n_groups, chances, size=n_tables)
            return (counts @ flat).reshape(n_tables, n, n)

        return draw

    return ResampledWins(systems, gained.sum(axis=0), n_groups, resampling, start)


def pair_battles(pooled: PooledBattles, resampling: Resampling) -> list[PairedResults]:
    """Return the systems of battles, by dimension; battles on one prompt are resampled together."""
    table = pooled.battles
    names: list[str | None] = [*different_names(table, "dimension")]
    results = []
    for name in [*names, None] if table.column("dimension").null_count else names:
        coded = code_battles(of_dimension(table, name))
        met = coded.apart.table()
        results.append(
            PairedResults(
                name=name or "wins",
                tables=ResampledWins.of(coded.matches, resampling),
                won=coded.winners.decisive().table(),
                met=met + met.T,
                n_items=len(coded.matches.prompts),
                notes=(*pooled.warnings, *pooled.notes),
            )
        )
    return results


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimedResults:
    """What is claimed of systems.

    Attributes:
        settings: How they were rated and compared.
        rows: Everyone's place and rating, best first.
        pairs: Every two's record and claim.
        board: What the rows and pairs say.
    """

    results: PairedResults
    settings: RatingSettings
    rows: tuple[LeaderboardRow, ...]
    pairs: tuple[WinRateRow, ...]
    board: Statements

    @property
    def verdict(self) -> str:
        """Who comes first, and all that is claimed of it."""
        return verdict_sentence(
            self.rows,
            self.pairs,
            dimension=self.results.name,
            confidence=self.settings.confidence,
            equivalent_within=self.settings.equivalent_within,
        )

    @property
    def score_margin(self) -> float:
        """The largest difference of mean scores that does not matter."""
        return self.results.span * _lead_of(self.settings.equivalent_within)

    def mean(self, system: str) -> float | None:
        """Return a system's mean score; None of battles."""
        if self.results.means is None:
            return None
        return float(self.results.means[0][self.results.tables.entrants.index(system)])

    def difference(self, pair: PairStatement) -> Estimate:
        """Return the upper one's mean score less the lower one's on the items that both have.

        Its joint interval is that of the ratings' difference, stretched to the difference of the
        means, which keeps 0 where it is: the two exclude 0 together.
        """
        if self.results.means is None:
            return Estimate()
        upper, lower = map(self.results.tables.entrants.index, (pair.upper, pair.lower))
        of_both = self.results.means[1]
        value = float(of_both[upper, lower] - of_both[lower, upper])
        points, *ends = (
            None if each is None else self.results.span * _lead_of(each)
            for each in (pair.difference.value, pair.difference.low, pair.difference.high)
        )
        factor = value / points if points and value else 1.0
        factor *= -1 if value * (points or 0.0) < 0 else 1
        low, high = (None if each is None else each * factor for each in ends)
        return Estimate(value, low, high, pair.record.settled)


def _lead_of(points: float) -> float:
    """Return by how much of the range two mean scores differ that are some Elo points apart."""
    return float(np.tanh(points * np.log(10) / 800))


def claim(results: PairedResults, settings: RatingSettings) -> ClaimedResults:
    """Rate, order and compare the systems, all pairs together.

    Raises:
        InputError: If no two systems met.
    """
    systems, shares = results.tables.entrants, results.tables.wins
    if not results.met.any():
        raise InputError(f"{results.name}: no two systems met; expected scores of the same items")
    standings = stand_entrants(
        results.tables,
        equivalent_within=settings.equivalent_within,
        initial_rating=settings.initial_rating,
    )
    pairs = []
    for a, b in combinations(range(len(systems)), 2):
        met, won, lost = (
            int(each) for each in (results.met[a, b], results.won[a, b], results.won[b, a])
        )
        total = shares[a, b] + shares[b, a]
        pairs.append(
            WinRateRow(
                dimension=results.name,
                entrant_a=systems[a],
                entrant_b=systems[b],
                wins_a=won,
                wins_b=lost,
                ties=met - won - lost,
                inconsistent=0,
                same_text=0,
                unjudged=results.n_items - met if results.means is not None else 0,
                judged=met,
                win_rate_a=float(shares[a, b] / total) if total else None,
            )
        )
    met_by, won_by = (shares + shares.T).sum(axis=1), shares.sum(axis=1)
    places = {name: place for place, name in enumerate(systems)}
    rows = tuple(
        LeaderboardRow(
            **{name: getattr(row, name) for name in _OF_BOTH},
            dimension=results.name,
            win_rate=float(won_by[place] / met_by[place]) if met_by[place] else None,
            n=int(results.met[place].sum()),
        )
        for row in placed_rows(standings)
        for place in (places[row.entrant_id],)
    )
    named = tuple(row for row in claimed(pairs, standings) if row.judged)
    board = Statements.of(rows, named, dimension=results.name)
    return ClaimedResults(results=results, settings=settings, rows=rows, pairs=named, board=board)


_OF_BOTH = {each.name for each in fields(RatingRow)} & {
    each.name for each in fields(LeaderboardRow)
} - {"dimension", "n"}
"""What a rating's row and an entrant's have in common, beside the name of what was judged."""


def claims_document(title: str, claims: Sequence[ClaimedResults], *, is_whole: bool) -> Document:
    """Return what is claimed, as a document.

    Args:
        is_whole: Whether to list every two systems, not the closest alone.
    """
    return Document(title, [section for each in claims for section in _sections(each, is_whole)])


def _sections(of: ClaimedResults, is_whole: bool) -> list[ReportSection]:
    results, settings, counts = of.results, of.settings, claim_counts(of.board)
    confidence = format_confidence(settings.confidence)
    means: dict[str, Cell[LeaderboardRow]] = {}
    pair_means: dict[str, Cell[PairStatement]] = {}
    margin = f"±{settings.equivalent_within:g} Elo points"
    if results.means is not None:
        means = {"mean score": lambda row: _number(of.mean(row.entrant_id))}
        pair_means = {"difference of means (interval)": lambda pair: _spelt(of.difference(pair))}
        margin += f", ±{_number(of.score_margin)} of mean score"
    n_groups = results.tables.n_prompts
    clusters = "" if n_groups == results.n_items else f" in {format_plural(n_groups, 'group')}"
    facts = (
        f"{format_plural(results.n_items, 'item')}{clusters}, "
        f"{format_plural(len(of.rows), 'system')}. Of {format_plural(len(of.board.pairs), 'pair')} "
        f"of systems, one is better in {counts['better']}, they are equivalent (within {margin}) in "
        f"{counts['equivalent']}, and it is undecided in {counts['undecided']}."
    )
    systems = ReportTable.of(
        of.rows,
        select_columns(LeaderboardRow, "places_and_group", "entrant_id")
        | means
        | select_columns(LeaderboardRow, "rating", "interval", "win_rate"),
        n_labels=2,
    )
    pairs = [*of.board.pairs.values()] if is_whole else open_pairs(of.board)[:_LISTED]
    table = ReportTable.of(
        pairs,
        select_columns(PairStatement, "upper", "lower", "claim")
        | pair_means
        | {"Elo difference (interval)": lambda pair: pair.difference_with_interval}
        | select_columns(PairStatement, "record.wins", "record.losses", "record.ties")
        | {"more items": lambda pair: format_count(pair.more_prompts)},
        n_labels=3,
        subject=(0, 1),
    )
    notes = (
        f"Places, letters and intervals of differences hold together at {confidence}; whole "
        f"{'items' if not clusters else 'groups'} are resampled. More items would decide with 80 % "
        "probability, if the difference is as estimated.",
        *results.notes,
    )
    title = "Every two systems" if is_whole else "Neither is better, closest first"
    return [
        ReportSection(results.name, (of.verdict, facts), (("", systems),), is_open=True),
        *([ReportSection(title, (), (("", table),), is_open=True)] if pairs else []),
        ReportSection("How to read it", notes, is_note=True, is_open=True),
    ]


def _number(value: float | None) -> str:
    return ABSENT if value is None or np.isnan(value) else f"{value:.4g}"


def _spelt(of: Estimate) -> str | None:
    if of.value is None or np.isnan(of.value):
        return None
    ends = (of.low, of.high)
    interval = " to ".join("unbounded" if each is None else f"{each:+.3g}" for each in ends)
    return f"{of.value:+.3g} ({interval})"


def claims_values(of: ClaimedResults) -> dict[str, Any]:
    """Return every number of the claims, for JSON."""
    return {
        "score": of.results.name,
        "items": of.results.n_items,
        "groups": of.results.tables.n_prompts,
        "confidence": of.settings.confidence,
        "margin": {
            "elo": of.settings.equivalent_within,
            "score": None if of.results.means is None else of.score_margin,
        },
        "verdict": of.verdict,
        "systems": [
            {**asdict(row), "mean_score": of.mean(row.entrant_id), "places": row.places}
            for row in of.rows
        ],
        "pairs": [
            {**asdict(pair), "difference_of_means": asdict(of.difference(pair))}
            for pair in of.board.pairs.values()
        ],
        "notes": list(of.results.notes),
    }
