"""What a judge's reply says, and how a pair was settled."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from typing import Any, Self


class Verdict(StrEnum):
    """The verdict of one reply, or the reason why there is none.

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
    """At least one of the replies holds no verdict."""

    @classmethod
    def of_share(cls, share: float | None) -> "Outcome":
        """Return how a pair comes out of which the first entrant got a share, if it got one."""
        if share is None:
            return cls.UNJUDGED
        return cls.TIE if share == 0.5 else (cls.B_WINS, cls.A_WINS)[share > 0.5]

    @property
    def share(self) -> float | None:
        """The first entrant's share of the win; None where nothing was decided."""
        return _SHARES.get(self)

    @property
    def is_decisive(self) -> bool:
        """Whether somebody won."""
        return self in (Outcome.A_WINS, Outcome.B_WINS)

    @property
    def is_tie(self) -> bool:
        """Whether the two tie, by the judge's verdict or because their texts are identical."""
        return self in (Outcome.TIE, Outcome.SAME_TEXT)

    @property
    def is_judged(self) -> bool:
        """Whether the judge was asked and both replies are readable."""
        return self not in (Outcome.SAME_TEXT, Outcome.UNJUDGED)


_SHARES = {
    Outcome.A_WINS: 1.0,
    Outcome.B_WINS: 0.0,
    Outcome.TIE: 0.5,
    Outcome.SAME_TEXT: 0.5,
    Outcome.INCONSISTENT: 0.5,
}


@dataclass(frozen=True, slots=True)
class Judgment:
    """One pair, settled on one dimension, whoever settled it: what every rating starts from.

    Attributes:
        entrant_a: The entrant shown first in the first presentation.
        outcome: How the pair was settled.
        weight: How many prompts it stands for: 1 unless it is one of a sample.
        share: The first entrant's share of the win, from 0 to 1; it follows from the outcome unless
            several judges, or one who reports confidence, settled the pair. None where nothing was
            decided.
        sample: Which of their answers to the prompt were compared, from 1.
    """

    prompt_id: str
    dimension: str
    entrant_a: str
    entrant_b: str
    outcome: Outcome
    weight: float = 1.0
    share: float | None = None
    sample: int = 1

    def __post_init__(self) -> None:
        """Derive the share from the outcome where nothing finer is known."""
        if self.share is None:
            object.__setattr__(self, "share", self.outcome.share)

    @classmethod
    def of(cls, row: Any, **more: Any) -> Self:
        """Return the settled pair of a row, whole: the one way from a row to a pair.

        Args:
            row: Every field of a judgment, as attributes or as keys; the outcome may be its text.
            more: The further fields of a subclass.

        Raises:
            KeyError: If a mapping lacks a field.
            ValueError: If the outcome is unknown.
        """
        read = row.__getitem__ if isinstance(row, Mapping) else partial(getattr, row)
        values = {name: read(name) for name in _FIELDS}
        names = {name: sys.intern(str(values[name])) for name in _NAMES}
        return cls(**{**values, **names, "outcome": Outcome(values["outcome"])}, **more)

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


_FIELDS = tuple(field.name for field in fields(Judgment))
_NAMES = ("prompt_id", "dimension", "entrant_a", "entrant_b")
