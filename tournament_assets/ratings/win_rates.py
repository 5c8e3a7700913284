"""How every pair of entrants fared against each other."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.tournament.verdicts import Judgment, Outcome

_SEEN_FROM_B = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Every judgment between two entrants, counted by how it was settled.

    Attributes:
        entrant_a: The entrant whose name comes first.
        entrant_b: The other one.
        wins_a: Pairs that `entrant_a` won.
        wins_b: Pairs that `entrant_b` won.
        ties: Pairs that both presentations called a tie.
        inconsistent: Pairs whose two presentations disagreed.
        same_text: Pairs whose two responses are the same text; the judge was not asked.
        unjudged: Pairs without two readable replies; in no rate.
    """

    entrant_a: str
    entrant_b: str
    wins_a: int
    wins_b: int
    ties: int
    inconsistent: int
    same_text: int
    unjudged: int

    @property
    def judged(self) -> int:
        """Pairs that the judge was asked about, with two readable replies."""
        return self.wins_a + self.wins_b + self.ties + self.inconsistent

    @property
    def settled(self) -> int:
        """Judged pairs and those of one text: what the win rate is of."""
        return self.judged + self.same_text

    @property
    def win_rate_a(self) -> float | None:
        """Share of the settled pairs that `entrant_a` won, or None if none was settled.

        Ties, inconsistent pairs and pairs of one text count half.
        """
        if self.settled == 0:
            return None
        level = self.ties + self.inconsistent + self.same_text
        return (self.wins_a + level / 2) / self.settled


def pairwise_winrates(judgments: Iterable[Judgment]) -> list[PairCounts]:
    """Count the judgments of every pair of entrants, whichever of them was shown first.

    Returns:
        One row per pair that occurs, sorted by the names of the two.
    """
    outcomes: dict[tuple[str, str], Counter[Outcome]] = {}
    for judgment in judgments:
        pair = (judgment.entrant_a, judgment.entrant_b)
        outcome = judgment.outcome
        if judgment.entrant_b < judgment.entrant_a:
            pair = (judgment.entrant_b, judgment.entrant_a)
            outcome = _SEEN_FROM_B.get(outcome, outcome)
        outcomes.setdefault(pair, Counter())[outcome] += 1
    return [
        PairCounts(
            entrant_a=entrant_a,
            entrant_b=entrant_b,
            wins_a=counts[Outcome.A_WINS],
            wins_b=counts[Outcome.B_WINS],
            ties=counts[Outcome.TIE],
            inconsistent=counts[Outcome.INCONSISTENT],
            same_text=counts[Outcome.SAME_TEXT],
            unjudged=counts[Outcome.UNJUDGED],
        )
        for (entrant_a, entrant_b), counts in sorted(outcomes.items())
    ]
