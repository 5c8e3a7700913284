"""What a measure of the judge is: when its light is red, and how it becomes a row of a table.

A light that was not measured is neither green nor red.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.trust.panel import Found, JudgeEvidence

_ROUNDING = 1e-12
"""A share that is at its threshold may miss it by this much, as 0.6 - 0.5 misses 0.1."""


class TrustState(StrEnum):
    """What a light shows."""

    GREEN = "green"
    RED = "red"
    NOT_MEASURED = "not measured"
    NO_THRESHOLD = "no threshold"
    """Measured, and the config does not say from where on it is bad."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the judge.

    Attributes:
        name: What it is called in tables, and its check.
        title: What it is called where people read it.
        meaning: What its number says, in a sentence.
        advice: What to do when it is red, in a sentence.
        unit: What its number is: `share`, `kappa`, `points` (Elo) or `p` (a p-value).
        asset: The asset whose table holds it.
        find: The number, or that of each entrant or judge; None if an asset of its own finds it.
        threshold: Where its light turns red; None if the config names no threshold.
        expected: On which side of the threshold a good number lies; `near` is within so much of
            `neutral`.
        neutral: What shows nothing; red needs an interval without it, as few pairs go one way by
            chance.
    """

    name: str
    title: str
    meaning: str
    advice: str
    unit: Literal["share", "kappa", "points", "p"]
    asset: str = "measures"
    find: Callable[[JudgeEvidence], Estimate | Found] | None = None
    threshold: Callable[[CheckThresholds], float | None] = lambda checks: None  # noqa: ARG005
    expected: Literal["at least", "at most", "near"] = "at least"
    neutral: float | None = None

    def is_red(self, found: Estimate, threshold: float) -> bool:
        """Return whether a number is on the wrong side of its threshold, and not by chance."""
        value, low, high = found.value, found.low, found.high
        if value is None:
            return False
        neutral = self.neutral
        if neutral is not None and (low is None or high is None or low <= neutral <= high):
            return False
        if self.expected == "at least":
            return value < threshold - _ROUNDING
        if self.expected == "near" and neutral is not None:
            value = abs(value - neutral)
        return value > threshold + _ROUNDING

    def light(
        self,
        found: Estimate,
        checks: CheckThresholds,
        *,
        dimension: str,
        subject: str | None = None,
    ) -> MeasureRow:
        """Return a number as a row of a table, with what its light shows.

        Args:
            found: The number.
            checks: Where the lights turn red.
            subject: The entrant or the other judge it is about.
        """
        threshold = self.threshold(checks)
        if found.value is None:
            state = TrustState.NOT_MEASURED
        elif threshold is None:
            state = TrustState.NO_THRESHOLD
        else:
            state = TrustState.RED if self.is_red(found, threshold) else TrustState.GREEN
        return MeasureRow.of(
            found,
            dimension=dimension,
            measure=self.name,
            subject=subject,
            unit=self.unit,
            threshold=threshold,
            state=state.value,
        )
