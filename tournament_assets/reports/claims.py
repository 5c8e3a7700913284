"""Who is best, who is equivalent and what is undecided, as the tables bear out.

Every statement about entrants rests on a claim of two of them in table "win_rates", or on the
places that follow from all claims together; see `ratings.standings`. *Better* is said where the
joint interval of the difference excludes 0, or judging decided so and stopped; *equivalent* where
the interval lies within the margin that does not matter, and *undecided* of everything else.
*Best* is who is better than everybody that wrote something else: no claim follows from two others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Literal

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import (
    Display,
    expected_share,
    format_claim,
    format_interval,
)
from tournament_assets.ratings.rating_tables import LEVEL
from tournament_assets.ratings.standings import NO_INTERVAL, Claim
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

PairWord = Literal["better", "worse", "equivalent", "undecided"]
"""What is claimed of the first of two."""


@dataclass(frozen=True, slots=True)
class PairRecord:
    """How one entrant fared against another.

    Attributes:
        wins: Judged pairs that it won.
        losses: Judged pairs that the other won.
        ties: Judged pairs that both presentations called a tie.
        inconsistent: Judged pairs whose two presentations disagree.
        same_text: Pairs whose two responses are the same text; the judge was not asked.
        unjudged: Pairs without two readable replies.
        share: Its share of the settled pairs, ties as halves; None where none was settled.
    """

    wins: Annotated[int, Display("won")] = 0
    losses: Annotated[int, Display("lost")] = 0
    ties: Annotated[int, Display("tied")] = 0
    inconsistent: Annotated[int, Display("inconsistent")] = 0
    same_text: Annotated[int, Display("same text")] = 0
    unjudged: int = 0
    share: float | None = None

    @property
    def judged(self) -> int:
        """Pairs that the judge settled."""
        return self.wins + self.losses + self.ties + self.inconsistent

    @property
    def settled(self) -> int:
        """All pairs but the unjudged."""
        return self.judged + self.same_text

    @property
    def is_all_same_text(self) -> bool:
        """Whether all their responses are the same, so that nothing can tell the two apart."""
        return self.same_text > 0 and self.same_text == self.settled + self.unjudged


@dataclass(frozen=True, slots=True)
class PairStatement:
    """What is known of two entrants, the upper one first.

    Attributes:
        claim: Whether the upper one is better, the two are equivalent, or it is undecided; worse
            only where decisions go in a circle.
        difference: The upper one's rating less the lower one's, with its joint interval; where
            none was made, a note says why.
        record: How the upper one fared.
    """

    upper: Annotated[str, Display("upper")]
    lower: Annotated[str, Display("lower")]
    claim: Annotated[PairWord, Display("claim")]
    difference: Estimate
    record: PairRecord

    @property
    def difference_with_interval(self) -> Annotated[str, Display("difference (interval)")]:
        """The difference in Elo points with its joint interval, if one was made."""
        if self.difference.value is None:
            return "open"
        if self.difference.note:
            return f"{self.difference.value:+.1f}"
        ends = format_interval(self.difference.low, self.difference.high, absent="unbounded")
        return f"{self.difference.value:+.1f} ({ends})"

    @property
    def is_decided(self) -> bool:
        """Whether one of the two is better."""
        return self.claim in ("better", "worse")

    @property
    def is_against_record(self) -> bool:
        """Whether the one that is rated lower has more than half of the pairs of the two."""
        share, lead = self.record.share, self.difference.value
        return share is not None and lead is not None and (share - 0.5) * lead < 0

    @property
    def expected(self) -> Estimate:
        """The upper one's expected share of the wins: its Elo difference as a probability."""
        value, low, high = (
            None if points is None else expected_share(points)
            for points in (self.difference.value, self.difference.low, self.difference.high)
        )
        return Estimate(value, low, high, self.difference.n)


def against_ratings(rows: Sequence[LeaderboardRow]) -> list[tuple[str, str]]:
    """Return the better and the worse of every two of whom the better one is rated lower.

    Only what was decided while judging can stand against the ratings, which count all pairs.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
    """
    rated = [(row, row.rating) for row in rows if row.rating is not None]
    return [
        (row.entrant_id, below.entrant_id)
        for row, rating in rated
        for below, its in rated
        if below.entrant_id in row.shown_above and rating < its - LEVEL
    ]


