"""Simulates the gate: how often who is worse by the margin passes, and who is better.

Run it with `python -m benchmarks.gate`.
"""

import math
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.special import ndtr

from tournament_assets.audits.non_inferiority import compare_with_margin, power
from tournament_assets.tournament.verdicts import Judgment, Outcome

ENTRANTS = ("new", "old", "third", "fourth")


def simulate(
    generator: np.random.Generator, *, prompts: int, lead: float, tie_rate: float = 0.2
) -> list[Judgment]:
    """Draw judgments that follow Bradley-Terry exactly and depend on one another in a prompt."""
    ratings = (lead, 0.0, 30.0, -30.0)
    quality = generator.standard_normal((prompts, 4))
    drawn = []
    for prompt, (a, b) in product(range(prompts), combinations(range(4), 2)):
        share = 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400))
        place = ndtr((quality[prompt, b] - quality[prompt, a]) / math.sqrt(2))  # uniform
        outcome = (
            Outcome.A_WINS
            if place < share - tie_rate / 2
            else Outcome.TIE
            if place < share + tie_rate / 2
            else Outcome.B_WINS
        )
        drawn.append(Judgment(f"p{prompt}", "facts", ENTRANTS[a], ENTRANTS[b], outcome))
    return drawn


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of simulated tournaments.

    Attributes:
        passed: Share in which the candidate passed.
        formula: What `power` expects of it.
    """

    passed: float
    formula: float


def measure(*, prompts: int, lead: float, n: int, margin: float = 20.0, seed: int = 20) -> Measured:
    """Return how often a candidate passes that is ahead by so many Elo points in truth."""
    generator = np.random.default_rng(seed)
    found = [
        compare_with_margin(
            simulate(generator, prompts=prompts, lead=lead),
            dimension="facts",
            entrants=ENTRANTS,
            candidate="new",
            baseline="old",
            margin=margin,
            confidence=0.95,
        )
        for _ in range(n)
    ]
    differences = [each.difference.value for each in found if each.difference.value is not None]
    return Measured(
        passed=float(np.mean([each.p_not_worse <= 0.05 for each in found])),
        formula=power(
            difference=lead,
            margin=margin,
            standard_error=float(np.std(differences)),
            confidence=0.95,
        ),
    )


if __name__ == "__main__":
    print("prompts   lead    passed   formula   (1,000 tournaments each; margin 20 Elo)")
    for prompts, lead in product((50, 143), (-20.0, 0.0, 60.0)):
        got = measure(prompts=prompts, lead=lead, n=1_000)
        print(f"{prompts:7d} {lead:+6.0f}   {got.passed:7.1%}  {got.formula:7.1%}")
