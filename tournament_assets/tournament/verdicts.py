"""What a judge's reply says, and how replies and judges settle a pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What one reply says, or the reason why there is nothing it says.

    Missing is never a value: only the first three members are verdicts, and none of the others
    is ever turned into one.
    """

    A = "A"
    B = "B"
    TIE = "TIE"
    REFUSED = "refused"
    """The judge declined to judge."""
    UNREADABLE = "unreadable"
    """The reply ends in no verdict line, or was cut off before one."""
    PERMANENT = "permanent"
    """The request can never succeed as it stands."""
    PENDING = "pending"
    """No reply yet."""

    @property
    def is_decided(self) -> bool:
        """Whether the reply says A, B or TIE."""
        return self in (Verdict.A, Verdict.B, Verdict.TIE)


class Outcome(StrEnum):
    """How a pair was settled from its two presentations."""

    A_WINS = "a_wins"
    B_WINS = "b_wins"
    TIE = "tie"
    INCONSISTENT = "inconsistent"
    """Both replies are readable and they disagree once the positions are undone."""
    SAME_TEXT = "same_text"
    """Both responses are the same text, so the judge was not asked; nobody won."""
    UNJUDGED = "unjudged"
    """At least one of the replies says nothing."""

    @property
    def is_decisive(self) -> bool:
        """Whether somebody won."""
        return self in (Outcome.A_WINS, Outcome.B_WINS)

    @property
    def is_tie(self) -> bool:
        """Whether the two are level, by the judge's word or because their texts are the same."""
        return self in (Outcome.TIE, Outcome.SAME_TEXT)

    @property
    def is_judged(self) -> bool:
        """Whether the judge was asked and both replies are readable."""
        return self not in (Outcome.SAME_TEXT, Outcome.UNJUDGED)


@dataclass(frozen=True, slots=True)
class Judgment:
    """One pair, settled on one dimension.

    Attributes:
        prompt_id: The prompt both entrants answered.
        dimension: The quality that was judged.
        entrant_a: The entrant shown first in the first presentation.
        entrant_b: The other one.
        outcome: How the pair was settled.
        weight: How many prompts it stands for: 1 unless it is one of a sample.
    """

    prompt_id: str
    dimension: str
    entrant_a: str
    entrant_b: str
    outcome: Outcome
    weight: float = 1.0

    @property
    def winner(self) -> str | None:
        """The entrant that won, or None for a tie, an inconsistent or an unjudged pair."""
        if self.outcome is Outcome.A_WINS:
            return self.entrant_a
        if self.outcome is Outcome.B_WINS:
            return self.entrant_b
        return None

    @property
    def inconsistent(self) -> bool:
        """Whether the two presentations were both readable and disagreed."""
        return self.outcome is Outcome.INCONSISTENT


def settle_together(votes: Sequence[tuple[Outcome, float]]) -> Outcome:
    """Settle one pair from how several judges settled it, by the most weight.

    A judge who was asked and says nothing keeps its weight: unless more than half of the weight
    was used the pair is unjudged, so that one of three who answers does not decide alone.

    Args:
        votes: Each asked judge's outcome and the weight of its word, above 0.

    Returns:
        The winner with more weight than the other and than all that is level. Otherwise nobody
        won: a tie where what is level has the most weight and more of it says so than was
        inconsistent; else inconsistent, as when the judges contradict each other.
    """
    weights = dict.fromkeys(Outcome, 0.0)
    for outcome, weight in votes:
        weights[outcome] += weight
    total, silent = sum(weights.values()), weights[Outcome.UNJUDGED]
    if 2 * silent >= total:
        return Outcome.UNJUDGED
    if weights[Outcome.SAME_TEXT]:
        return Outcome.SAME_TEXT
    level = weights[Outcome.TIE] + weights[Outcome.INCONSISTENT]
    first, second = weights[Outcome.A_WINS], weights[Outcome.B_WINS]
    if first > max(second, level):
        return Outcome.A_WINS
    if second > max(first, level):
        return Outcome.B_WINS
    is_tie = weights[Outcome.TIE] > weights[Outcome.INCONSISTENT] and level > max(first, second)
    return Outcome.TIE if is_tie else Outcome.INCONSISTENT