def mark(text: str, pair: Sequence[str], rows: Sequence[LeaderboardRow]) -> str:
    """Return what is said of two entrants, marked where their claim stands against the ratings."""
    is_against = any({*names} == {*pair} for names in against_ratings(rows))
    return f"{text}, against the ratings" if is_against else text


def claim_words(
    pair: PairStatement, rows: Sequence[LeaderboardRow], *, equivalent_within: float
) -> str:
    """Return a claim with its margin, marked where others of their results say the opposite."""
    words = mark(format_claim(pair.claim, equivalent_within), (pair.upper, pair.lower), rows)
    return f"{words}; rated against their own pairs" if pair.is_against_record else words


def pair_records(win_rates: Iterable[WinRateRow]) -> dict[tuple[str, str], PairRecord]:
    """Return how each entrant fared against each other one, by rows of one dimension."""
    records = {}
    for row in win_rates:
        a, b, share = row.entrant_a, row.entrant_b, row.win_rate_a
        rest = (row.ties, row.inconsistent, row.same_text, row.unjudged)
        records[a, b] = PairRecord(row.wins_a, row.wins_b, *rest, share)
        turned = None if share is None else 1 - share
        records[b, a] = PairRecord(row.wins_b, row.wins_a, *rest, turned)
    return records


def judges_of(rows: Iterable[LeaderboardRow]) -> str:
    """Return the kinds of judges behind a leaderboard."""
    return "; ".join(sorted({row.judge_title for row in rows if row.judge is not None}))


