"""A number with its interval, and how an interval is resampled: one class for each."""

from dataclasses import dataclass

CELLS_AT_ONCE = 2_000_000
"""Most cells of an array that resamples, simulations or units fill at once: 16 MB."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval and the size of its sample.

    Attributes:
        value: The number; None where the data do not determine it (the note says why).
        low: Lower end of its interval; None where the data set no bound.
        high: Upper end of the interval; None where the data set no bound.
        n: Prompts, pairs, replies or whatever it was counted over.
        note: Why the number is missing, or a caveat; None if there is nothing to say.
        remedy: What to do to have the number; None where it is there, or nothing would help.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str | None = None
    remedy: str | None = None

    @classmethod
    def of_count(cls, count: int) -> "Estimate":
        """Return a count, which is no sample of anything."""
        return Estimate(float(count), n=count)

    @property
    def why(self) -> str:
        """The note, and what to do."""
        return "; ".join(filter(None, (self.note, self.remedy)))

    @property
    def count(self) -> int:
        """How many of the n have the property, for a share of equally weighted things."""
        return round((self.value or 0.0) * self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating(Estimate):
    """One entrant's rating in Elo points.

    Attributes:
        entrant: Who is rated.
        standard_error: Elo points; None where there is no rating or no spread to measure.
        rank: Its rank, 1 for the best; None where it has none, or nobody is ranked.
        group: Letters; of two that share one neither is better.
    """

    entrant: str
    standard_error: float | None = None
    rank: int | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Resampling:
    """How whole prompts are resampled for an interval.

    Attributes:
        n: How many resamples are drawn.
        seed: Seeds the draws.
        confidence: Coverage of the interval, between 0 and 1.
    """

    n: int = 1000
    seed: int = 0
    confidence: float = 0.95
