"""Bradley-Terry ratings by maximum likelihood, with ties as half a win for each side.

Source: Bradley and Terry, "Rank analysis of incomplete block designs",
https://doi.org/10.1093/biomet/39.3-4.324. The likelihood is maximised by damped Newton steps: Sun
and Tran-Dinh, "Generalized self-concordant functions", https://arxiv.org/abs/1703.04599. A maximum
exists exactly when a chain of wins leads from every entrant to every other one: Ford, "Solution of
a ranking problem from binary comparisons", https://doi.org/10.1080/00029890.1957.11989117.

Resamples are close to a table that is already fitted. Newton's method solves a new system of
equations in every step. Near a known fit the system hardly changes, so the steps there all use the
inverse found at it, many tables at a time: the chord, or simplified Newton, method; Deuflhard,
"Newton Methods for Nonlinear Problems", https://doi.org/10.1007/978-3-642-23899-4, section 2.1. It
converges to the same maximum or reports that it did not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import RatingError
from tournament_assets.foundation.estimates import CELLS_AT_ONCE, Rating, Resampling
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.ratings.matches import Matches, require_count


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The entrants that can be rated against each other, and where the others stand.

    All arrays have shape (n_entrants,). An entrant in none of them is undetermined.

    Attributes:
        rated: The largest group in which chains of wins connect everyone in both directions; empty
            if there is no such group of two or more, or if several share the largest size.
        unbounded_above: Entrants that never lost to the rated group, directly or through others;
            without a rated group, those that won every match.
        unbounded_below: Entrants that never won against it; without a rated group, those that lost
            every match.
    """

    rated: NDArray[np.bool_]
    unbounded_above: NDArray[np.bool_]
    unbounded_below: NDArray[np.bool_]


def find_groups(
    links: NDArray[Any], *, connection: Literal["weak", "strong"] = "weak"
) -> tuple[int, NDArray[np.int64]]:
    """Return the number of connected groups of entrants, and the group of each entrant.

    Args:
        links: Whether, or how often, the row's entrant met or beat the column's, shape (n, n).
        connection: Whether a link leads both ways, or chains have to.
    """
    reaches = chains_of_wins(links if connection == "strong" else links + links.T)
    n = len(links)
    first_member = np.where(reaches & reaches.T, np.arange(n), n).min(axis=1, initial=n)
    members, group_of = np.unique(first_member, return_inverse=True)
    return members.size, group_of


