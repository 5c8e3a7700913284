"""Whether what is missing is spread evenly over the entrants.

An entrant whose comparisons are missing more often than the others' is compared on other prompts
or against other opponents than they are, so its score is not like theirs. A small difference is to
be expected, so two things have to come together before it counts: a spread above what the config
allows, and an entrant whose count chance would hardly give. The chance is exact: if the missing
units were drawn from the planned ones without looking at who is in them, the number in which an
entrant takes part would be hypergeometric. Source: Fisher, "On the interpretation of chi-squared
from contingency tables, and the calculation of P", https://doi.org/10.2307/2340521; Bonferroni's
factor for looking at every entrant from both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tournament_assets.tournament.errors import InputError

CHANCE = 0.05
"""At or below this probability a count is not put down to chance."""


@dataclass(frozen=True, slots=True)
class MissingCount:
    """What one entrant misses of what was planned for it.

    Attributes:
        entrant_id: Whose count it is.
        missing: Units that are missing.
        planned: Units that it should have.
    """

    entrant_id: str
    missing: int
    planned: int

    @property
    def rate(self) -> float:
        """Share of what was planned that is missing; 0 where nothing was planned."""
        return self.missing / self.planned if self.planned else 0.0


@dataclass(frozen=True, slots=True)
class Evenness:
    """How evenly missing units are spread.

    Attributes:
        counts: Every entrant, those that miss the largest share first.
        spread: Largest less smallest share.
        p_value: Probability of so extreme a count by chance, for the most extreme entrant, with
            Bonferroni's factor.
        is_even: Whether the spread is within bounds or may be chance.
    """

    counts: tuple[MissingCount, ...]
    spread: float
    p_value: float
    is_even: bool


def measure_evenness(
    counts: Sequence[MissingCount], *, entrants_per_unit: int, max_spread: float
) -> Evenness:
    """Compare the entrants by the share that they miss.

    Args:
        counts: One per entrant.
        entrants_per_unit: 2 where the units are pairs, 1 where they are an entrant's own.
        max_spread: The largest difference between two entrants' shares that is always even.
    """
    ranked = tuple(sorted(counts, key=lambda each: (-each.rate, each.entrant_id)))
    if not ranked:
        return Evenness((), 0.0, 1.0, is_even=True)
    spread = ranked[0].rate - ranked[-1].rate
    total = sum(each.planned for each in ranked) // entrants_per_unit
    missing = sum(each.missing for each in ranked) // entrants_per_unit
    smallest = min(
        chance
        for each in ranked
        for chance in (
            tail_probability(each.missing, total=total, marked=each.planned, drawn=missing),
            # Seen from the units without this entrant, too few is too many.
            tail_probability(
                missing - each.missing,
                total=total,
                marked=total - each.planned,
                drawn=missing,
            ),
        )
    )
    p_value = min(1.0, 2 * len(ranked) * smallest)
    return Evenness(ranked, spread, p_value, is_even=bool(spread <= max_spread or p_value > CHANCE))


def tail_probability(count: int, *, total: int, marked: int, drawn: int) -> float:
    """Return the probability that a draw without replacement holds at least `count` marked units.

    Args:
        count: Marked units in the draw.
        total: Units in all.
        marked: Those among them that are marked.
        drawn: Units drawn.

    Raises:
        InputError: If more is marked or drawn than there is.
    """
    if not (0 <= marked <= total and 0 <= drawn <= total):
        raise InputError(
            f"{marked!r} marked and {drawn!r} drawn of {total!r} units; expected 0 to {total!r}"
        )
    if count <= max(0, drawn - (total - marked)):
        return 1.0
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.stats import hypergeom

    return float(hypergeom.sf(count - 1, total, marked, drawn))