@dataclass(frozen=True, slots=True)
class Statements:
    """All that is known of a dimension's entrants.

    Attributes:
        dimension: The quality that was judged.
        rows: All entrants, best first.
        placed: Entrants with a rank, best first.
        pairs: Every two of the placed ones, the upper one first.
    """

    dimension: str
    rows: tuple[LeaderboardRow, ...]
    placed: tuple[LeaderboardRow, ...]
    pairs: Mapping[tuple[str, str], PairStatement]

    @classmethod
    def of(
        cls, rows: Sequence[LeaderboardRow], win_rates: Sequence[WinRateRow], *, dimension: str
    ) -> "Statements":
        """Return the statements that the tables make.

        Args:
            rows: Rows of table "leaderboard" of one dimension, best entrant first.
            win_rates: Rows of table "win_rates"; those of other dimensions are ignored.
        """
        of_dimension = (row for row in win_rates if row.dimension == dimension)
        met = {frozenset((row.entrant_a, row.entrant_b)): row for row in of_dimension}
        placed = tuple(row for row in rows if row.rank is not None)
        pairs = {
            (upper.entrant_id, lower.entrant_id): _pair(
                upper, lower, met.get(frozenset((upper.entrant_id, lower.entrant_id)))
            )
            for upper, lower in combinations(placed, 2)
        }
        return cls(dimension, tuple(rows), placed, pairs)

    @property
    def leader(self) -> LeaderboardRow | None:
        """The first in the order; None if fewer than two have a place."""
        return self.placed[0] if len(self.placed) > 1 else None

    @property
    def runner_up(self) -> LeaderboardRow | None:
        """The next that wrote other answers than the leader."""
        if self.leader is None:
            return None
        return next(
            (row for row in self.placed[1:] if row.entrant_id not in self.leader.same_answers_as),
            None,
        )

    @property
    def circle(self) -> tuple[str, ...]:
        """Where nobody is first, some each better than the next, and the last than the first."""
        above = {
            lower: row.entrant_id for row in reversed(self.placed) for lower in row.shown_above
        }
        if self.leader is None or any(row.entrant_id not in above for row in self.placed):
            return ()
        path, name = list[str](), self.leader.entrant_id
        while name not in path:
            path.append(name)
            name = above[name]
        members = path[path.index(name) :][::-1]
        first = members.index(self.in_order(members)[0])
        return tuple(members[first:] + members[:first])

    @property
    def best(self) -> tuple[str, ...]:
        """The first, and who wrote the same and beats the same, if it is better than all others."""
        leader = self.leader
        if leader is None or self.runner_up is None or self.n_only_of_one_text:
            return ()
        covered = {leader.entrant_id, *leader.same_answers_as, *leader.shown_above}
        if any(row.entrant_id not in covered for row in self.placed):
            return ()
        alike = (row for row in self.placed if row.entrant_id in leader.same_answers_as)
        equals = (row for row in alike if {*leader.shown_above} <= {*row.shown_above})
        return (leader.entrant_id, *(row.entrant_id for row in equals))

    @property
    def n_only_of_one_text(self) -> int:
        """How many pairs are of one text, if the judge settled no other; else 0."""
        records = [pair.record for pair in self.pairs.values()]
        is_judged = any(record.judged for record in records)
        return 0 if is_judged else sum(record.same_text for record in records)

    @property
    def is_judged(self) -> bool:
        """Whether anybody has a settled pair."""
        return any(row.win_rate is not None for row in self.rows)

    @property
    def top(self) -> tuple[str, ...]:
        """Those that may be first, as nobody is above them; none if all wrote what one wrote."""
        names = tuple(row.entrant_id for row in self.placed if row.rank_best == 1)
        if self.leader is None or self.n_only_of_one_text:
            return ()
        return () if {*names} <= {self.leader.entrant_id, *self.leader.same_answers_as} else names

    @property
    def stops_early(self) -> bool:
        """Whether the judge was not asked about every pair."""
        return self.leader is not None and self.leader.stops is not None

    @property
    def best_rests_on(self) -> tuple[str, ...]:
        """The prompts without which a best entrant is not first alone; none if nobody is best."""
        return self.leader.lead_rests_on if self.leader and self.best else ()

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        """Return some entrants best first."""
        return tuple(row.entrant_id for row in self.placed if row.entrant_id in names)

    def is_rated_highest(self, entrant: LeaderboardRow) -> bool:
        """Whether nobody else has so high a rating, or stands above all that are rated."""
        return (
            entrant.rating is not None
            and entrant.rank == 1
            and all(
                row.rating is None or row.rating < entrant.rating
                for row in self.placed
                if row.entrant_id != entrant.entrant_id
            )
        )

    def beaten_by(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those that every one of some is better than, best first."""
        above = [{*row.shown_above} for row in self.placed if row.entrant_id in names]
        return self.in_order(set.intersection(*above)) if above else ()


def statements_by_dimension(
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    win_rates: Mapping[str, Sequence[WinRateRow]],
) -> dict[str, Statements]:
    """Return the statements that the tables make, by dimension."""
    return {
        name: Statements.of(rows, win_rates[name], dimension=name)
        for name, rows in leaderboard.items()
    }


def _pair(upper: LeaderboardRow, lower: LeaderboardRow, row: WinRateRow | None) -> PairStatement:
    names = upper.entrant_id, lower.entrant_id
    claim: PairWord = "undecided"
    if lower.entrant_id in upper.shown_above:
        claim = "better"
    elif upper.entrant_id in lower.shown_above:
        claim = "worse"
    if row is None:
        return PairStatement(*names, claim, Estimate(), PairRecord())
    if row.claim == Claim.EQUIVALENT:
        claim = "equivalent"
    record = pair_records([row])[names]
    value, low, high = row.difference, row.difference_low, row.difference_high
    if row.entrant_a != upper.entrant_id:
        value, high, low = (None if end is None else -end for end in (value, low, high))
    note = None if upper.stops is None else NO_INTERVAL
    difference = Estimate(value, low, high, record.settled, note)
    return PairStatement(*names, claim, difference, record)


MOST_PAIRS = 8
"""Most pairs that are listed, closest first."""


def open_pairs(board: Statements) -> list[PairStatement]:
    """Return the pairs of entrants of which neither is better, closest first."""
    pairs = [pair for pair in board.pairs.values() if not pair.is_decided]
    return sorted(
        pairs,
        key=lambda pair: (
            pair.difference.value is None,
            abs(pair.difference.value or 0.0),
            pair.upper,
            pair.lower,
        ),
    )
