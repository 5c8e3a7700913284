"""Bradley-Terry fits to tables that resemble one whose fit is known, as a compiled loop.

Newton's method solves a new system of equations in every step. Near a known fit the system hardly
changes, so the steps here all use the inverse found there: the chord, or simplified Newton,
method; Deuflhard, "Newton Methods for Nonlinear Problems", https://doi.org/10.1007/978-3-642-23899-4,
section 2.1. It ends at the same maximum, or says that it does not.
"""

import math
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

    def fit(self, tables: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Maximise the likelihood of other tables of wins.

        Args:
            tables: How often the row's entrant beat the column's, shape (n_tables, n, n).

        Returns:
            Logarithms of the strengths, shape (n_tables, n), and what came of each table: FITTED;
            otherwise UNCONNECTED or UNSETTLED, and its strengths mean nothing.
        """
        strengths = np.tile(self.strengths, (len(tables), 1))
        outcomes = np.empty(len(tables), dtype=np.int64)
        _fit(np.ascontiguousarray(tables), self.inverse, strengths, outcomes)
        return strengths - strengths.mean(axis=1, keepdims=True), outcomes


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


@vectorised
def _fit(
    tables: NDArray[np.float64],
    inverse: NDArray[np.float64],
    strengths: NDArray[np.float64],
    outcomes: NDArray[np.int64],
) -> None:
    for index in range(len(tables)):
        if _is_connected(tables[index]):
            outcomes[index] = _climb(tables[index], inverse, strengths[index])
        else:
            outcomes[index] = UNCONNECTED


class PromptResamples:
    """Draws as many prompts as there were, with replacement, as tables of wins."""

    def __init__(self, matches: Matches, *, seed: int) -> None:
        """Sort the wins by prompt; a tie is half a win for each."""
        self._n_entrants = len(matches.entrants)
        self._n_prompts = len(matches.prompts)
        self._generator = np.random.default_rng(seed)
        wins = matches.as_wins()
        order = np.argsort(wins.prompt_index, kind="stable")
        self._starts = np.searchsorted(wins.prompt_index[order], np.arange(self._n_prompts + 1))
        self._pairs = (wins.first * self._n_entrants + wins.second)[order].astype(np.int32)
        self._weights = wins.weight[order]

    def draw(self, n_tables: int) -> NDArray[np.float64]:
        """Return `Matches.wins` of other resamples, shape (n_tables, n_entrants, n_entrants).

        Whether they are drawn at once or one by one leaves them as they are.
        """
        wins = np.zeros((n_tables, self._n_entrants**2))
        at_once = max(1, _DRAWN_AT_ONCE // max(1, self._n_prompts))
        for start in range(0, n_tables, at_once):
            part = wins[start : start + at_once]
            size = len(part), self._n_prompts
            drawn = self._generator.integers(max(1, self._n_prompts), size=size)
            _add_prompts(drawn, self._starts, self._pairs, self._weights, part)
        return wins.reshape(n_tables, self._n_entrants, self._n_entrants)


@compiled
def _add_prompts(
    drawn: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int32],
    weights: NDArray[np.float64],
    wins: NDArray[np.float64],
) -> None:
    n_prompts = starts.size - 1
    counts = np.empty(n_prompts, dtype=np.int64)
    for table in range(len(drawn)):
        counts[:] = 0
        for prompt in drawn[table]:
            counts[prompt] += 1
        for prompt in range(n_prompts):
            if counts[prompt] > 0:
                for cell in range(starts[prompt], starts[prompt + 1]):
                    wins[table, pairs[cell]] += counts[prompt] * weights[cell]
