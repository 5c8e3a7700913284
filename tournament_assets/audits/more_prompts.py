"""How many more prompts show who is best, or leave few that may be.

A number of prompts that decides "if the differences are as estimated" decides less often than it
says: who leads by luck leads by less later. So ladders after more prompts are simulated from what
the ratings leave open, and the number is the least that decides with the chance asked for over all
of them (predictive power: Spiegelhalter, Freedman and Blackburn, "Monitoring clinical trials",
https://doi.org/10.1016/0197-2456(86)90003-1).

The ratings are normal with the covariance that their joint intervals have. True strengths are
normal, too, with a spread that the ratings tell of (empirical Bayes over a grid, equals among it),
which draws them towards their mean. Every direction of the covariance has its own v, and of n and m
more prompts the ratings are, given the strengths,

    (n y + m s) / (n + m)  with the variance  v n m / (n + m)^2.

One is better than another by the rule of the claims: their difference exceeds its joint interval,
which shrinks as 1 / sqrt(n + m) and by Student's quantile.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.intervals import two_sided_quantile

MOST_PROMPTS = 10_000
"""More prompts than these are not said to show anything."""
_POWER = 0.8
_LADDERS = 2_000
_SPREADS = np.concatenate([[0.0], np.linspace(10.0, 300.0, 30)])
"""Standard deviations of true strengths, in Elo points."""
_PRIOR = np.concatenate([[0.05], np.full(30, 0.95 / 30)])
_LEAST_VARIANCE = 1e-6
"""Squared Elo points: ratings that always agree still have a variance to divide by."""


@dataclass(frozen=True, slots=True)
class MorePrompts:
    """How many more prompts are needed.

    Attributes:
        prompts: The number, rounded up to two digits.
        leave: At most so many may be first then; 1 if somebody is best.
        chance: How probably, as simulated.
    """

    prompts: int
    leave: int
    chance: float


def find_more_prompts(
    ratings: NDArray[np.float64],
    reach: NDArray[np.float64],
    *,
    n_prompts: int,
    n_first: int,
    confidence: float,
) -> MorePrompts | None:
    """Return the least number of prompts that shows who is best, or leaves few that may be.

    Args:
        ratings: In Elo points, shape (n,).
        reach: Half the width of the joint interval of every two ratings' difference, shape (n, n).
        n_prompts: The prompts that they rest on, two or more.
        n_first: How many may be first now, two or more; half of them at most are to be left.
        confidence: Of all intervals together.

    Returns:
        None if not even `MOST_PROMPTS` more would do with 80 % probability.
    """
    ladders = _Ladders(ratings, reach, n_prompts, confidence)
    for leave in range(1, n_first // 2 + 1):
        if ladders.chance(MOST_PROMPTS, leave) < _POWER:
            continue
        few, enough = 0, MOST_PROMPTS
        while enough - few > 1:
            middle = (few + enough) // 2
            is_enough = ladders.chance(middle, leave) >= _POWER
            few, enough = (few, middle) if is_enough else (middle, enough)
        step = int(10 ** max(0, math.floor(math.log10(enough)) - 1))
        prompts = math.ceil(enough / step) * step
        return MorePrompts(prompts, leave, ladders.chance(prompts, leave))
    return None


class _Ladders:
    """Simulated ladders after more prompts, the same ones for every number of them."""

    def __init__(
        self,
        ratings: NDArray[np.float64],
        reach: NDArray[np.float64],
        n_prompts: int,
        confidence: float,
    ) -> None:
        n = len(ratings)
        self._n_prompts, self._reach = n_prompts, reach
        # The simultaneous intervals of all pairs are about as wide as Bonferroni's.
        self._confidence = 1 - (1 - confidence) / math.comb(n, 2)
        # Differences alone are known: the covariance that they have with the mean taken out.
        centred = np.eye(n) - 1 / n
        errors = (reach / self._quantile(0)) ** 2
        # The added constant makes the direction of the mean the last.
        variances, directions = np.linalg.eigh(errors.sum() - centred @ errors @ centred / 2)
        variance = np.maximum(variances[:-1], _LEAST_VARIANCE)
        self._back = directions[:, :-1].T
        self._now = self._back @ ratings
        draws = np.random.default_rng(0).standard_normal((2, _LADDERS, n - 1))
        kept = _spreads(self._now, variance)[:, None] ** 2
        kept = kept / (kept + variance)  # (n_ladders, n - 1)
        self._true = kept * self._now + np.sqrt(kept * variance) * draws[0]
        self._errors = np.sqrt(variance) * draws[1]

    def _quantile(self, more: int) -> float:
        n_prompts = self._n_prompts + more
        return two_sided_quantile(self._confidence, degrees_of_freedom=n_prompts - 1)

    def chance(self, more: int, leave: int) -> float:
        """Return in what share of the ladders at most so many may be first.

        Those are counted whom the highest rated does not beat.
        """
        part = more / (self._n_prompts + more)
        along = (1 - part) * self._now + part * self._true
        ratings = (along + math.sqrt(part * (1 - part)) * self._errors) @ self._back
        highest = ratings.argmax(axis=1)
        shrunk = math.sqrt(1 - part) * self._quantile(more) / self._quantile(0)
        leads = ratings.max(axis=1, keepdims=True) - ratings
        n_first = (leads <= shrunk * self._reach[highest]).sum(axis=1)
        return float((n_first <= leave).mean())


def _spreads(along: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for every ladder a spread of the strengths, as often as the ratings speak for it."""
    total = variance + _SPREADS[:, None] ** 2
    fit = np.log(_PRIOR) - (along**2 / total + np.log(total)).sum(axis=1) / 2
    weights = np.exp(fit - fit.max())
    heights = (np.arange(_LADDERS) + 0.5) / _LADDERS
    return np.asarray(_SPREADS[np.searchsorted(weights.cumsum() / weights.sum(), heights)])
