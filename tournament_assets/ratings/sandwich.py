"""Standard errors of Bradley-Terry ratings that hold when the model does not.

The curvature of the likelihood alone assumes that battles are independent and that the model is
right. The sandwich instead measures how much the scores of whole prompts vary.
Sources: White, "Maximum likelihood estimation of misspecified models",
https://doi.org/10.2307/1912526; Liang and Zeger, "Longitudinal data analysis using generalized
linear models", https://doi.org/10.1093/biomet/73.1.13 (clusters).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.estimates import CELLS_AT_ONCE, Rating
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import Matches, require_confidence


@dataclass(frozen=True, slots=True, eq=False)
class SandwichFit:
    """Bradley-Terry ratings with robust standard errors.

    Attributes:
        ratings: One per entrant, in the order of the tables; without an error where the battles do
            not determine the rating or prompts show no spread, and a note says which.
        covariance: Elo points squared, shape (n_entrants, n_entrants); NaN where there is no error.
        n_prompts: How many prompts have a match among the rated entrants.
    """

    ratings: tuple[Rating, ...]
    covariance: NDArray[np.float64]
    n_prompts: int


def sandwich_bradley_terry(
    matches: Matches, *, confidence: float, initial_rating: float = 1400.0
) -> SandwichFit:
    """Rate the entrants by Bradley-Terry, with the error that comes from sampling prompts.

    Intervals take Student's t with one degree of freedom less than there are prompts, and the
    covariance the factor n / (n - 1). They are symmetric, and know nothing of resamples that
    would leave a rating open: with few battles, trust the bootstrap.

    Args:
        matches: Who met whom; a soft preference is a share of a win.
        initial_rating: Mean of the ratings, in Elo points.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    require_confidence(confidence)
    results = fit_bradley_terry(matches, initial_rating=initial_rating)
    members = np.flatnonzero([result.value is not None for result in results])
    n_entrants = len(matches.entrants)
    covariance = np.full((n_entrants, n_entrants), np.nan)
    ratings = np.array([np.nan if each.value is None else each.value for each in results])
    scores = _battle_scores(matches, ratings)
    prompts = matches.prompt_index[scores.rows]
    n_prompts = int(np.count_nonzero(np.bincount(prompts)))
    if members.size and n_prompts > 1:
        inside = np.ix_(members, members)
        bread = np.zeros((n_entrants, n_entrants))
        bread[inside] = contrast_inverse(scores.information[inside])
        spread = _spread(scores, prompts, bread)
        covariance[inside] = spread[inside] * (ELO_PER_NAT**2 * n_prompts / (n_prompts - 1))
    rated = [
        with_error(result, variance, n_prompts=n_prompts, confidence=confidence)
        for result, variance in zip(results, np.diagonal(covariance), strict=True)
    ]
    unknown = [index for index, each in enumerate(rated) if each.standard_error is None]
    covariance[unknown, :] = covariance[:, unknown] = np.nan
    return SandwichFit(tuple(rated), covariance, n_prompts)


@dataclass(frozen=True, slots=True)
class SamplingLuck:
    """The part of a rating's error that comes from sampling responses rather than prompts.

    Attributes:
        luck: Standard error, Elo points: what the rating would vary by if the same prompts were
            answered and judged again, as often as they were. None where it cannot be measured.
        standard_error: Of the rating over prompts, Elo points; luck is a part of it.
        n_prompts: Prompts with two judged samples or more, on which it is measured.
        n_samples: The samples of these.
    """

    entrant: str
    luck: float | None
    standard_error: float | None
    n_prompts: int
    n_samples: int


def sampling_luck(samples: Matches) -> tuple[SamplingLuck, ...]:
    """Separate the variation between samples of a prompt from that between prompts.

    To first order a rating is a sum over samples. The spread of the terms within a prompt, added up
    over prompts, is the variance that other samples of the same prompts would show; prompts with
    one judged sample are taken to vary as the others do. It includes how the judge's verdicts vary
    with the texts, but not how they vary on the same texts.

    Args:
        samples: Who met whom, every sample of a prompt for itself, as `code_samples` has them.

    Returns:
        In the order of the entrants.
    """
    n_entrants = len(samples.entrants)
    whole = samples.averaged_over_samples()
    spread = sandwich_bradley_terry(whole, confidence=0.95).ratings
    members = np.flatnonzero([each.value is not None for each in spread])
    ratings = np.array([np.nan if each.value is None else each.value for each in spread])
    weighed = samples.weighed_by_sample()
    scores = _battle_scores(weighed, ratings)
    sample_keys = np.stack([samples.prompt_index, samples.sample_numbers])[:, scores.rows]
    judged, of_unit = np.unique(sample_keys, axis=1, return_inverse=True)
    units = of_unit.reshape(-1)
    prompts = np.unique(judged[0], return_inverse=True)[1]
    sizes = np.bincount(prompts)
    is_several = sizes > 1
    variance = np.full(n_entrants, np.nan)
    if members.size and is_several.any():
        bread = contrast_inverse(scores.information[np.ix_(members, members)])
        by_unit = _scores_by_unit(scores, units, judged.shape[1], n_entrants)
        moved = by_unit[:, members] @ bread * ELO_PER_NAT
        means = np.zeros((sizes.size, members.size))
        np.add.at(means, prompts, moved)
        means /= sizes[:, None]
        squares = np.zeros_like(means)
        np.add.at(squares, prompts, (moved - means[prompts]) ** 2)
        within, n = squares[is_several], sizes[is_several, None]
        variance[members] = (within * n / (n - 1)).sum(axis=0) * sizes.size / is_several.sum()
    return tuple(
        SamplingLuck(
            entrant=each.entrant,
            luck=None if np.isnan(variance[index]) else float(np.sqrt(variance[index])),
            standard_error=each.standard_error,
            n_prompts=int(is_several.sum()),
            n_samples=int(sizes[is_several].sum()),
        )
        for index, each in enumerate(spread)
    )


