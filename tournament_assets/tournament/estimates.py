"""A number with its interval, and how an interval is resampled: one class for each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, how sure it is, and what it was counted over.

    Attributes:
        value: The number; None where the data do not tell, and the note says why.
        low: Lower end of its interval; None where the data set no bound.
        high: Upper end of the interval; None where the data set no bound.
        n: Prompts, pairs, replies or whatever it was counted over.
        note: Why a number is missing, or what to know of it; None if nothing.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str | None = None

    @classmethod
    def of_count(cls, count: int) -> "Estimate":
        """Return a count, which is no sample of anything."""
        return Estimate(float(count), n=count)

    @property
    def count(self) -> int:
        """Of a share of things that count alike: how many of the n have the property."""
        return round((self.value or 0.0) * self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating(Estimate):
    """One entrant's rating in Elo points.

    Attributes:
        entrant: Who is rated.
        standard_error: Elo points; None where there is no rating or no spread to measure.
        rank: Its place, 1 for the best; None where it has none, or nobody is placed.
        group: Letters; entrants that share one do not differ significantly.
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
