"""What must be said of a dimension's entrants, found slowly and plainly from its tables' rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.claims import PairRecord, PairStatement, PairWord
from tournament_assets.reports.statements import (
    Better,
    Careful,
    Equivalent,
    Fragile,
    Missing,
    Statement,
    Undecided,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

Names = tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the tables say of one dimension.

    Attributes:
        rows: Rows of table "leaderboard", best entrant first.
        met: Rows of table "win_rates" of the dimension.
        within: The largest difference that does not matter, in Elo points.
        confidence: Of all claims together.
    """

    rows: Sequence[LeaderboardRow]
    met: Sequence[WinRateRow]
    dimension: str
    within: float = 20.0
    confidence: float = 0.95

    @cached_property
    def by_name(self) -> dict[str, LeaderboardRow]:
        """Every row by its entrant."""
        return {row.entrant_id: row for row in self.rows}

    @cached_property
    def names(self) -> Names:
        """Entrants with a rank, in order."""
        return tuple(row.entrant_id for row in self.rows if row.rank is not None)

    @property
    def leader(self) -> str:
        """The first in the order."""
        return self.names[0]

    @cached_property
    def rivals(self) -> Names:
        """Everyone with a rank who wrote something else than the first."""
        return tuple(name for name in self.names[1:] if not self.is_copy(name, self.leader))

    @property
    def basis(self) -> float | None:
        """With which the claims hold together; None where judging decided them."""
        return None if self.by_name[self.leader].stops else self.confidence

    @cached_property
    def met_by(self) -> dict[frozenset[str], WinRateRow]:
        """Every row of two that met, by the two."""
        return {frozenset((row.entrant_a, row.entrant_b)): row for row in self.met}

    def is_copy(self, one: str, other: str) -> bool:
        """Tell whether two wrote the same wherever they met."""
        row = self.met_by.get(frozenset((one, other)))
        return row is not None and row.same_text > 0 and row.judged == row.unjudged == 0

    @cached_property
    def better(self) -> set[tuple[str, str]]:
        """Every two of whom the first is better, which both tables must say."""
        pairs = {(one, other) for one in self.names for other in self.by_name[one].shown_above}
        for row in self.met:
            ahead = (
                {(row.entrant_a, row.entrant_b)} & pairs,
                {(row.entrant_b, row.entrant_a)} & pairs,
            )
            assert bool(ahead[0]) == (row.claim == "a_better"), f"the tables disagree on {row}"
            assert bool(ahead[1]) == (row.claim == "b_better"), f"the tables disagree on {row}"
            assert not ahead[0] or row.difference_low is None or row.difference_low >= 0, row
            assert not ahead[1] or row.difference_high is None or row.difference_high <= 0, row
            if not ahead[0] and not ahead[1] and self.basis is not None:
                assert row.difference_low is None or row.difference_low <= 0, row
                assert row.difference_high is None or row.difference_high >= 0, row
            if row.claim == "equivalent":
                ends = row.difference_low, row.difference_high
                assert all(end is not None and abs(end) <= self.within for end in ends), row
        return pairs

    def is_above(self, names: Iterable[str], other: str) -> bool:
        """Tell whether all of some are better than another."""
        return all((name, other) in self.better for name in names)

    def pair(self, one: str, other: str) -> PairStatement:
        """Return what the rows say of two, seen from the first."""
        row = self.met_by.get(frozenset((one, other)))
        word: PairWord = "undecided"
        if (one, other) in self.better:
            word = "better"
        elif (other, one) in self.better:
            word = "worse"
        if row is None:
            return PairStatement(one, other, word, Estimate(), PairRecord())
        if row.claim == "equivalent":
            word = "equivalent"
        wins, losses = row.wins_a, row.wins_b
        low, high = row.difference_low, row.difference_high
        value, share = row.difference, row.win_rate_a
        if row.entrant_a != one:
            wins, losses = losses, wins
            high, low = (None if end is None else -end for end in (low, high))
            value, share = (
                (None if value is None else -value),
                (share if share is None else 1 - share),
            )
        n = row.judged + row.same_text
        note = "no interval was made, since judging stopped early" if self.basis is None else None
        rest = row.ties, row.inconsistent, row.same_text, row.unjudged
        record = PairRecord(wins, losses, *rest, share)
        return PairStatement(one, other, word, Estimate(value, low, high, n, note), record)

    @cached_property
    def unbeaten(self) -> Names:
        """Everyone with a rank whom nobody is better than."""
        return tuple(
            name for name in self.names if not any(other == name for _, other in self.better)
        )

    def rated_highest(self, name: str) -> bool:
        """Tell whether everyone else with a rank has a lower rating, or none."""
        row = self.by_name[name]
        others = (self.by_name[other].rating for other in self.names if other != name)
        return (
            row.rating is not None
            and row.rank == 1
            and all(rating is None or rating < row.rating for rating in others)
        )

    def missing(self) -> Missing | None:
        """Return why nobody can be first; None if somebody can."""
        on = self.dimension
        if len(self.names) < 2:
            is_judged = any(row.win_rate_a is not None for row in self.met)
            return Missing(dimension=on, what="rank" if is_judged else "pair")
        if not self.rivals:
            return Missing(dimension=on, what="difference")
        rows = [self.met_by.get(frozenset(pair)) for pair in combinations(self.names, 2)]
        n_pairs = sum(row.same_text for row in rows if row is not None)
        if n_pairs and not any(row.judged for row in rows if row is not None):
            return Missing(dimension=on, what="judgment", n_pairs=n_pairs)
        return None

    def outcome(self) -> Statement:
        """Return how the dimension ended, where claims do not go in a circle."""
        if (missing := self.missing()) is not None:
            return missing
        on, leader, top = self.dimension, self.leader, self.unbeaten
        beaten = tuple(name for name in self.names if (leader, name) in self.better)
        if all((leader, name) in self.better for name in self.rivals):
            copies = [name for name in self.names[1:] if self.is_copy(name, leader)]
            equals = (name for name in copies if all(self.is_above([name], x) for x in beaten))
            pair = self.pair(leader, self.rivals[0]) if beaten[0] == self.rivals[0] else None
            return Better(dimension=on, names=(leader, *equals), beaten=beaten, pair=pair)
        if all(name == leader or self.is_copy(name, leader) for name in top):
            return Undecided(dimension=on, first=leader, also=beaten)
        below = tuple(x for x in self.names if x not in top and self.is_above(top, x))
        pair = self.pair(*top) if len(top) == 2 else None
        apart = [two for two in combinations(top, 2) if not self.is_copy(*two)]
        if all(self.pair(*two).claim == "equivalent" for two in apart):
            return Equivalent(dimension=on, names=top, margin=self.within, beaten=below, pair=pair)
        return Undecided(
            dimension=on,
            names=top,
            first=leader,
            is_everybody=top == self.names,
            highest=leader if len(top) > 2 and self.rated_highest(leader) else "",
            beaten=below,
            also=tuple(name for name in beaten if name not in below),
            pair=pair,
        )

    def fragile(self) -> list[Fragile]:
        """Return what the first place rests on, if somebody is best and it was found."""
        first = self.by_name[self.leader]
        if not isinstance(self.outcome(), Better) or not first.lead_rests_on:
            return []
        at_least = first.lead_rests_on_at_least or 1
        return [
            Fragile(
                dimension=self.dimension,
                names=(self.leader,),
                prompts=first.lead_rests_on,
                at_least=at_least,
            )
        ]

    def check_circle(self, circle: Statement) -> None:
        """Check that claims go in a circle, and that nobody may be first."""
        assert isinstance(circle, Careful)
        assert (circle.why, self.unbeaten) == ("circle", ())
        upper, lower = zip(*circle.pairs, strict=True)
        assert {*circle.pairs} <= self.better
        assert (*upper[1:], upper[0]) == lower
        assert len({*upper}) == len(upper) > 2
        assert upper[0] == min(upper, key=self.names.index)

    def check_cautions(self, cautions: Sequence[Statement]) -> None:
        """Check who is decided against the ratings, who wrote the same, and who has no rating."""
        on, ratings = self.dimension, {name: self.by_name[name].rating for name in self.names}
        against = tuple(
            (one, other)
            for one, other in permutations(self.names, 2)
            if (one, other) in self.better
            and None not in (ratings[one], ratings[other])
            and (ratings[one] or 0.0) < (ratings[other] or 0.0)
        )
        expected = [Careful(dimension=on, why="ratings", pairs=against)] if against else []
        notes = dict.fromkeys(row.note for row in self.rows if row.note)
        groups = [x for x in cautions if isinstance(x, Careful) and x.why == "copies"]
        assert [*cautions] == [
            *expected,
            *groups,
            *(
                Missing(
                    dimension=on,
                    what="rating",
                    names=tuple(row.entrant_id for row in self.rows if row.note == note),
                    note=note,
                )
                for note in notes
            ),
        ]
        assert all(row.rating is None for row in self.rows if row.note)
        covered = set[frozenset[str]]()
        for group in groups:
            assert group.names == tuple(name for name in self.by_name if name in group.names)
            assert all(self.is_copy(*two) for two in combinations(group.names, 2))
            outside = set(self.by_name) - set(group.names)
            assert not any(all(self.is_copy(x, y) for y in group.names) for x in outside)
            covered |= {frozenset(two) for two in combinations(group.names, 2)}
        copies = (two for two in combinations(self.by_name, 2) if self.is_copy(*two))
        assert covered == {frozenset(two) for two in copies}
