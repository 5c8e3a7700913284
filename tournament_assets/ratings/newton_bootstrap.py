"""Bradley-Terry fits to tables that resemble one whose fit is known, as a compiled loop.

Newton's method solves a new system of equations in every step. Near a known fit the system hardly
changes, so the steps here all use the inverse found there: the chord, or simplified Newton,
method; Deuflhard, "Newton Methods for Nonlinear Problems", https://doi.org/10.1007/978-3-642-23899-4,
section 2.1. It ends at the same maximum, or says that it does not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compilation import compiled, vectorised
from tournament_assets.ratings.matches import Matches

FITTED = 0
"""The strengths maximise the likelihood."""

UNCONNECTED = 1
"""Wins do not lead from everyone to everyone: there is no maximum."""

UNSETTLED = 2
"""The steps did not shrink fast enough: the table is too far from the known one."""

_MAX_STEPS = 60
_DRAWN_AT_ONCE = 65_536
_SLOWEST_SHRINKING = 0.7
_LAST_STEP = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SimplifiedNewton:
    """A known fit, from which to reach those of similar tables.

    Attributes:
        strengths: Natural logarithms of the strengths, shape (n,); they average to 0.
        inverse: Of the likelihood's curvature there, shape (n, n); it maps a surplus of wins over
            expected wins to a step of the strengths.
    """

    strengths: NDArray[np.float64]
    inverse: NDArray[np.float64]

    @classmethod
    def at(cls, strengths: NDArray[np.float64], wins: NDArray[np.float64]) -> "SimplifiedNewton":
        """Begin at the strengths that were fitted to a table of wins."""
        lead = np.tanh((strengths[:, None] - strengths) / 2)
        curvature = (wins + wins.T) * (1 - lead**2) / 4
        scale = curvature.sum(axis=1)
        # The added constant gives the matrix an inverse; surpluses of wins sum to zero, so that
        # the inverse treats them as if it had not been added.
        hessian = np.diag(scale) + scale.mean() - curvature
        return cls(strengths=strengths, inverse=np.linalg.inv(hessian))

    def fit(self, wins: NDArray[np.float64], strengths: NDArray[np.float64]) -> int:
        """Maximise the likelihood of another table of wins.

        Args:
            wins: How often the row's entrant beat the column's, shape (n, n).
            strengths: Where the logarithms of the strengths are written, shape (n,).

        Returns:
            FITTED; otherwise UNCONNECTED or UNSETTLED, and the strengths mean nothing.
        """
        if not _is_connected(wins):
            return UNCONNECTED
        strengths[:] = self.strengths
        outcome = int(_climb(wins, self.inverse, strengths))
        strengths -= strengths.mean()
        return outcome


@compiled
def _is_connected(wins: NDArray[np.float64]) -> bool:
    # Two walks from the first entrant: along wins, then against them.
    n_entrants = wins.shape[0]
    waiting = np.zeros(n_entrants, dtype=np.int64)
    for backwards in (False, True):
        reached = np.zeros(n_entrants, dtype=np.bool_)
        reached[0] = True
        n_reached = 1
        n_walked = 0
        while n_walked < n_reached < n_entrants:
            here = waiting[n_walked]
            n_walked += 1
            for there in range(n_entrants):
                beaten = wins[there, here] if backwards else wins[here, there]
                if beaten > 0 and not reached[there]:
                    reached[there] = True
                    waiting[n_reached] = there
                    n_reached += 1
        if n_reached < n_entrants:
            return False
    return True


@vectorised
def _climb(
    wins: NDArray[np.float64], inverse: NDArray[np.float64], strengths: NDArray[np.float64]
) -> int:
    n_entrants = strengths.size
    matches = np.empty((n_entrants, n_entrants))
    won = np.zeros(n_entrants)
    for entrant in range(n_entrants):
        for opponent in range(n_entrants):
            matches[entrant, opponent] = wins[entrant, opponent] + wins[opponent, entrant]
            won[entrant] += wins[entrant, opponent]
    scores = np.empty(n_entrants)
    shares = np.empty(n_entrants)
    step = np.empty(n_entrants)
    width = np.inf
    for _ in range(_MAX_STEPS):
        # With s = exp(strength), someone expects s * sum(matches / (s + s of the opponent)) wins.
        for entrant in range(n_entrants):
            scores[entrant] = math.exp(strengths[entrant])
            shares[entrant] = 0.0
            step[entrant] = 0.0
        for opponent in range(n_entrants):
            score = scores[opponent]
            for entrant in range(n_entrants):
                shares[entrant] += matches[opponent, entrant] / (score + scores[entrant])
        for entrant in range(n_entrants):
            surplus = won[entrant] - scores[entrant] * shares[entrant]
            for moved in range(n_entrants):
                step[moved] += inverse[entrant, moved] * surplus
        lowest = highest = step[0]
        for entrant in range(n_entrants):
            strengths[entrant] += step[entrant]
            lowest = min(lowest, step[entrant])
            highest = max(highest, step[entrant])
        before = width
        width = highest - lowest
        if width < _LAST_STEP:
            return FITTED
        # Written so that NaN is unsettled, too.
        if not width < _SLOWEST_SHRINKING * before:
            return UNSETTLED
    return UNSETTLED


class PromptResamples:
    """Draws as many prompts as there were, with replacement, as tables of wins."""

    def __init__(self, matches: Matches, *, seed: int) -> None:
        """Sort the wins by prompt; a tie is half a win for each."""
        self._n_entrants = len(matches.entrants)
        self._n_prompts = len(matches.prompts)
        self._counts = draw_counts(np.random.default_rng(seed), self._n_prompts)
        wins = matches.as_wins()
        order = np.argsort(wins.prompt_index, kind="stable")
        self._starts = np.searchsorted(wins.prompt_index[order], np.arange(self._n_prompts + 1))
        self._pairs = (wins.first * self._n_entrants + wins.second)[order].astype(np.int32)
        self._weights = wins.weight[order]

    def draw(self) -> NDArray[np.float64]:
        """Return `Matches.wins` of another resample of the prompts."""
        wins = np.zeros(self._n_entrants**2)
        _add_prompts(next(self._counts), self._starts, self._pairs, self._weights, wins)
        return wins.reshape(self._n_entrants, self._n_entrants)


def draw_counts(generator: np.random.Generator, n_prompts: int) -> Iterator[NDArray[np.int64]]:
    """Yield what `draw_prompts` returns, call after call.

    Many draws of few prompts are made at once, which costs less and leaves them as they are.
    """
    at_once = max(1, _DRAWN_AT_ONCE // max(1, n_prompts))
    while True:
        for drawn in generator.integers(max(1, n_prompts), size=(at_once, n_prompts)):
            yield np.bincount(drawn, minlength=n_prompts)


@compiled
def _add_prompts(
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int32],
    weights: NDArray[np.float64],
    wins: NDArray[np.float64],
) -> None:
    for prompt in range(counts.size):
        if counts[prompt] > 0:
            for cell in range(starts[prompt], starts[prompt + 1]):
                wins[pairs[cell]] += counts[prompt] * weights[cell]
