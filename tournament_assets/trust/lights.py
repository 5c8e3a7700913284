"""The measures of the judge: what their lights show, and their rows in tables.

A light is green where the whole interval is inside the limits, red where it is outside, and amber
where both are possible: too few to tell. One that was not measured is none of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.trust.panel import Found, JudgeEvidence

_ROUNDING = 1e-12
"""Tolerance for a share at its threshold, as 0.6 - 0.5 is not exactly 0.1."""
OF = " of "
"""Between the measure and the entrant or judge it is about, in the name of a light."""
_MOST_TIMES = 100
"""A light that so many times its sample would not tell is too near its limit to foresee."""


class Bias(StrEnum):
    """What a red light says about the difference between two entrants."""

    NONE = "none"
    """The judge tells less: both orders cancel a slot, and noise favours neither of the two."""
    DIFFERENCE = "difference"
    """The difference may be off; of a light on an entrant, a difference from that entrant."""
    LENGTH = "length"
    """The difference may be off where the two entrants' responses differ in length."""


class TrustState(StrEnum):
    """What a light shows."""

    GREEN = "green"
    AMBER = "amber"
    """Too few to tell: the interval lies on both sides of a limit."""
    RED = "red"
    POOLED = "pooled"
    """A part of one light over all dimensions."""
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
        counted: What its n counts, in the singular.
        unit: What its number is: `share`, `kappa`, `points` (Elo) or `p` (a p-value).
        asset: The asset whose table holds it.
        reads: Assets whose tables it reads where they were made (`JudgeEvidence.tables`).
        find: Returns the number, or one per entrant or judge; None if a separate asset finds it.
        threshold: Its limit among the config's `checks`; None if they name none.
        expected: The side of the threshold on which good numbers lie; `near` is within the
            threshold of `neutral`.
        neutral: The number that shows nothing.
        red_by: What makes its light red: an `interval` outside the limits; the `number` outside
            them; or a `lean`, a number outside them whose interval excludes `neutral`, where a
            limit is so near the end of the scale that hardly any interval fits behind it.
        is_exact: Whether the number is no estimate, but a count of all there is or a p-value: its
            light goes by the number.
        is_pooled: Whether all dimensions share one light.
        leans: What a number below `neutral`, and one above it, says about the judge.
        bias: What its red light says about a difference between two entrants; the gate reads it.
    """

    name: str
    title: str
    meaning: str
    advice: str
    unit: Literal["share", "kappa", "points", "p"]
    counted: str = "pair"
    asset: str = "measures"
    reads: tuple[str, ...] = ()
    find: Callable[[JudgeEvidence], Estimate | Found] | None = None
    threshold: Callable[[CheckThresholds], float | None] = lambda checks: None  # noqa: ARG005
    expected: Literal["at least", "at most", "near"] = "at least"
    neutral: float | None = None
    red_by: Literal["interval", "number", "lean"] = "interval"
    is_exact: bool = False
    is_pooled: bool = False
    leans: tuple[str, str] | None = None
    bias: Bias = Bias.DIFFERENCE

    def limits(self, threshold: float) -> tuple[float, float]:
        """Return the lowest and the highest number that a good judge has."""
        if self.expected == "near":
            middle = self.neutral or 0.0
            return middle - threshold - _ROUNDING, middle + threshold + _ROUNDING
        if self.expected == "at least":
            return threshold - _ROUNDING, math.inf
        return -math.inf, threshold + _ROUNDING

    def state_of(self, found: Estimate, threshold: float | None) -> TrustState:
        """Return what the light of a number shows.

        Args:
            found: The number.
            threshold: Its limit; None if the config names none.
        """
        value = found.value
        if value is None:
            return TrustState.NOT_MEASURED
        if threshold is None:
            return TrustState.NO_THRESHOLD
        low = -math.inf if found.low is None else found.low
        high = math.inf if found.high is None else found.high
        if self.is_exact:
            low = high = value
        lowest, highest = self.limits(threshold)
        if high < lowest or low > highest:
            return TrustState.RED
        if not lowest <= value <= highest:
            leans = self.neutral is not None and not low <= self.neutral <= high
            if self.red_by == "number" or (self.red_by == "lean" and leans):
                return TrustState.RED
        return TrustState.GREEN if lowest <= low and high <= highest else TrustState.AMBER

    def needed(self, found: Estimate, threshold: float) -> int | None:
        """Return about how many more would turn an amber light red or green.

        They are as many as make the interval exclude the limits that it holds, if the number stays
        as it is.

        Args:
            found: The number, whose light is amber.
            threshold: Its limit.

        Returns:
            None where it has no interval, or a hundred times as many would not tell.
        """
        value, low, high = found.value, found.low, found.high
        if value is None or low is None or high is None:
            return None
        lowest, highest = self.limits(threshold)
        bounds: tuple[float, ...] = (lowest, highest)
        if self.red_by == "lean" and self.neutral is not None and not lowest <= value <= highest:
            bounds = (self.neutral,)
        times = max(
            self.precision(value, bound) / self.precision(value, low if bound < value else high)
            for bound in bounds
            if low <= bound <= high
        )
        return max(1, math.ceil(found.n * (times - 1))) if times <= _MOST_TIMES else None

    def precision(self, value: float, end: float) -> float:
        """Return the sample, over the squared quantile, of an interval that ends at `end`.

        Of a share this is Wilson's interval; of other numbers, one of standard errors, up to a
        factor.
        """
        spread = end * (1 - end) if self.unit == "share" else 1.0
        return max(spread, _ROUNDING) / max((value - end) ** 2, _ROUNDING**2)

    def lean_of(self, value: float | None) -> str:
        """Return what a number says about the judge; empty where it shows no direction."""
        if self.leans is None or self.neutral is None or value is None or value == self.neutral:
            return ""
        return self.leans[value > self.neutral]

    def light(
        self,
        found: Estimate,
        threshold: float | None,
        *,
        dimension: str,
        subject: str | None = None,
    ) -> MeasureRow:
        """Return a number as a row of a table, with what its light shows.

        Args:
            found: The number.
            threshold: Its limit; None if the config names none.
            subject: The entrant or other judge that it is about.
        """
        return MeasureRow.of(
            found,
            dimension=dimension,
            measure=self.name,
            subject=subject,
            unit=self.unit,
            threshold=threshold,
            state=self.state_of(found, threshold).value,
        )