def are_strongly_connected(wins: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether chains of wins connect everyone, for tables of shape (n_tables, n, n)."""
    are_connected = np.ones(len(wins), dtype=np.bool_)
    links = wins > 0
    # From the first entrant along wins, then against them.
    for ways in (links, links.swapaxes(1, 2)):
        reached = np.arange(wins.shape[1]) == np.zeros((len(wins), 1))
        n_before = 0
        while n_before < (n_reached := int(np.count_nonzero(reached))) < reached.size:
            n_before = n_reached
            reached = reached | (reached[:, :, None] & ways).any(axis=1)
        are_connected &= reached.all(axis=1)
    return are_connected


def find_standing(wins: NDArray[np.float64]) -> Standing:
    """Find who can be rated against each other, from wins of shape (n_entrants, n_entrants)."""
    reaches = chains_of_wins(wins)
    connected = reaches & reaches.T
    sizes = connected.sum(axis=1)
    size = sizes.max(initial=0)
    rated = sizes == size
    if size >= 2 and rated.sum() == size:
        member = int(np.argmax(rated))
        return Standing(
            rated=rated,
            unbounded_above=reaches[:, member] & ~rated,
            unbounded_below=reaches[member, :] & ~rated,
        )
    won, lost = wins.sum(axis=1) > 0, wins.sum(axis=0) > 0
    return Standing(
        rated=np.zeros_like(rated), unbounded_above=won & ~lost, unbounded_below=lost & ~won
    )


def chains_of_wins(wins: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether wins lead from the row's entrant to the column's, directly or not."""
    # Squaring doubles the length of the chains found, so few rounds reach everyone.
    reaches = (wins > 0) | np.eye(wins.shape[0], dtype=np.bool_)
    while True:
        steps = reaches.astype(np.float32)
        longer = (steps @ steps) > 0
        if np.array_equal(longer, reaches):
            return reaches
        reaches = longer


ELO_PER_NAT = 400.0 / math.log(10.0)
"""Elo points per unit of log strength."""

_MAX_STEPS = 200


def fit_bradley_terry(matches: Matches, *, initial_rating: float = 1400.0) -> tuple[Rating, ...]:
    """Rate the entrants that the matches connect, as `rate_wins` does.

    Args:
        matches: Who beat whom; a tie is half a win for each.
        initial_rating: Mean of the ratings, in Elo points.
    """
    return rate_wins(matches.entrants, matches.wins, initial_rating=initial_rating)


def rate_wins(
    entrants: tuple[str, ...], wins: NDArray[np.float64], *, initial_rating: float = 1400.0
) -> tuple[Rating, ...]:
    """Rate the entrants that wins connect, and note why the others have no rating.

    Ratings compare two entrants only where chains of wins lead from each to the other. The largest
    such group is rated by the matches among its members; everyone else gets a note.

    Args:
        entrants: Rows and columns of the table.
        wins: How often the row's entrant beat the column's, shape (n_entrants, n_entrants).
        initial_rating: Mean of the ratings, in Elo points.

    Returns:
        One result per entrant, in the order of the tables.

    Raises:
        RatingError: If the likelihood could not be maximised.
    """
    standing = find_standing(wins)
    ratings = np.full(len(entrants), np.nan)
    ratings[standing.rated] = initial_rating + _group_ratings(wins, standing.rated)
    return tuple(
        Rating(
            float(ratings[index]) if standing.rated[index] else None,
            note=_note(index, wins, standing),
            entrant=entrant,
        )
        for index, entrant in enumerate(entrants)
    )


DrawWins = Callable[[int], NDArray[np.float64]]
"""Returns the tables of that many further resamples, shape (n_tables, n_entrants, n_entrants)."""


@dataclass(frozen=True, slots=True, eq=False)
class ResampledWins:
    """Who beat whom, and how often in resamples of the prompts: what all of Bradley-Terry needs.

    Attributes:
        entrants: Rows and columns of all tables.
        wins: How often the row's entrant beat the column's, a tie as half a win for each, shape
            (n_entrants, n_entrants).
        n_prompts: Prompts that were judged.
        resampling: How many resamples there are, and the confidence of what follows from them.
        start: Begins with the first resample again.
    """

    entrants: tuple[str, ...]
    wins: NDArray[np.float64]
    n_prompts: int
    resampling: Resampling
    start: Callable[[], DrawWins]

    @classmethod
    def of(cls, matches: Matches, resampling: Resampling) -> "ResampledWins":
        """Draw as many prompts as were judged, with replacement, for every resample."""
        return cls(
            matches.entrants,
            matches.wins,
            len(matches.prompts),
            resampling,
            lambda: PromptResamples(matches, seed=resampling.seed).draw,
        )

    def drawn_once(self) -> "ResampledWins":
        """Return the same with its resamples in memory, where that is little."""
        n_tables = self.resampling.n
        if not 0 < n_tables * self.wins.size <= CELLS_AT_ONCE:
            return self
        tables = self.start()(n_tables)

        def start() -> DrawWins:
            remaining = iter(tables)
            return lambda n_more: np.array([*islice(remaining, n_more)])

        return replace(self, start=start)

    def plus(self, wins: NDArray[np.float64]) -> "ResampledWins":
        """Return the same with further wins in every table, shape (n_entrants, n_entrants)."""

        def start() -> DrawWins:
            draw = self.start()
            return lambda n_tables: draw(n_tables) + wins

        return replace(self, wins=self.wins + wins, start=start)


def rate_resamples(tables: ResampledWins, *, initial_rating: float = 1400.0) -> BootstrapRatings:
    """Rate the entrants that have a rating on resamples of the wins between them.

    Where a resample leaves the rated entrants unconnected, its largest connected group is rated so
    that the group averages to what its members average to on all prompts; the others are infinite
    on the side that the resample does not bound, or NaN. No resample is dropped.

    Args:
        tables: Who beat whom; a tie is half a win for each.
        initial_rating: Mean of the ratings, in Elo points.

    Returns:
        One row of ratings per resample, with a column of NaN for an entrant that has no rating.

    Raises:
        InputError: If no resample is asked for.
        RatingError: If a likelihood could not be maximised.
    """
    n_bootstraps = tables.resampling.n
    require_count("n_bootstraps", n_bootstraps)
    rated = find_standing(tables.wins).rated
    strengths = log_strengths(_among(tables.wins, rated))
    ratings = np.full((n_bootstraps, len(tables.entrants)), np.nan)
    if strengths.size:
        newton = SimplifiedNewton.at(strengths, _among(tables.wins, rated))
        at_once = max(1, CELLS_AT_ONCE // tables.wins.size)
        draw_wins = tables.start()
        for start in range(0, n_bootstraps, at_once):
            drawn = _among(draw_wins(min(at_once, n_bootstraps - start)), rated)
            fitted, outcomes = newton.fit(drawn)
            fitted *= ELO_PER_NAT
            _rate_unfitted(fitted, drawn, outcomes, point=strengths * ELO_PER_NAT)
            ratings[start : start + at_once, rated] = fitted
    return BootstrapRatings(tables.entrants, initial_rating + ratings, tables.n_prompts)


def log_strengths(wins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maximise the likelihood of tables of wins that connect everyone in both directions.

    Args:
        wins: How often the row's entrant beat the column's, shape (..., n, n).

    Returns:
        Natural logarithms of the strengths, shape (..., n); they average to 0.

    Raises:
        RatingError: If Newton's method does not converge.
    """
    won, lost = wins.sum(axis=-1), wins.sum(axis=-2)
    # Everyone's own odds are near the maximum where all meet all, and save half of the steps.
    strengths: NDArray[np.float64] = np.log((won + 0.5) / (lost + 0.5))
    if strengths.size == 0:
        return strengths
    matches = wins + np.swapaxes(wins, -1, -2)
    diagonal = np.arange(wins.shape[-1])
    for _ in range(_MAX_STEPS):
        # The row's share of the matches is half of 1 + tanh. Tables may be large: work in place.
        halves = strengths / 2
        share = np.tanh(halves[..., :, None] - halves[..., None, :])  # (..., n, n)
        share += 1
        share /= 2
        expected = matches * share
        gradient = won - expected.sum(axis=-1)
        curvature = np.subtract(1, share, out=share)
        curvature *= expected
        scale = curvature.sum(axis=-1)
        # Only differences matter to the likelihood. The added constant gives the matrix an inverse
        # and leaves the steps alone, since they sum to zero.
        hessian = scale.mean(axis=-1)[..., None, None] - curvature
        hessian[..., diagonal, diagonal] += scale
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        width = np.ptp(step, axis=-1)
        # No logit moves by more than `width`, which bounds how fast the curvature can change: this
        # part of the step always climbs, and nears the whole step as the maximum is neared.
        part = np.log1p(width) / np.where(width > 0, width, 1.0)
        strengths += np.where(width > 0, part, 1.0)[..., None] * step
        if width.max() < 1e-8:
            centre: NDArray[np.float64] = strengths.mean(axis=-1, keepdims=True)
            return strengths - centre
    raise RatingError(
        f"the Bradley-Terry likelihood still rises after {_MAX_STEPS} Newton steps; "
        "expected matches that determine the ratings"
    )


def _group_ratings(wins: NDArray[np.float64], rated: NDArray[np.bool_]) -> NDArray[np.float64]:
    return log_strengths(_among(wins, rated)) * ELO_PER_NAT


def _among(wins: NDArray[np.float64], group: NDArray[np.bool_]) -> NDArray[np.float64]:
    # Selecting everyone would copy the table for nothing.
    return wins if group.all() else wins[..., group, :][..., group]


def _rate_unfitted(
    fitted: NDArray[np.float64],
    tables: NDArray[np.float64],
    outcomes: NDArray[np.int64],
    *,
    point: NDArray[np.float64],
) -> None:
    """Rate, in place, the tables that `SimplifiedNewton.fit` could not, equal tables only once.

    Thousands of resamples of a few prompts hold few distinct tables.
    """
    by_key: dict[bytes, NDArray[np.float64]] = {}
    for index in np.flatnonzero(outcomes != FITTED):
        wins = tables[index]
        key = wins.tobytes()
        if key not in by_key:
            by_key[key] = (
                _degenerate_ratings(wins, point)
                if outcomes[index] == UNCONNECTED
                else log_strengths(wins) * ELO_PER_NAT
            )
        fitted[index] = by_key[key]


def _degenerate_ratings(
    wins: NDArray[np.float64], point: NDArray[np.float64]
) -> NDArray[np.float64]:
    standing = find_standing(wins)
    ratings = np.full(point.size, np.nan)
    ratings[standing.unbounded_above] = np.inf
    ratings[standing.unbounded_below] = -np.inf
    if standing.rated.any():
        centre = point[standing.rated].mean()
        ratings[standing.rated] = centre + _group_ratings(wins, standing.rated)
    return ratings


def _note(index: int, wins: NDArray[np.float64], standing: Standing) -> str | None:
    if standing.rated[index]:
        return None
    won, lost = wins[index].any(), wins[:, index].any()
    if not won and not lost:
        return "no judged match"
    if not lost:
        return "won every match: no upper bound"
    if not won:
        return "lost every match: no lower bound"
    if standing.unbounded_above[index]:
        return "never lost to the rated entrants, directly or through others: no upper bound"
    if standing.unbounded_below[index]:
        return "never beat the rated entrants, directly or through others: no lower bound"
    if standing.rated.any():
        return "no wins or losses connect it to the rated entrants"
    return "no single largest group of entrants has both beaten and lost to one another"


FITTED = 0
"""The strengths maximise the likelihood."""

UNCONNECTED = 1
"""Wins do not lead from everyone to everyone: there is no maximum."""

UNSETTLED = 2
"""The steps did not shrink fast enough: the table is too far from the known one."""

_MAX_CHORD_STEPS = 60
_DRAWN_AT_ONCE = 65_536
_SLOWEST_SHRINKING = 0.7
_CELLS_IN_CACHE = 16_384
_LAST_STEP = 1e-12  # in log strength: what is left to go is at most three times as far


@dataclass(frozen=True, slots=True, eq=False)
class SimplifiedNewton:
    """A known fit, from which similar tables are fitted.

    Attributes:
        strengths: Natural logarithms of the strengths, shape (n,); they average to 0.
        inverse: Of the likelihood's curvature there, shape (n, n); it maps a surplus of wins over
            expected wins to a step of the strengths.
    """

    strengths: NDArray[np.float64]
    inverse: NDArray[np.float64]

    @classmethod
    def at(cls, strengths: NDArray[np.float64], wins: NDArray[np.float64]) -> "SimplifiedNewton":
        """Start from the strengths fitted to a table of wins."""
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
            Logarithms of the strengths, shape (n_tables, n), and the status of each table: FITTED,
            or UNCONNECTED or UNSETTLED, where its strengths mean nothing.
        """
        at_once = max(1, _CELLS_IN_CACHE // max(1, tables[0].size))
        parts = [
            self._climb(tables[start : start + at_once]) for start in range(0, len(tables), at_once)
        ]
        strengths, outcomes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return strengths - strengths.mean(axis=1, keepdims=True), outcomes

    def _climb(self, tables: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        outcomes = np.where(are_strongly_connected(tables), UNSETTLED, UNCONNECTED)
        strengths = np.tile(self.strengths, (len(tables), 1))
        climbing = np.flatnonzero(outcomes == UNSETTLED)
        wins = tables if climbing.size == len(tables) else tables[climbing]
        won = tables.sum(axis=2)
        width = np.full(climbing.size, np.inf)
        for _ in range(_MAX_CHORD_STEPS):
            # With s = exp(strength), someone expects s * sum(matches / (s + s of the other)) wins,
            # and each of the matches is a win of one of the two.
            with np.errstate(all="ignore"):
                scores = np.exp(strengths[climbing])
                shares = wins / (scores[:, :, None] + scores[:, None, :])
                expected = scores * (shares.sum(axis=2) + shares.sum(axis=1))
                steps = (won[climbing] - expected) @ self.inverse
                strengths[climbing] += steps
                before, width = width, np.ptp(steps, axis=1)
            is_fitted = width < _LAST_STEP
            outcomes[climbing[is_fitted]] = FITTED
            # Written so that NaN is unsettled, too.
            goes_on = ~is_fitted & (width < _SLOWEST_SHRINKING * before)
            if not goes_on.any():
                break
            if not goes_on.all():
                climbing, width, wins = climbing[goes_on], width[goes_on], wins[goes_on]
        return strengths, outcomes


class PromptResamples:
    """Resamples of the prompts, drawn with replacement, as tables of wins; a tie is two halves."""

    def __init__(self, matches: Matches, *, seed: int) -> None:
        self._n_entrants = len(matches.entrants)
        self._n_prompts = len(matches.prompts)
        self._generator = np.random.default_rng(seed)
        wins = matches.as_wins()
        order = np.argsort(wins.prompt_index, kind="stable")
        self._prompts = wins.prompt_index[order]
        self._pairs = (wins.first * self._n_entrants + wins.second)[order]
        self._weights = wins.weight[order]

    def draw(self, n_tables: int) -> NDArray[np.float64]:
        """Return `Matches.wins` of further resamples, shape (n_tables, n_entrants, n_entrants).

        The result does not depend on whether they are drawn in one call or in several.
        """
        wins = np.zeros((n_tables, self._n_entrants**2))
        at_once = max(1, _DRAWN_AT_ONCE // max(1, self._n_prompts))
        for start in range(0, n_tables, at_once):
            part = wins[start : start + at_once]
            size = len(part), self._n_prompts
            drawn = self._generator.integers(max(1, self._n_prompts), size=size)
            for table, prompts in zip(part, drawn, strict=True):
                counts = np.bincount(prompts, minlength=self._n_prompts)
                weights = counts[self._prompts] * self._weights
                table[:] = np.bincount(self._pairs, weights, minlength=table.size)
        return wins.reshape(n_tables, self._n_entrants, self._n_entrants)
