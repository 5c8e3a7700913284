"""The measures of the judge: when their lights are red, and their rows in tables.

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
"""Tolerance for a share at its threshold, as 0.6 - 0.5 is not exactly 0.1."""


class TrustState(StrEnum):
    """What a light shows."""

    GREEN = "green"
    RED = "red"
    NOT_MEASURED = "not measured"
    NO_THRESHOLD = "no threshold"
    """Measured, but the config names no threshold."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the judge.

    Attributes:
        name: Its name in tables and of its check.
        title: Its name on pages.
        meaning: What its number says, in a sentence.
        advice: What to do when it is red, in a sentence.
        unit: What its number is: `share`, `kappa`, `points` (Elo) or `p` (a p-value).
        asset: The asset whose table holds it.
        find: Returns the number, or one per entrant or judge; None if a separate asset finds it.
        threshold: Where its light turns red; None if the config names no threshold.
        expected: The side of the threshold on which good numbers lie; `near` is within the
            threshold of `neutral`.
        neutral: The number that shows nothing; a light is red only if the interval excludes it,
            since few pairs may all go one way by chance.
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
        """Return whether a number is on the wrong side of its threshold by more than chance."""
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
            checks: The thresholds of the lights.
            subject: The entrant or other judge that it is about.
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
