"""Strengths and a tie parameter by maximum likelihood: Davidson's extension of Bradley-Terry.

Two entrants of strengths p and q beat each other and tie with chances in the proportions p : q : v
sqrt(p q). Between equals the chance of a tie is v / (2 + v). In Bradley-Terry with ties as half
wins, every tie pulls two ratings together; here ties have a rate of their own, which belongs to the
judge. Source: Davidson, "On extending the Bradley-Terry model to accommodate ties in paired
comparison experiments", https://doi.org/10.1080/01621459.1970.10481082.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import RatingError
from tournament_assets.foundation.estimates import Rating
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.matches import Matches

_MAX_STEPS = 200

ONLY_TIES = "only ties connect the entrants: the tie parameter has no upper bound"
TIES_WITHOUT_BOUND = (
    "too few upsets tell strength from the readiness to tie: both grow without bound"
)


@dataclass(frozen=True, slots=True)
class TieModelFit:
    """Ratings by a model in which two entrants beat each other or tie.

    Attributes:
        ratings: One per entrant, in the order of the tables.
        tie_parameter: Davidson's v; 0 where nobody ever tied, infinite where the battles set it
            no upper bound, None where nobody can be rated for another reason.
    """

    ratings: tuple[Rating, ...]
    tie_parameter: float | None


def fit_davidson(matches: Matches, *, initial_rating: float = 1400.0) -> TieModelFit:
    """Rate the entrants that the battles connect, with a chance of ties between equals.

    As for Bradley-Terry, the largest group is rated in which chains of wins and ties lead from
    everyone to everyone. Within it the strengths exist only if some chain of battles leads back to
    its start with more wins than ties on it; otherwise the model explains the data ever better as
    the strengths and the tie parameter grow together, and nobody is rated.

    Args:
        matches: Wins, losses and ties.
        initial_rating: Mean of the ratings, in Elo points.

    Raises:
        InputError: If a preference is not 0, 1/2 or 1.
        RatingError: If the likelihood could not be maximised.
    """
    matches.require_hard("Davidson's model")
    half_ties = fit_bradley_terry(matches)
    members = np.flatnonzero([result.value is not None for result in half_ties])
    inside = np.ix_(members, members)
    wins, ties = matches.outright_wins[inside], matches.ties[inside]
    ratings = np.full(len(half_ties), np.nan)
    reason, tie_parameter = None, None
    if members.size == 0:
        reason = "no entrant can be rated"
    elif not wins.any():
        reason, tie_parameter = ONLY_TIES, math.inf
    elif ties.any() and not _has_chain_of_more_wins_than_ties(wins, ties):
        reason, tie_parameter = TIES_WITHOUT_BOUND, math.inf
    else:
        strengths, tie_parameter = _maximise(wins, ties)
        ratings[members] = initial_rating + ELO_PER_NAT * strengths
    return TieModelFit(
        ratings=tuple(
            Rating(
                None if np.isnan(rating) else rating,
                note=reason if result.note is None else result.note,
                entrant=result.entrant,
            )
            for result, rating in zip(half_ties, ratings.tolist(), strict=True)
        ),
        tie_parameter=tie_parameter,
    )


def _log_likelihood(
    wins: NDArray[np.float64],
    ties: NDArray[np.float64],
    strengths: NDArray[np.float64],
    tie_parameter: float,
) -> float:
    """Return the natural logarithm of the chance of these outcomes, by log strengths."""
    half_gap = (strengths[:, None] - strengths[None, :]) / 2
    scale = _log_scale(half_gap, tie_parameter)
    total = (wins * (half_gap - scale)).sum() - (ties * scale).sum() / 2
    if ties.any():
        total += ties.sum() / 2 * math.log(tie_parameter)
    return float(total)


def _log_scale(half_gap: NDArray[np.float64], tie_parameter: float) -> NDArray[np.float64]:
    # log(exp(x) + exp(-x) + v), written so that no exponent is positive.
    size = np.abs(half_gap)
    scale: NDArray[np.float64] = size + np.log1p(np.exp(-2 * size) + tie_parameter * np.exp(-size))
    return scale


def _maximise(
    wins: NDArray[np.float64], ties: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return log strengths, averaging to 0, and the tie parameter: 0 where nobody tied."""
    n = wins.shape[0]
    has_ties = bool(ties.any())
    matches = wins + wins.T + ties  # each pair counts twice, once in each half
    scored = wins.sum(axis=1) + ties.sum(axis=1) / 2
    strengths = np.zeros(n)
    # Equals would tie at this rate; without ties the parameter stays at its bound.
    log_tie = math.log(ties.sum() / wins.sum()) if has_ties else -math.inf
    value = _log_likelihood(wins, ties, strengths, math.exp(log_tie))
    for _ in range(_MAX_STEPS):
        half_gap = (strengths[:, None] - strengths[None, :]) / 2
        scale = _log_scale(half_gap, math.exp(log_tie))
        won = np.exp(half_gap - scale)
        tied = np.exp(log_tie - scale) if has_ties else np.zeros_like(scale)
        lead = won - won.T
        gradient = np.zeros(n + 1)
        gradient[:n] = scored - (matches * (won + tied / 2)).sum(axis=1)
        gradient[n] = (ties - matches * tied).sum() / 2
        curvature = matches * (won + won.T - lead**2) / 4
        hessian = np.zeros((n + 1, n + 1))
        # Only differences of strengths matter. The added constant gives the matrix an inverse.
        hessian[:n, :n] = curvature.sum() / n**2 - curvature
        hessian[np.arange(n), np.arange(n)] += curvature.sum(axis=1)
        hessian[:n, n] = hessian[n, :n] = -(matches * lead * tied).sum(axis=1) / 2
        hessian[n, n] = (matches * tied * (1 - tied)).sum() / 2 if has_ties else 1.0
        step = np.linalg.solve(hessian, gradient)
        share = 1.0
        while True:
            moved, moved_tie = strengths + share * step[:n], log_tie + share * float(step[n])
            moved_value = _log_likelihood(wins, ties, moved, math.exp(min(moved_tie, 700.0)))
            # At the top only rounding changes the value, so the step need not be halved.
            if moved_value >= value - 1e-12 * abs(value) or share < 1e-9:
                break
            share /= 2
        strengths = moved - moved.mean()
        log_tie, value = moved_tie, moved_value
        if np.abs(step).max() < 1e-9:
            return strengths, math.exp(log_tie)
    raise RatingError(
        f"the likelihood of Davidson's model still rises after {_MAX_STEPS} Newton steps; "
        "expected battles that determine the strengths and the tie parameter"
    )


def _has_chain_of_more_wins_than_ties(wins: NDArray[np.float64], ties: NDArray[np.float64]) -> bool:
    # Strengths and tie parameter can grow together without end exactly if heights exist at which
    # every winner stands at least one above the loser and no tied two are more than one apart. Such
    # heights exist unless a closed chain counts more wins than ties; the longest chains between
    # any two (Floyd and Warshall) find one.
    length = np.where(wins > 0, 1.0, np.where(ties > 0, -1.0, -np.inf))
    np.fill_diagonal(length, 0.0)
    for middle in range(length.shape[0]):
        length = np.maximum(length, length[:, middle, None] + length[None, middle, :])
        if (np.diagonal(length) > 0).any():
            return True
    return False