def with_error(rating: Rating, variance: float, *, n_prompts: int, confidence: float) -> Rating:
    """Return a rating with its error and its interval, or with a note where prompts show none.

    Args:
        variance: In Elo points squared; NaN where it is not known.
    """
    if rating.value is None:
        return rating
    # Rounding leaves a few times 1e-16 where prompts agree to the last battle.
    if not variance > 1e-18 * ELO_PER_NAT**2:
        return replace(rating, note=no_spread_note(n_prompts))
    error = float(np.sqrt(variance))
    reach = error * two_sided_quantile(confidence, degrees_of_freedom=n_prompts - 1)
    low, high = rating.value - reach, rating.value + reach
    return replace(rating, low=low, high=high, standard_error=error)


def no_spread_note(n_prompts: int) -> str:
    """Explain why a rating has no error: too few prompts, or no spread between them."""
    return f"no spread between prompts ({n_prompts} judged), so the error cannot be measured"


@dataclass(frozen=True, slots=True, eq=False)
class _BattleScores:
    # What each battle between rated entrants asks of the first one's log strength; the second's
    # is the negative. `information` is the negative second derivative of the log-likelihood.
    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    pull: NDArray[np.float64]
    information: NDArray[np.float64]


def _battle_scores(matches: Matches, ratings: NDArray[np.float64]) -> _BattleScores:
    rated = np.isfinite(ratings)
    rows = np.flatnonzero(rated[matches.first] & rated[matches.second])
    first, second = matches.first[rows], matches.second[rows]
    weight = matches.weight[rows]
    gap = (ratings[first] - ratings[second]) / ELO_PER_NAT
    expected = 1 / (1 + np.exp(-gap))
    return _BattleScores(
        rows=rows,
        first=first,
        second=second,
        pull=weight * (matches.preference[rows] - expected),
        information=laplacian(first, second, weight * expected * (1 - expected), ratings.size),
    )


def laplacian(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_entrants: int,
) -> NDArray[np.float64]:
    """Sum `weights` times the outer square of (first - second), shape (n_entrants, n_entrants)."""
    flat = np.bincount(first * n_entrants + second, weights, minlength=n_entrants**2)
    between = flat.astype(np.float64).reshape(n_entrants, n_entrants)
    between = between + between.T
    return np.diag(between.sum(axis=1)) - between


def contrast_inverse(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Moore-Penrose inverse of the `laplacian` of battles that connect all entrants.

    The likelihood is flat along the vector of ones, so the table has exactly one eigenvalue of 0.
    Rounding makes that a tiny number, and a pseudo-inverse, which goes by size, may invert it. Here
    the direction is known: it is given an eigenvalue of its own, and centring the inverse takes
    that out again. Rows and columns sum to 0.
    """
    # With equal diagonals, entrants of few battles keep their digits beside those of a million.
    scale = np.sqrt(np.diagonal(table))
    between = np.outer(scale, scale)
    inverse = np.linalg.inv(table / between + between / (scale @ scale)) / between
    inverse -= inverse.mean(axis=0)
    centred: NDArray[np.float64] = inverse - inverse.mean(axis=1, keepdims=True)
    return centred


def _scores_by_unit(
    scores: _BattleScores,
    units: NDArray[np.int64],
    n_units: int,
    n_entrants: int,
    *,
    rows: NDArray[np.int64] | slice = slice(None),
) -> NDArray[np.float64]:
    first, second, pull = scores.first[rows], scores.second[rows], scores.pull[rows]
    size = n_units * n_entrants
    gained = np.bincount(units * n_entrants + first, pull, minlength=size)
    lost = np.bincount(units * n_entrants + second, pull, minlength=size)
    return np.asarray(gained - lost, dtype=np.float64).reshape(n_units, n_entrants)


def _spread(
    scores: _BattleScores, prompts: NDArray[np.int64], bread: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum the outer squares of each prompt's influence on the log strengths."""
    n_entrants = bread.shape[0]
    # A prompt of one battle adds a rank-one table that needs no row of its own: in an arena nearly
    # every prompt is such a one, and rows for all of them would fill the memory.
    alone = np.bincount(prompts)[prompts] == 1
    squares = laplacian(
        scores.first[alone], scores.second[alone], scores.pull[alone] ** 2, n_entrants
    )
    spread = bread @ squares @ bread
    rows = np.flatnonzero(~alone)
    rows = rows[np.argsort(prompts[rows], kind="stable")]
    # Their prompts, sorted and numbered without gaps.
    compact = np.cumsum(np.diff(prompts[rows], prepend=prompts[rows[:1]]) != 0)
    n_shared = int(compact[-1]) + 1 if rows.size else 0
    at_once = max(1, CELLS_AT_ONCE // n_entrants)
    for start in range(0, n_shared, at_once):
        stop = min(n_shared, start + at_once)
        here = slice(*np.searchsorted(compact, [start, stop]))
        # Squared last: what a prompt asks of one entrant may nearly cancel, and squares of the
        # terms would keep only half of the digits.
        units, n_units = compact[here] - start, stop - start
        moved = _scores_by_unit(scores, units, n_units, n_entrants, rows=rows[here]) @ bread
        spread = spread + moved.T @ moved
    return np.asarray(spread)
